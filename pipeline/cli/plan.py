"""`headrace plan`: the changes that the leader would make now, and why, without making them."""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.cli.views.json_output import add_json, print_json
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.words.words import cell
from headrace.pipeline.settings.arguments import duration

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.core.leases.change import Change
    from headrace.pipeline.duties.fleet.leader_tick import LeaderDuty
    from headrace.pipeline.duties.fleet.preview import Preview
    from headrace.pipeline.settings.model import Settings

# Kind of a change -> the printed word. An assigned lease that a dead worker still holds is printed as
# moved.
_WORDS = {
    "create": "create",
    "replace": "replace",
    "retire": "delete",
    "delete": "delete",
    "assign": "assign",
    "move": "move",
    "initiate": "hand over",
    "redirect": "redirect",
    "call off": "call off",
    "complete": "end handover",
}


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "plan",
        description="Print what the leader would change now (leases created, deleted, assigned, moved), "
        "each with its reason. The command writes nothing. It reads the tables several times, "
        "because a worker counts as alive only once it was seen to beat.",
    )
    add_config(parser)
    parser.add_argument(
        "--for",
        dest="period",
        metavar="TIME",
        type=duration,
        help="how long to watch the workers first (default: two worker ticks and one leader tick; "
        "a time longer than the lease duration also shows where the leases of dead workers would go)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.wiring import wire

    settings = load(args).settings
    period = args.period or default_period(settings)
    shown_plan = watch_plan(wire(settings).leader("plan"), period, every=settings.times.leader_tick)
    if args.json:
        print_json(plan_document(shown_plan.changes) | _start(shown_plan))
    else:
        tell(*lines_before(shown_plan, settings.application), *lines(shown_plan.changes))
    return 0


def default_period(settings: "Settings") -> timedelta:
    """A period long enough to distinguish a KCL 2.x worker, which has no worker row, from a Headrace worker,
    which writes its row at each tick.
    """
    return 2 * settings.times.worker_tick + settings.times.leader_tick


def watch_plan(
    duty: "LeaderDuty", period: timedelta, *, every: timedelta, pause: Callable[[float], None] = time.sleep
) -> "Preview":
    """Plan again and again for a while, and return the last plan."""
    from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
    from headrace.pipeline.duties.fleet.preview import preview

    latest = preview(duty, LeaderMemory())
    remaining = period
    # Only what moves between two looks shows that a worker is alive.
    while (
        remaining > timedelta(0) and (latest.has_started or latest.memory.workers) and latest.why_not is None
    ):
        tell_aside(f"watching the workers for {remaining.total_seconds():.0f} s")
        pause(min(every, remaining).total_seconds())
        remaining -= every
        latest = preview(duty, latest.memory)
    return latest


def lines_before(shown_plan: "Preview", application: str) -> list[str]:
    """Lines to print before the changes: why there can be none, or what a first start does before any change."""
    why_not = [] if shown_plan.why_not is None else [shown_plan.why_not]
    if not shown_plan.first_steps:
        return why_not
    head = "" if shown_plan.has_started else f"application {application} hasn't started yet: "
    return [
        *why_not,
        f"{head}the leader would first take these steps:",
        *(f"  {step}" for step in shown_plan.first_steps),
        "and then",
    ]


def _start(shown_plan: "Preview") -> dict[str, Any]:
    return {
        "started": shown_plan.has_started,
        "first": list(shown_plan.first_steps),
        "why_not": shown_plan.why_not,
    }


def lines(changes: Sequence["Change"]) -> list[str]:
    if not changes:
        return ["the leader would change nothing now"]
    cells = [
        (change_word(change), cell(partition_of(change.key)), cell(_between(change)), change.why)
        for change in changes
    ]
    widths = [max(len(row[n]) for row in cells) for n in range(3)]
    rows = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]])
        for row in cells
    ]
    return [*rows, _sum(changes)]


def plan_document(changes: Sequence["Change"]) -> dict[str, Any]:
    return {
        "changes": [
            {
                "kind": change_word(change),
                "lease": change.key,
                "name": partition_of(change.key),
                "from": _from(change),
                "to": _to(change),
                "why": change.why,
            }
            for change in changes
        ],
        "counts": dict(Counter(map(change_word, changes))),
    }


def change_word(change: "Change") -> str:
    """The printed word for a change."""
    word = _WORDS.get(change.kind, "change")
    return "move" if word == "assign" and _from(change) else word


def _from(change: "Change") -> str | None:
    """The worker that reads the shard before the change."""
    return change.requires.get("checkpoint_owner") or change.requires.get("owner")


def _to(change: "Change") -> str | None:
    if change_word(change) == "end handover":
        owner = change.requires.get("owner")
        return None if owner is None else str(owner)
    return change.put.get("owner")


def _between(change: "Change") -> str:
    before, after = _from(change), _to(change)
    if after is None:
        return ""
    return f"{before} -> {after}" if before else f"-> {after}"


def _sum(changes: Sequence["Change"]) -> str:
    counts = Counter(map(change_word, changes))
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
    return f"the leader would make {len(changes):,} {'change' if len(changes) == 1 else 'changes'}: {kinds}"
