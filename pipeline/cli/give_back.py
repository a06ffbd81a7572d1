"""`headrace give-back`: KCL's workers go on where the lake table stands."""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from pipeline.cli.adopt import adopting_of, agree, there
from pipeline.cli.options import add_config, duration, load
from pipeline.cli.stop import beats_of
from pipeline.cli.telling import tell, tell_aside
from pipeline.core.words import counted
from pipeline.errors import BadSetting, TablesMissing, Unreachable

if TYPE_CHECKING:
    from pipeline.cli.options import Subparsers
    from pipeline.duties.adopt import Adopting
    from pipeline.ports import WorkerStore
    from pipeline.settings import Settings

_WATCH = timedelta(seconds=30)
"""The lease duration, and two ticks, by default."""


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "give-back",
        description="Let KCL's workers read on from here: each lease row says what the lake table says, and belongs to nobody. "
        "Stop Headrace's workers first (`headrace stop`).",
    )
    add_config(parser)
    parser.add_argument(
        "--watch",
        metavar="TIME",
        type=duration,
        default=_WATCH,
        help="where workers still hold leases: how long to look whether they beat (default: 30s); who doesn't is gone",
    )
    parser.add_argument(
        "--json", action="store_true", help="print what would be written, as JSON, and stop there"
    )
    parser.add_argument("--yes", action="store_true", help="don't ask")


def run(args: argparse.Namespace) -> int:
    from resources.lease_tables import LeaseTablesResource

    settings = load(args).settings
    workers = LeaseTablesResource.of(settings).workers()
    return give_back(adopting_of(settings), workers, settings, args, pause=time.sleep)


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
    plans = {name: adopting.give_back(name, gone=gone) for name in there(adopting, settings)}
    if args.json:
        told = {
            name: [{"lease": c.key, "why": c.why} for c in changes] for name, (changes, _) in plans.items()
        }
        print(json.dumps(told, indent=2))
        return 0
    for name, (changes, start) in plans.items():
        tell(
            f"{name}: {counted(len(changes), 'lease row is', 'lease rows are')} brought to the lake table's positions and let go"
        )
        if start is not None:
            tell(
                f"  shards without a record yet stand at AT_TIMESTAMP: configure KCL's initial position with {start.isoformat()}"
            )
    agree("give it back", yes=args.yes)
    missed = [key for changes, _ in plans.values() for key in adopting.apply(changes)]
    if missed:
        raise Unreachable(
            f"{counted(len(missed), 'lease row')} written by somebody else meanwhile ({missed[0]}, ...), left as they are: run it again"
        )
    tell("given back: KCL's workers may start")
    return 0


def _gone(
    adopting: "Adopting", workers: "WorkerStore", watch: timedelta, pause: Callable[[float], None]
) -> frozenset[str]:
    """Who holds leases and beats nowhere: what a killed deployment has left."""
    from pipeline.duties.adopt import moving

    before = adopting.leases.scan().leases
    holders = sorted({row.holder for row in before if row.holder is not None and not row.has_ended})
    if not holders:
        return frozenset()
    names = ", ".join(holders)
    tell_aside(
        f"{names} still hold leases: looking for {watch.total_seconds():.0f} s whether any of them beats"
    )
    beats = _beats(workers, holders)
    pause(watch.total_seconds())
    alive = {name for name, beat in _beats(workers, holders).items() if beat != beats.get(name)}
    gone = frozenset(holders) - alive - {*moving(before, adopting.leases.scan().leases)}
    if gone:
        tell_aside(f"{', '.join(sorted(gone))}: no beat; their leases are given back, too")
    return gone


def _beats(workers: "WorkerStore", names: Sequence[str]) -> Mapping[str, object]:
    """Without a worker table nobody of ours has ever been at work: the leases' counters tell of the others."""
    try:
        return beats_of(workers, names)
    except TablesMissing:
        return {}


def _require_positions(adopting: "Adopting", settings: "Settings") -> None:
    """A table in which nothing was ever landed says nothing, and each row would be given back as it happens to be."""
    if not adopting.table.load().positions.origins:
        raise BadSetting(
            f"the lake table {settings.landing.table} holds no positions: is landing.table the one that these leases were landed "
            "in? Nothing was changed"
        )
