"""`headrace demo`: a stream, two workers and two reshards on this machine, and a summary to trust."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.cli.options import Subparsers
    from pipeline.cli.services import Group
    from pipeline.demo.home import Home
    from pipeline.demo.producers import Producers
    from pipeline.demo.progress import Progress
    from pipeline.local.endpoint import LocalAws

_SHARDS = 4
_PACE = 1250.0
"""Records a second: slow enough to watch, and the reshards fall between the puts."""
_LEAST_SECONDS = 10.0
_TELL_EVERY = 3.0
_LOOK_EVERY = 1.0
_STAND_IN_STARTS_WITHIN = 30.0


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "demo",
        description="Make a stream on this machine, land it while it is resharded, and check the table. "
        "Exits by itself with DEMO_EXIT=1 or without a terminal; 0 only if everything matched.",
    )
    parser.add_argument("--records", type=int, default=50_000, help="how many to put (default: 50000)")
    parser.add_argument(
        "--home", default=".demo", metavar="FOLDER", help="everything lives here; emptied first (default: .demo)"
    )
    parser.add_argument("--port", type=int, default=3000, help="the UI's, or the next free one (default: 3000)")
    parser.add_argument(
        "--patience", type=float, default=90.0, metavar="SECONDS", help="give up when nothing moves for so long"
    )
    parser.add_argument(
        "--check", action="store_true", help="run nothing: judge the table that the last demo left in --home again"
    )


def run(args: argparse.Namespace) -> int:
    from pipeline.cli.services import spark_of_its_own, stopped_by_signals, undisturbed
    from pipeline.demo.home import as_it_was_left, emptied

    if args.check:
        return _judge(as_it_was_left(Path(args.home)))
    with stopped_by_signals(), emptied(Path(args.home)) as home, spark_of_its_own(home.spark), ExitStack() as stack:
        demo = _Demo(args, home)
        try:
            with _stopping(stack):
                return demo.show(stack)
        except KeyboardInterrupt:
            if demo.code is None:
                raise
            return demo.code
        finally:
            with undisturbed():
                _say("stopping everything that was started")
                stack.close()


class _Demo:
    def __init__(self, args: argparse.Namespace, home: "Home") -> None:
        from pipeline.cli.services import is_free

        self.code: int | None = None
        """Once there is a summary."""
        self._records: int = args.records
        self._patience: float = args.patience
        self._home = home
        self._port = next(port for port in range(args.port, 65536) if is_free(port))
        self._began = time.monotonic()

    def show(self, stack: ExitStack) -> int:
        _say(f"{self._records:,} records for a stream of {_SHARDS} shards; everything lives in {self._home.folder}")
        aws = self._stand_in(stack)
        dagster = self._dagster(stack, aws)
        trouble = self._land(stack, aws, dagster)
        self.code = max(_judge(self._home), 1 if trouble else 0)
        if trouble:
            _say(f"{trouble}; runs and sensors: {self._ui}, logs: {self._home.folder}/*.log")
        if os.environ.get("DEMO_EXIT") != "1" and sys.stdin.isatty() and sys.stdout.isatty():
            _say(f"UI at {self._ui} - press Ctrl-C to stop")
            dagster.wait()
        return self.code
