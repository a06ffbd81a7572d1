"""`headrace plan`: what the leader would do now, and why, without doing it."""

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pipeline.cli.options import add_config, duration, load
from pipeline.cli.telling import cell, tell, tell_aside

if TYPE_CHECKING:
    from pipeline.cli.options import Subparsers
    from pipeline.core.change import Change
    from pipeline.duties.leader_tick import LeaderDuty
    from pipeline.duties.preview import Preview
    from pipeline.settings import Settings

FORMAT = 1


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "plan",
        description="Print what the leader would do now (leases made and deleted, given out, moved), each with its reason. "
        "Nothing is written. Workers count as alive once they were seen to beat, so this looks several times.",
    )
    add_config(parser)
    parser.add_argument(
        "--for",
        dest="period",
        metavar="TIME",
        type=duration,
        help="how long to watch the workers first (default: two worker ticks and a leader tick; longer than the lease duration shows "
        "what would become of dead ones)",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    settings = load(args).settings
    period = args.period or default_period(settings)
    seen = watch(_duty(settings), period, every=settings.times.leader_tick)
    if args.json:
        print(json.dumps(document(seen.changes) | _start(seen), indent=2))
    else:
        tell(*before(seen, settings.application), *lines(seen.changes))
    return 0


def default_period(settings: "Settings") -> timedelta:
    """A worker of KCL 2.x has no row: after so long it is told from one of ours, which would have made it anew."""
    return 2 * settings.times.worker_tick + settings.times.leader_tick


def watch(
    duty: "LeaderDuty", period: timedelta, *, every: timedelta, pause: Callable[[float], None] = time.sleep
) -> "Preview":
    """The plan of the last look."""
    from pipeline.duties.leader_tick import LeaderMemory
    from pipeline.duties.preview import preview

    seen = preview(duty, LeaderMemory())
    left = period
    while left > timedelta(0) and (seen.has_started or seen.memory.workers) and seen.why_not is None:
        tell_aside(f"watching the workers for {left.total_seconds():.0f} s")
        pause(min(every, left).total_seconds())
        left -= every
        seen = preview(duty, seen.memory)
    return seen


def before(seen: "Preview", application: str) -> list[str]:
    """What comes before the changes: why there are none, or a first start most of all."""
    why_not = [] if seen.why_not is None else [seen.why_not]
    if not seen.first:
        return why_not
    told = "" if seen.has_started else f"application {application} hasn't started yet: "
    return [*why_not, f"{told}the leader would first", *(f"  {each}" for each in seen.first), "and then"]


def _start(seen: "Preview") -> dict[str, Any]:
    return {"started": seen.has_started, "first": list(seen.first), "why_not": seen.why_not}


def lines(changes: Sequence["Change"]) -> list[str]:
    if not changes:
        return ["the leader would change nothing now"]
    told = [(kind_of(change), cell(change.key), cell(_between(change)), change.why) for change in changes]
    widths = [max(len(row[n]) for row in told) for n in range(3)]
    rows = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]])
        for row in told
    ]
    return [*rows, _sum(changes)]


def document(changes: Sequence["Change"]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "changes": [
            {
                "kind": kind_of(change),
                "lease": change.key,
                "from": _from(change),
                "to": _to(change),
                "why": change.why,
            }
            for change in changes
        ],
        "counts": dict(Counter(map(kind_of, changes))),
    }


def kind_of(change: "Change") -> str:
    if change.create is not None:
        return "create"
    if change.delete:
        return "delete"
    if change.put.get("checkpoint_owner") is not None:
        return "hand over"
    if "owner" in change.put:
        if change.put["owner"] == change.requires.get("checkpoint_owner"):
            return "call off"
        if change.requires.get("checkpoint_owner") and "checkpoint_owner" not in change.remove:
            return "redirect"
        return "move" if _from(change) else "assign"
    if "checkpoint_owner" in change.remove:
        return "end handover"
    return "change"


def _from(change: "Change") -> str | None:
    """Who reads it until then."""
    return change.requires.get("checkpoint_owner") or change.requires.get("owner")


def _to(change: "Change") -> str | None:
    if kind_of(change) == "end handover":
        found = change.requires.get("owner")
        return None if found is None else str(found)
    return change.put.get("owner")


def _between(change: "Change") -> str:
    before, after = _from(change), _to(change)
    if after is None:
        return ""
    return f"{before} -> {after}" if before else f"-> {after}"


def _sum(changes: Sequence["Change"]) -> str:
    counts = Counter(map(kind_of, changes))
    told = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
    return f"the leader would make {len(changes):,} {'change' if len(changes) == 1 else 'changes'}: {told}"


def _duty(settings: "Settings") -> "LeaderDuty":
    from pipeline.clock import SystemClock, SystemIds
    from pipeline.duties.leader_tick import LeaderDuty
    from resources.lake import LakeResource
    from resources.lease_tables import LeaseTablesResource
    from resources.stream import StreamResource

    tables, source = LeaseTablesResource.of(settings), StreamResource.of(settings).source()
    return LeaderDuty(
        leader_id=settings.workers[0].id,
        settings=settings,
        tables=tables.tables(),
        leases=tables.leases(),
        workers=tables.workers(),
        lock=tables.lock(),
        source=source,
        table=LakeResource.of(settings).landing_table("plan", source),
        clock=SystemClock(),
        ids=SystemIds(),
    )
