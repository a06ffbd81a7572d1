"""Who reads what: the strategy `gap`.

    free leases     -> to the least loaded worker, heaviest first
    uneven workers  -> a lease moves where that clearly shrinks the gap between the most and the least loaded
    uneven clusters -> then between clusters (worker ids that begin alike), where no worker is worse off for it

One measure serves all workers, whether they measure anything or not: the throughput of what they are to read, and a
lease whose throughput nobody knows counts as an average one. Throughput is never still: a worker starts to give only
beyond the tolerance, and then goes on until it is even. The same input gives the same plan, and a plan carried out is
followed by an empty one: each move makes the sum of the squared loads smaller, or leaves it and evens out the clusters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline.core import change
from pipeline.core.board import Board
from pipeline.core.change import Change
from pipeline.core.lease import Lease
from pipeline.core.words import counted

_A_LEASE = 1000
"""What each weighs where nobody measured any: fine enough for the tolerance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    dwell: timedelta
    graceful: bool = True
    """The holder finishes its wave before a lease moves."""
    direct: bool = True
    """A lease that nobody is reading moves at once. Not where counters move beside: the write would be refused."""
    max_leases: int | None = None
    tolerance: float = 0.1
    """So much more or less than an average worker's load is no reason yet to move anything; of a cluster, half as much."""


def plan_assign(scene: Scene, rules: Rules) -> list[Change]:
    rows = {row.key: row for row in sorted(scene.leases, key=lambda r: r.key) if not row.has_ended}
    if not scene.living:
        return []
    board = _board(rows, scene, rules)
    free = [row for row in rows.values() if is_free(row, scene)]
    for row in sorted(free, key=lambda r: (_named(r) is None, -board.weight[r.key], r.key)):
        board.place(row.key, _named(row), movable=not dwells(row, scene, rules))
    board.even_out(rules.tolerance)
    return [
        _write(rows[key], to, board.count[to], scene=scene, rules=rules)
        for key, to in board.moves.items()
        if to != rows[key].owner or is_free(rows[key], scene)
    ]


def _write(row: Lease, to: str, count: int, *, scene: Scene, rules: Rules) -> Change:
    stands = f"-> {to}, now with {counted(count, 'lease')}"
    if is_free(row, scene):
        return give_free(row, to, stands, lost=row.key in scene.lost)
    return move(row, to, f"{row.owner} has more to read than {to}: {stands}", at=scene.now, rules=rules)


def is_free(row: Lease, scene: Scene) -> bool:
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


def move(row: Lease, to: str, why: str, *, at: datetime, rules: Rules) -> Change:
    """The write for a lease that goes from one living worker to another."""
    if rules.graceful and not (rules.direct and row.run_claim is None):
        return change.initiate_handover(row, to, why, at=at)
    return change.assign(row, to, why, at=at)


def _board(rows: dict[str, Lease], scene: Scene, rules: Rules) -> Board:
    known = [r.throughput_kbps for r in rows.values() if r.throughput_kbps is not None]
    usual = max(1, round(1000 * sum(known) / len(known))) if any(known) else _A_LEASE
    board = Board(
        living=tuple(sorted(scene.living)),
        most=rules.max_leases,
        weight={key: _weight(row, usual, measured=any(known)) for key, row in rows.items()},
    )
    for row in rows.values():
        if row.owner in scene.living and not is_free(row, scene):
            movable = row.checkpoint_owner is None and not dwells(row, scene, rules)
            board.add(row.key, row.owner, movable=movable)
    return board


def _weight(row: Lease, usual: int, *, measured: bool) -> int:
    """In thousandths of a KB/s. A quiet lease isn't free: it is asked, too."""
    if not measured or row.throughput_kbps is None:
        return usual
    return max(1, usual // 10, round(1000 * row.throughput_kbps))


def dwells(row: Lease, scene: Scene, rules: Rules) -> bool:
    """It was moved a moment ago."""
    return row.assigned_at is not None and abs(scene.now - row.assigned_at) < rules.dwell


def spilled(scene: Scene, changes: Iterable[Change]) -> int:
    """Leases that nobody reads after this plan: no worker beats, or all are full."""
    planned = {each.key for each in changes}
    return sum(not r.has_ended and is_free(r, scene) and r.key not in planned for r in scene.leases)
