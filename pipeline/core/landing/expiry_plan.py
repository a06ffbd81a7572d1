"""Which snapshots of the lake table may expire. Pure functions on values.

    tag                                                        head of main
     1 <- 2 <- 3 <- 4 CARRIES <- 5 <- 6 CARRIES <- 7 foreign <- 8 foreign
                                      `------ the way to main's state ---'

A snapshot *carries* the state if Headrace committed it: its summary has all positions. The *way* from a snapshot
to its state leads down to the nearest one that carries. Whatever stays keeps its way, so that main can be rolled
back to any snapshot that is left, and its positions are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

MAIN = "main"
AT_LEAST = 25
"""The least number of snapshots that are worth a commit of their own, which removes them."""
FOREIGN_AT_MOST = 50
"""Snapshots of other engines above the positions before Headrace commits the positions once more. The metadata log, by
which positions are found after another engine's expiry, is at least four times as long."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the lake table's metadata shows of its history, as needed to decide whether to plan an expiry. It
    costs nothing beside loading the table.
    """

    snapshots: int = 0
    """The snapshots in the metadata, on main or not."""
    foreign: int = 0
    """The snapshots of other engines above the newest positions of main."""
    is_cut: bool = False
    """The walk to the positions had to read older metadata files, because another engine's expiry removed snapshots."""

    @property
    def needs_carrying(self) -> bool:
        """Whether the positions have to be committed once more (to carry), because otherwise they soon couldn't
        be found.
        """
        return self.is_cut or self.foreign >= FOREIGN_AT_MOST

    def is_due(self, stayed: int, *, late: int = 1) -> bool:
        """Whether planning an expiry is worth its cost: there are at least `AT_LEAST` times `late` more snapshots
        than the number that `stayed` after the last plan.
        """
        return self.snapshots >= stayed + late * AT_LEAST


@dataclass(frozen=True, slots=True)
class Seen:
    """One snapshot of a table, as the table's metadata describes it."""

    snapshot: int
    parent: int | None
    sequence: int
    """It grows from each snapshot to its children."""
    at: datetime
    carries: bool = False
    """Headrace committed it, so that it has all positions and a ledger."""
    is_pick: bool = False
    """A cherry-pick: it brought rows without their positions, and no positions below it count until
    `headrace repair`."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or a tag. Tags keep the one snapshot that they name, branches keep a history."""

    snapshot: int
    is_branch: bool = False
    at_least: int = 0
    """The branch's own setting of how many snapshots to keep; 0 if it has none."""
    at_most: timedelta | None = None
    """The branch's own setting of how long to keep its snapshots."""


@dataclass(frozen=True, slots=True)
class History:
    """All snapshots of one version of the table's metadata, with the refs of that version."""

    snapshots: Mapping[int, Seen] = field(default_factory=dict)
    refs: Mapping[str, Ref] = field(default_factory=dict)
    table: str = ""
    """The UUID of the table: one that was dropped and made again under the same name is another table."""
    is_frozen: bool = False
    """The table's owner has forbidden all expiry (`gc.enabled` is false), because another table may use the same
    files."""

    def line(self, head: int | None) -> Iterator[Seen]:
        """A snapshot and its ancestors, newest first, as far as this version of the metadata describes them."""
        while head is not None and (ancestor := self.snapshots.get(head)) is not None:
            yield ancestor
            head = ancestor.parent

    @property
    def head(self) -> int | None:
        main = self.refs.get(MAIN)
        return None if main is None else main.snapshot


@dataclass(frozen=True, slots=True)
class Keep:
    """How many snapshots an expiry keeps at least, and how young a snapshot is that it keeps, as the settings say."""

    snapshots: int
    """The newest ones of each branch."""
    younger_than: timedelta


class Why(StrEnum):
    """Why an expiry keeps a snapshot. Where several reasons hold, the first of this list is given."""

    FROZEN = "the table has gc.enabled=false"
    NO_STATE = "main's positions aren't found in the newest metadata, so no snapshot expires"
    UNRECORDED = "the snapshot's ledger isn't in the lineage table yet"
    RECORDED = "the lineage table has the ledgers up to this snapshot"
    STATE = "the snapshot lies between main's head and main's positions"
    REF = "a branch or a tag names the snapshot"
    NEWEST = "the snapshot is among the newest of a branch"
    YOUNG = "the snapshot is young"
    WAY = "the snapshot lies between a snapshot that stays and the one that has its positions"


@dataclass(frozen=True, slots=True)
class ExpiryPlan:
    goes: tuple[int, ...]
    """Ids of the snapshots that may go, those of the oldest sequence number first."""
    stays: Mapping[int, Why]


def plan_expiry(history: History, *, recorded: int | None, keep: Keep, now: datetime) -> ExpiryPlan:
    """Choose which snapshots expire now.

    `recorded`: the snapshot up to which the ledgers of main are in the lineage table; None if there is none.
    """
    stays = _whole(history, recorded)
    if not stays:
        main = list(history.line(history.head))
        stays |= _above(main, lambda ancestor: ancestor.snapshot == recorded, Why.UNRECORDED)
        stays |= {ancestor.snapshot: Why.RECORDED for ancestor in main if ancestor.snapshot == recorded}
        _add(stays, _above(main, lambda ancestor: ancestor.carries, Why.STATE))
        _add(stays, {ref.snapshot: Why.REF for ref in history.refs.values()})
        for ref in history.refs.values():
            if ref.is_branch:
                _add(stays, _of_branch(history, ref, keep, now))
        young = (s for s in history.snapshots.values() if now - s.at < keep.younger_than)
        _add(stays, {s.snapshot: Why.YOUNG for s in young})
        _add(stays, dict.fromkeys(_ways(history, stays), Why.WAY))
    reasons = {snapshot: why for snapshot, why in stays.items() if snapshot in history.snapshots}
    goes = sorted(
        history.snapshots.keys() - reasons.keys(),
        key=lambda snapshot: (history.snapshots[snapshot].sequence, snapshot),
    )
    return ExpiryPlan(tuple(goes), reasons)


def _whole(history: History, recorded: int | None) -> dict[int, Why]:
    """Every snapshot with the reason to stay, where none may go; else nothing."""
    main = list(history.line(history.head))
    state = next((ancestor for ancestor in main if ancestor.carries or ancestor.is_pick), None)
    if history.is_frozen:
        why = Why.FROZEN
    elif state is None or state.is_pick:
        # Either Headrace has never landed, or main is cut above the positions by another engine's expiry. In that case
        # older metadata files still lead to the positions, and each commit makes these files fewer, the commit of an
        # expiry too.
        why = Why.NO_STATE
    elif all(ancestor.snapshot != recorded for ancestor in main):
        # A rollback took the recorded snapshot off main, or main is cut above it: which ledgers are recorded isn't
        # known.
        why = Why.UNRECORDED
    else:
        return {}
    return dict.fromkeys(history.snapshots, why)


def _above(main: Iterable[Seen], last: Callable[[Seen], bool], why: Why) -> dict[int, Why]:
    """The snapshots of main from its head down to the first one for which `last` holds, and that one."""
    reasons: dict[int, Why] = {}
    for ancestor in main:
        reasons[ancestor.snapshot] = why
        if last(ancestor):
            break
    return reasons


def _of_branch(history: History, ref: Ref, keep: Keep, now: datetime) -> dict[int, Why]:
    """What stays of a branch's history. A branch may keep more than the settings do, and never less."""
    at_least = max(keep.snapshots, ref.at_least)
    at_most = max(keep.younger_than, ref.at_most or timedelta())
    stays: dict[int, Why] = {}
    for place, ancestor in enumerate(history.line(ref.snapshot)):
        if place < at_least:
            stays[ancestor.snapshot] = Why.NEWEST
        elif now - ancestor.at < at_most:
            stays[ancestor.snapshot] = Why.YOUNG
    return stays


def _ways(history: History, stays: Iterable[int]) -> set[int]:
    """The snapshots on the ways from those that stay down to the nearest positions. A way without positions keeps
    nothing."""
    leads: dict[int, bool] = {}
    """Whether the way from a snapshot that was walked over ends at positions."""
    on_ways: set[int] = set()
    for start in stays:
        way: list[int] = []
        ends = False
        for ancestor in history.line(start):
            if ancestor.snapshot in leads:
                ends = leads[ancestor.snapshot]
                break
            way.append(ancestor.snapshot)
            if ancestor.carries:
                ends = True
                break
        leads |= dict.fromkeys(way, ends)
        if ends:
            on_ways.update(way)
    return on_ways


def _add(stays: dict[int, Why], more: Mapping[int, Why]) -> None:
    """Add those that have no reason to stay yet."""
    for snapshot, why in more.items():
        # The reasons are added in the order of their weight, so that the first one stays.
        stays.setdefault(snapshot, why)
