"""`headrace beat`: beats for the leases of the settings' workers between the workers' ticks. It is needed beside
KCL's workers.
"""

import argparse
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.telling import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Event, Thread

    from headrace.pipeline.app.wiring import Wiring
    from headrace.pipeline.cli.options import Subparsers

_LOOK_EVERY = 0.5
_LAST_TURN = 2.0
"""Seconds for a turn that is at work to end."""


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "beat",
        description="Beat for the leases of the settings' workers, every third of the failover time, until Ctrl-C or "
        "SIGTERM (exit code 0). It is for kcl.beat: process and processors.N.beat: process, in deployments without "
        "`headrace dev`, which starts it itself. Without a worker's ticks and runs it falls silent after two minutes, and "
        "goes on with the worker's next tick. A second one beside it does no harm.",
    )
    add_config(parser)
    parser.add_argument("--ends-with-input", action="store_true", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    from threading import Event

    from headrace.pipeline.app.beating import beaten_wirings
    from headrace.pipeline.cli.beside.services import stopped_by_signals
    from headrace.pipeline.errors import BadSetting

    settings = load(args).settings
    wirings = beaten_wirings(settings)
    # Refused, and not done all the same: this process would keep leases whose worker counts as dead
    # by its ticks, and nobody would expect that.
    if not wirings:
        raise BadSetting(
            f"kcl.beat is {settings.kcl.beat}, and no processor has another `beat`, so the workers' ticks beat, and "
            "nothing was started: say kcl.beat: process, or processors.N.beat: process, where this command is to beat "
            "between them"
        )
    over = Event()
    with stopped_by_signals():
        try:
            _beat(wirings, over, ends_with_input=args.ends_with_input)
        except KeyboardInterrupt:
            over.set()
    return 0


def _beat(wirings: "Sequence[Wiring]", over: "Event", *, ends_with_input: bool) -> None:
    from threading import Thread

    from headrace.pipeline.app.beating import Beating
    from headrace.pipeline.errors import ProcessDied

    # A thread for each worker of each application, so that none waits for the slow answer to another.
    threads = [
        Thread(
            target=Beating(wiring, worker.id, _teller(wiring)).until,
            args=(over.wait,),
            daemon=True,
            name=f"{worker.id} of {wiring.settings.application}",
        )
        for wiring in wirings
        for worker in wiring.settings.workers
    ]
    for thread in threads:
        thread.start()
    if ends_with_input:
        _end_with_input(over)
    while not over.wait(_LOOK_EVERY):
        dead = [thread.name for thread in threads if not thread.is_alive()]
        if dead:
            over.set()
            raise ProcessDied(
                f"the beats of {', '.join(dead)} ended by an unexpected error, which is printed above; no record is "
                "lost. Start the command again"
            )
    for thread in threads:
        thread.join(_LAST_TURN)


def _teller(wiring: "Wiring") -> "Callable[[str], None]":
    return lambda sentence: tell(f"{wiring.settings.application}, {sentence}")


def _end_with_input(over: "Event") -> "Thread":
    """End with the process that started this one, which holds its standard input open."""
    import sys
    from threading import Thread

    def read() -> None:
        sys.stdin.read()
        over.set()

    thread = Thread(target=read, daemon=True)
    thread.start()
    return thread
