"""Expire the lake table's snapshots, a few seconds at a time.

    are enough snapshots too many? -> record the ledgers -> load the table -> plan -> one commit that removes
    snapshots -> (time left? again)

A run does this between two waves, with no shard claimed, and the leader in its tick where no run does. Nothing
waits for an expiry: snapshots that aren't expired now are expired at the next chance, and an error only becomes a
sentence for people. No file is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from headrace.pipeline.core.landing.expiry_plan import (
    AT_LEAST,
    ExpiryPlan,
    History,
    Keep,
    Shape,
    Why,
    plan_expiry,
)
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import HeadraceError, Terminal
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.landing import LakeTable, TableState
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings

_AT_A_TIME = timedelta(seconds=5)
"""After this time no further commit is begun. Recording ledgers may take half of it."""
_AT_ONCE = 1_000
"""The most snapshots that one commit removes. pyiceberg's catalogs for Glue and Hive take a time that grows with the
number of removed snapshots times the number of all snapshots: a thousand of ten thousand take them a second."""


_LEADER_LATE = 4
"""A run begins to expire when 25 snapshots more than needed are there. The leader waits for four times as many: so many
are there only if no run works on the table."""
_TRIES = 5
"""Commits of others that may come first before the rest is left to the next chance."""


@dataclass(slots=True, kw_only=True)
class Expiring:
    """Expires snapshots of one table. It remembers how many snapshots the last plan left, and so when the next
    plan is due. If that memory is lost, one plan too many is made.
    """

    table: LakeTable
    lineage: Callable[[], LineageTable]
    """Called once an expiry is due: most runs never need the lineage table."""
    settings: UpkeepSettings
    clock: Clock
    what: str = "the lake table"
    """The table, for people."""
    has_more: bool = field(default=False, init=False)
    """The last step left snapshots that the next step can remove, or ledgers that it has to record first."""
    trouble: HeadraceError | None = field(default=None, init=False)
    """Why the last step failed. Its text is the sentence that the step has returned."""
    _kept: int = field(init=False)

    def __post_init__(self) -> None:
        self._kept = self.settings.keep_snapshots

    def is_due(self, shape: Shape, *, late: int = 1) -> bool:
        """Whether planning an expiry is worth its cost. `late`: as for `Shape.is_due`. The leader passes more
        than 1, and so leaves the snapshots of busy tables to the runs.
        """
        return self.settings.enabled and shape.is_due(self._kept, late=late)

    def step(self, shape: Shape) -> str | None:
        """Expire snapshots for a few seconds. Returns a sentence for people, or None where nothing was to do.
        Never raises: an expiry that fails does no harm, and its caller has more important things to do. `shape`:
        the table's shape by which the caller thinks an expiry due.
        """
        # Both are of the last step: an error must not stand in the report of a later one that went well.
        self.has_more, self.trouble = False, None
        try:
            removed, further = self._expire()
        except HeadraceError as error:
            return self._failed(shape, type(error), str(error))
        except Exception as error:  # noqa: BLE001 - see above
            # Only its type: the text of a library's error may quote whole snapshots.
            return self._failed(shape, Terminal, f"an unexpected {type(error).__name__}")
        self.has_more = self.has_more or further > 0
        if not removed and not further:
            return None
        more = f"; {further:,} more at the next chance" if further else ""
        return f"{counted(removed, 'snapshot')} of {self.what} expired{more}"

    def has_no_ledger(self) -> bool:
        """Whether no ledger was ever recorded in the lineage table. False where that can't be found out now: the
        next recording reports why.
        """
        try:
            return self.lineage().recorded().snapshot is None
        except Exception:  # noqa: BLE001 - no reason to end a run, and the recording at its end tells of it
            return False

    def record(self) -> str | None:
        """Record ledgers in the lineage table for a few seconds, without an expiry. Returns a sentence where that
        fails, and never raises.
        """
        try:
            self.lineage().record(at_most=_AT_A_TIME / 2)
        except HeadraceError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - as in `step`
            why = f"an unexpected {type(error).__name__}"
        else:
            return None
        return f"the ledgers of {self.what} couldn't be recorded now: {why}. Records land all the same; a later run tries again"

    def _expire(self) -> tuple[int, int]:
        """The number of snapshots that were removed, and of those that could have been removed, too."""
        until = self.clock.monotonic() + _AT_A_TIME.total_seconds()
        history = self.table.retained()
        if len(self._plan(history, history.head).goes) < AT_LEAST:
            # Too few would go even if all ledgers were recorded: a recording would be a commit for nothing.
            self._kept = len(history.snapshots)
            return 0, 0
        # Before anything goes: a snapshot whose ledger isn't recorded stays.
        recorded = self.lineage().record(at_most=_AT_A_TIME / 2)
        removed = refused = 0
        while True:
            history = self.table.retained()
            plan = self._plan(history, recorded.snapshot)
            unrecorded = sum(why is Why.UNRECORDED for why in plan.stays.values())
            self.has_more = unrecorded >= AT_LEAST
            # Snapshots that only wait for the recording of their ledgers are tried again after the next wave.
            self._kept = len(plan.stays) - (unrecorded if self.has_more else 0)
            if len(plan.goes) < AT_LEAST:
                return removed, 0
            has_tried = removed or refused
            if has_tried and (self.clock.monotonic() >= until or refused >= _TRIES):
                return removed, len(plan.goes)
            some = plan.goes[:_AT_ONCE]
            # The request asserts every ref of this history, so that it is refused and never removes
            # a snapshot to which somebody has rolled the table back meanwhile. A refusal costs
            # another look.
            if self.table.expire(history, some):
                removed += len(some)
            else:
                refused += 1

    def _plan(self, history: History, recorded: int | None) -> ExpiryPlan:
        keep = Keep(self.settings.keep_snapshots, self.settings.keep_for)
        return plan_expiry(history, recorded=recorded, keep=keep, now=self.clock.now())

    def _failed(self, shape: Shape, kind: type[HeadraceError], why: str) -> str:
        # Not again after each wave: what keeps failing would only cost time.
        self._kept = shape.snapshots
        said = f"the snapshots of {self.what} couldn't be expired now: {why}. Records land all the same; a later wave tries again"
        self.trouble = kind(said)
        return said


def look_after(table: LakeTable, state: TableState, expiring: Expiring | None) -> Iterator[str]:
    """The leader's upkeep of a table into which nothing lands: expiry, and carrying the positions. `state`: the
    table as it was loaded for the shard sync. Yields sentences for people.

    Beside another engine that commits, such a table would otherwise lose its positions behind that engine's
    snapshots.
    """
    shape = state.shape
    if state.origin_allowed:
        return  # Headrace has never landed here
    if shape.needs_carrying:
        try:
            table.carry()
        except HeadraceError as error:
            yield f"the lake table's positions couldn't be committed once more ({error})"
        else:
            yield f"the lake table's positions committed once more, above {counted(shape.foreign, 'snapshot')} of other engines"
    elif expiring is not None and expiring.is_due(shape, late=_LEADER_LATE):
        sentence = expiring.step(shape)
        if sentence is not None:
            yield sentence
