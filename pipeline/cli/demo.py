"""`headrace demo`: two workers land a stream on this machine through two reshards, and every record is checked."""

import argparse
import os
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import port_number

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.demo.home import Home


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "demo",
        description="Make a stream on this machine, land its records while the stream is resharded, "
        "check every record of the table, give each to a record processor, parse some of them again into the typed table, "
        "and let `headrace prove` prove all tables. The exit code is 0 only if everything matched. "
        "The demo then keeps Dagster's UI open until Ctrl-C, and exits at once with DEMO_EXIT=1 in the "
        "environment or without a terminal.",
    )
    parser.add_argument("--records", type=_count, default=50_000, help="number of records (default: 50000)")
    parser.add_argument(
        "--home",
        default=".demo",
        metavar="FOLDER",
        help="folder of all that the demo writes; the demo empties it first (default: .demo)",
    )
    parser.add_argument(
        "--port",
        type=port_number,
        default=3000,
        help="port of Dagster's UI; where it is taken, the next free one (default: 3000)",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=90.0,
        metavar="SECONDS",
        help="give up when no record was put or landed for so long (default: 90)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="run nothing: check the table that the last demo left in --home once more",
    )


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.demo.home import as_it_was_left

    return judge_demo(as_it_was_left(Path(args.home))) if args.check else _show(args)


def _show(args: argparse.Namespace) -> int:
    from headrace.pipeline.cli.beside.holding import Holder, home_held, require_free
    from headrace.pipeline.cli.beside.other_dagster import require_no_process
    from headrace.pipeline.cli.beside.own_spark import spark_of_its_own
    from headrace.pipeline.cli.beside.services import HOST, is_port_free, stopped_by_signals
    from headrace.pipeline.cli.live.show import Show, say
    from headrace.pipeline.cli.live.watching import until_a_process_dies
    from headrace.pipeline.demo.home import Home, emptied
    from headrace.pipeline.lake.files.private_files import umask

    # The user's own `headrace dev` may have the port.
    port = next(port for port in range(args.port, 65536) if is_port_free(port))
    ui = f"http://{HOST}:{port}"
    # A `headrace dev` or another Dagster may run on the demo's settings.
    before = Home(Path(args.home).resolve()).dagster
    # Before the folder is emptied, with the files of whoever is at work in it.
    require_free(before)
    require_no_process(before)
    with (
        umask(private=True),
        stopped_by_signals(),
        emptied(Path(args.home)) as home,
        home_held(home.dagster, Holder(command="headrace demo", ui=ui)),
        spark_of_its_own(home.dagster, home.settings, name="headrace demo"),
        ExitStack() as started,
    ):
        show = Show(home, started, records=args.records, patience=args.patience)
        trouble = show.run(port)
        if trouble:
            say(f"{trouble}; sensors and runs: {ui}/overview, logs: {home.folder}/*.log")
            # What lands later is in some tables and not yet in others, which no comparison may take for a mistake.
            say("nothing is compared, because records may still be on their way")
            code = 1
        else:
            # All of them run, also after a failure: each says something else about the table.
            code = max(show.parse(), show.process(), show.replay(), judge_demo(home), show.prove())
        if os.environ.get("DEMO_EXIT") != "1" and sys.stdin.isatty() and sys.stdout.isatty():
            say(f"Dagster's UI at {ui} - press Ctrl-C to stop")
            with suppress(KeyboardInterrupt):
                until_a_process_dies(show.dagster)
        else:
            say(f"Dagster's UI was at {ui}; the table and all logs stay in {home.folder}")
        return code


def judge_demo(home: "Home") -> int:
    """Print the summary, and return the exit code: 0 only if everything matches."""
    from headrace.pipeline.demo.reading import (
        read_evidence,
        read_processed,
        read_puts,
        read_shards,
        read_typed,
        the_table,
    )
    from headrace.pipeline.demo.summary import summary
    from headrace.pipeline.demo.verdict import judge as decide

    puts, shards = read_puts(home.puts), read_shards(home.shards)
    evidence = read_evidence(
        the_table(home.lake), puts, shards, read_typed(home.lake), read_processed(home.lake)
    )
    verdict = decide(evidence)
    print("", *summary(evidence, verdict), "", verdict, "", sep="\n", flush=True)
    return 0 if verdict.matches else 1


def _count(given: str) -> int:
    count = int(given)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{given}: the demo needs one record at least")
    return count
