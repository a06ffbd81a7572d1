"""`headrace give-back`: write the lake table's positions into the lease rows, so that KCL's workers go on
from there."""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.cli.adopt import agree, known_streams
from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.stop import beats_of
from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.cli.views.json_output import print_json
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import BadSetting, TablesMissing, Unreachable
from headrace.pipeline.settings.arguments import duration

if TYPE_CHECKING:
    from headrace.pipeline.beside_kcl.adoption import Adopting
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.ports.leases import WorkerStore
    from headrace.pipeline.settings.model import Settings

# The default lease duration (20 s) and two ticks of a worker (5 s each).
_WATCH = timedelta(seconds=30)


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "give-back",
        description="Hand the application to KCL's workers: each lease row gets the position of the lake table, "
        "and no owner. Stop Headrace's workers first (`headrace stop`).",
    )
    add_config(parser)
    parser.add_argument(
        "--watch",
        metavar="TIME",
        type=duration,
        default=_WATCH,
        help="where workers still hold leases: how long to watch whether they beat (default: 30s); "
        "the leases of a worker that doesn't beat are given back, too",
    )
    parser.add_argument(
        "--json", action="store_true", help="print what would be written, as JSON, and change nothing"
    )
    parser.add_argument("--yes", action="store_true", help="don't ask for confirmation")


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.wiring import wire

    settings = load(args).settings
    wiring = wire(settings)
    return give_back(wiring.decisions.adopting(), wiring.ports.workers(), settings, args, pause=time.sleep)


def give_back(
    adopting: "Adopting",
    workers: "WorkerStore",
    settings: "Settings",
    args: argparse.Namespace,
    *,
    pause: Callable[[float], None],
) -> int:
    _require_positions(adopting, settings)
    gone = _gone(adopting, workers, args.watch, pause)
    plans = {name: adopting.give_back(name, gone=gone) for name in known_streams(adopting, settings)}
    if args.json:
        print_json(
            {
                "streams": [
                    {"stream": name, "changes": [{"lease": c.key, "why": c.why} for c in changes]}
                    for name, (changes, _) in plans.items()
                ]
            }
        )
        return 0
    for name, (changes, start) in plans.items():
        tell(
            f"{name}: {counted(len(changes), 'lease row gets', 'lease rows get')} the lake table's position "
            "and no owner"
        )
        if start is not None:
            tell(
                "  shards without a landed record start at AT_TIMESTAMP: "
                f"set KCL's initial position to {start.isoformat()}"
            )
    agree("give these leases back", yes=args.yes)
    missed = [key for changes, _ in plans.values() for key in adopting.apply(changes)]
    if missed:
        # The code for trying again: the rows that were written stay right, and are passed over then.
        raise Unreachable(
            f"another process changed {counted(len(missed), 'lease row')} meanwhile ({missed[0]}, ...), "
            "which this command left as they are: run it again"
        )
    tell("given back: KCL's workers may start")
    return 0


def _gone(
    adopting: "Adopting", workers: "WorkerStore", watch: timedelta, pause: Callable[[float], None]
) -> frozenset[str]:
    """The workers that hold leases and don't beat: those of a deployment that was killed."""
    from headrace.pipeline.beside_kcl.adoption import owners_that_renewed

    before = adopting.leases.scan().leases
    holders = sorted({row.holder for row in before if row.holder is not None and not row.has_ended})
    if not holders:
        return frozenset()
    names = ", ".join(holders)
    tell_aside(
        f"{names} still hold leases: watching for {watch.total_seconds():.0f} s whether any of these workers beats"
    )
    # Both are looked at: our workers beat in their own rows, KCL's in the leases.
    beats = _beats(workers, holders)
    pause(watch.total_seconds())
    alive = {name for name, beat in _beats(workers, holders).items() if beat != beats.get(name)}
    gone = frozenset(holders) - alive - {*owners_that_renewed(before, adopting.leases.scan().leases)}
    if gone:
        tell_aside(
            f"{', '.join(sorted(gone))}: no beat seen; the leases of these workers are given back, too"
        )
    return gone


def _beats(workers: "WorkerStore", names: Sequence[str]) -> Mapping[str, object]:
    """The beats in the worker rows. Without a worker table none of our workers ever worked; KCL's workers
    beat in the leases."""
    try:
        return beats_of(workers, names)
    except TablesMissing:
        return {}


def _require_positions(adopting: "Adopting", settings: "Settings") -> None:
    """Refuse a lake table without positions: the lease rows would keep whatever checkpoint they happen to have."""
    if not adopting.table.load().positions.origins:
        raise BadSetting(
            f"the lake table {settings.landing.table} holds no positions: "
            "does landing.table name the table into which these shards were landed? Nothing was changed"
        )
