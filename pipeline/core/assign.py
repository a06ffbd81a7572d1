"""Which worker reads which lease: the strategy `gap`.

    free leases     -> to the least loaded worker, heaviest first
    uneven workers  -> a lease moves where that clearly shrinks the gap between the most and the least loaded
    uneven clusters -> then between clusters (worker ids that begin alike), where no worker is worse off for it

One measure serves all workers: the sum of what their leases weigh (`core.weight`), which is throughput, and CPU where workers
are measured. Neither is ever still: a worker starts to give only beyond the tolerance, and then goes on until it is even. The
same input gives the same plan. A plan carried out is followed by an empty one while nothing is measured: each move makes the sum
of the squared loads smaller, or leaves the sum as it is and evens out the clusters. With CPU nothing more is moved until the
figures can have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pipeline.core import change
from pipeline.core.balance_board import Board
from pipeline.core.change import Change
from pipeline.core.lease import Lease
from pipeline.core.weight import SETTLES, Weights, weigh
from pipeline.core.words import counted

_LEAST_TOLERANCE = 0.05
"""Where CPU counts, however little the settings allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentInput:
    """What an assignment decides from."""

    leases: tuple[Lease, ...]
    living: frozenset[str]
    """Workers that beat and don't stop: these may be given leases."""
    dead: frozenset[str] = frozenset()
    """Workers that stood still for the lease duration."""
    lost: frozenset[str] = frozenset()
    """Keys of open leases whose holder is dead."""
    now: datetime
    """The leader's wall clock: only for the least time that a moved lease stays where it is."""
    cpu: Mapping[str, float] = field(default_factory=dict)
    """Percent, by worker: how busy its hosts are. A worker that isn't measured, or not lately, isn't named."""
    stirred: int = 0
    """Passes that moved leases by CPU lately: what they expected of a move wasn't what came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRules:
    dwell: timedelta
    graceful: bool = True
    """The holder finishes its wave before a lease moves."""
    direct: bool = True
    """A lease that nobody is reading moves at once. Not where counters move beside: the write would be refused."""
    max_leases: int | None = None
    tolerance: float = 0.1
    """So much more or less than an average worker's load is no reason yet to move anything; of a cluster, half as much. Twice
    as much where CPU counts: it wobbles more."""


def plan_assign(scene: AssignmentInput, rules: GapRules) -> list[Change]:
    rows = {row.key: row for row in sorted(scene.leases, key=lambda r: r.key) if not row.has_ended}
    if not scene.living:
        return []
    cpu = {worker: percent for worker, percent in scene.cpu.items() if worker in scene.living}
    weights = weigh(rows.values(), cpu)
    board = _board(rows, scene, weights, rules)
    free = [row for row in rows.values() if is_free(row, scene)]
    for row in sorted(free, key=lambda r: (_named(r) is None, -board.weight[r.key], r.key)):
        board.place(row.key, _named(row), movable=not dwells(row, scene, rules))
    if not weights.cpu:
        board.even_out(rules.tolerance)
    elif not any(_moved_within(row, SETTLES, scene) for row in rows.values()):
        board.even_out(_cpu_tolerance(board, scene, rules))
    return [
        _write(rows[key], to, board.count[to], scene=scene, weights=weights, rules=rules)
        for key, to in board.moves.items()
        if to != rows[key].owner or is_free(rows[key], scene)
    ]


def _cpu_tolerance(board: Board, scene: AssignmentInput, rules: GapRules) -> float:
    """CPU wobbles more than throughput, and the CPU that a lease costs is a guess. Each pass that moved leases doubles the
    tolerance for the next one, so that a fleet which can't be even comes to rest. A worker without any lease doesn't wait for that."""
    tolerance = 2 * max(rules.tolerance, _LEAST_TOLERANCE)
    counts = board.count.values()
    return tolerance if min(counts) == 0 and max(counts) > 1 else tolerance * 2 ** min(scene.stirred, 8)


def _write(
    row: Lease, to: str, count: int, *, scene: AssignmentInput, weights: Weights, rules: GapRules
) -> Change:
    stands = f"-> {to}, now with {counted(count, 'lease')}"
    if is_free(row, scene):
        return give_free(row, to, stands, lost=row.key in scene.lost)
    return move(row, to, f"{_reason(row.owner or '', to, weights)}: {stands}", at=scene.now, rules=rules)


def _reason(giver: str, to: str, weights: Weights) -> str:
    if weights.is_busier(giver, to):
        return f"{giver}'s hosts are busier ({weights.cpu[giver]:.0f} % CPU) than {to}'s ({weights.cpu[to]:.0f} %)"
    return f"{giver} has more to read than {to}"


def is_free(row: Lease, scene: AssignmentInput) -> bool:
    """Nobody has it, who has it is dead, or who was to get it next is."""
    if row.holder is None or row.key in scene.lost:
        return True
    return row.checkpoint_owner is not None and row.owner in scene.dead


def _named(row: Lease) -> str | None:
    return row.owner if row.checkpoint_owner is not None else None


def give_free(row: Lease, to: str, stands: str, *, lost: bool) -> Change:
    """The write for a lease that `is_free`."""
    if row.holder is None:
        return change.assign(row, to, f"unowned {stands}")
    if lost:
        return change.assign(row, to, f"{row.holder} stood still {stands}")
    if to == row.holder:
        return change.call_off_handover(row, f"{row.owner} died before it took over {stands}")
    return change.redirect_handover(row, to, f"{row.owner} died before it took over {stands}")


def move(row: Lease, to: str, why: str, *, at: datetime, rules: GapRules) -> Change:
    """The write for a lease that goes from one living worker to another."""
    if rules.graceful and not (rules.direct and row.run_claim is None):
        return change.initiate_handover(row, to, why, at=at)
    return change.move(row, to, why, at=at)


def _board(rows: dict[str, Lease], scene: AssignmentInput, weights: Weights, rules: GapRules) -> Board:
    board = Board(
        living=tuple(sorted(scene.living)),
        most=rules.max_leases,
        weight=weights.of,
        factor=weights.factor,
    )
    for row in rows.values():
        if row.owner in scene.living and not is_free(row, scene):
            movable = row.checkpoint_owner is None and not dwells(row, scene, rules)
            board.add(row.key, row.owner, movable=movable)
    return board


def dwells(row: Lease, scene: AssignmentInput, rules: GapRules) -> bool:
    """It was moved a moment ago."""
    return _moved_within(row, rules.dwell, scene)


def _moved_within(row: Lease, period: timedelta, scene: AssignmentInput) -> bool:
    return row.assigned_at is not None and abs(scene.now - row.assigned_at) < period


def spilled(scene: AssignmentInput, changes: Iterable[Change]) -> int:
    """Leases that nobody reads after this plan: no worker beats, or all are full."""
    planned = {each.key for each in changes}
    return sum(not r.has_ended and is_free(r, scene) and r.key not in planned for r in scene.leases)
