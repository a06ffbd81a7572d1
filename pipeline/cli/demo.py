"""`headrace demo`: a stream, two workers and two reshards on this machine, and a summary to trust."""

import argparse
import os
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.cli.options import Subparsers
    from pipeline.demo.home import Home


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "demo",
        description="Make a stream on this machine, land it while it is resharded, and check the table. "
        "Exits by itself with DEMO_EXIT=1 or without a terminal: 0 only if everything matched.",
    )
    parser.add_argument("--records", type=_count, default=50_000, help="how many to put (default: 50000)")
    parser.add_argument(
        "--home",
        default=".demo",
        metavar="FOLDER",
        help="everything lives here; emptied first (default: .demo)",
    )
    parser.add_argument(
        "--port", type=int, default=3000, help="the UI's, or the next free one (default: 3000)"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=90.0,
        metavar="SECONDS",
        help="give up when nothing moves for so long",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="run nothing: judge the table that the last demo left in --home again",
    )


def run(args: argparse.Namespace) -> int:
    from pipeline.demo.home import as_it_was_left

    return judge(as_it_was_left(Path(args.home))) if args.check else _show(args)


def _show(args: argparse.Namespace) -> int:
    from pipeline.cli.services import HOST, is_free, spark_of_its_own, stopped_by_signals
    from pipeline.cli.show import Show, say
    from pipeline.demo.home import emptied

    port = next(port for port in range(args.port, 65536) if is_free(port))
    ui = f"http://{HOST}:{port}"
    with (
        stopped_by_signals(),
        emptied(Path(args.home)) as home,
        spark_of_its_own(home.dagster),
        ExitStack() as started,
    ):
        show = Show(home, started, records=args.records, patience=args.patience)
        trouble = show.run(port)
        if trouble:
            say(f"{trouble}; sensors and runs: {ui}/overview, logs: {home.folder}/*.log")
        code = max(judge(home), 1 if trouble else 0)
        if os.environ.get("DEMO_EXIT") != "1" and sys.stdin.isatty() and sys.stdout.isatty():
            say(f"UI at {ui} - press Ctrl-C to stop")
            with suppress(KeyboardInterrupt):
                show.dagster.wait()
        else:
            say(f"the UI was at {ui}; the table and all logs stay in {home.folder}")
        return code


def judge(home: "Home") -> int:
    """Print the summary; 0 only if everything matches."""
    from pipeline.demo.reading import read_evidence, read_puts, read_shards, the_table
    from pipeline.demo.summary import summary
    from pipeline.demo.verdict import judge as decide

    evidence = read_evidence(the_table(home.lake), read_puts(home.puts), read_shards(home.shards))
    verdict = decide(evidence)
    print("", *summary(evidence, verdict), "", verdict, "", sep="\n", flush=True)
    return 0 if verdict.matches else 1


def _count(given: str) -> int:
    count = int(given)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{given} records are none")
    return count
