"""A backfill: for some hours or days, a window is made, an earlier one is continued, or nothing is done,
depending on what was done before.

hours that more records may come into     are left out, and people are told
records that the present code has parsed  need no window
a window that an earlier run began        is continued
else                                      a new window is made
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from headrace.pipeline.core.landing.valid_through import overall
from headrace.pipeline.core.ledger.arrivals import Window as Hours
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import Unknown
from headrace.pipeline.ports.landing import TableState
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.typed.ports import ParsePorts
from headrace.pipeline.windows.asking import by_time
from headrace.pipeline.windows.parsed_by_plan import DECISIONS, is_parsed_by
from headrace.pipeline.windows.replace import check_replaceable
from headrace.pipeline.windows.window import ReplayWindow, filter_of
from headrace.pipeline.windows.windows import NothingLanded, Windowing, WindowRequest


@dataclass(frozen=True, slots=True)
class HoursOfPartition:
    """The hours of one Dagster partition."""

    name: str
    """Its name for people."""
    key: str
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a run of a backfill has to do, and for which partitions there is nothing to do."""

    done: tuple[HoursOfPartition, ...]
    """The spans that are done when the window is."""
    late: tuple[HoursOfPartition, ...]
    """Those into which more records may come: the run leaves them out."""
    window: ReplayWindow | None
    sentence: str
    """What the run does, or why it has nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfilling:
    windowing: Windowing
    landed: Callable[[], TableState]
    """The lake table as it is now."""

    def choose(
        self,
        spans: Sequence[HoursOfPartition],
        *,
        target: ParseSettings | None,
        ports: ParsePorts | None,
        anew: bool = False,
        take_late: bool = False,
    ) -> Chosen:
        """Decide what a run of these partitions does, and store its window.

        `spans`: the partitions, one after the other. `target`, `ports`: those of the typed table whose rows are
        replaced; None: the records are copied. `anew`: do again what is done already. `take_late`: include hours
        into which more records may come. Raises HeadraceError where nothing can be done, also where no span is
        complete.
        """
        if target is not None:
            check_replaceable(target)
        done, late = (tuple(spans), ()) if take_late else self._complete(spans, target)
        hours = Hours(done[0].since, done[-1].until)
        stream = None if target is None else target.stream
        code = "" if target is None or ports is None else ports.code()
        how = by_time(hours, stream)
        if target is not None:
            # A window that other code has begun isn't gone on with: its rows would be of two codes.
            how += f", by version {target.version} ({code})"
        try:
            window = self.windowing.plan(
                WindowRequest(hours, how=how, stream=stream, target="" if target is None else target.name)
            )
        # Hours without a record are done, and hours before the first record aren't: somebody has
        # asked for the wrong time.
        except NothingLanded:
            self._check_began(done, late)
            return Chosen(done, late, None, f"nothing to do: no record arrived {_when(done)}")
        if (
            target is not None
            and ports is not None
            and not anew
            and self._is_parsed(window, target, ports, code)
        ):
            sentence = (
                f"nothing to do: the records that arrived {_when(done)} were parsed with version {target.version} "
                f"and the present code already ({code})"
            )
            return Chosen(done, late, None, sentence)
        return Chosen(done, late, *self._kept(window, anew=anew))

    def _complete(
        self, spans: Sequence[HoursOfPartition], target: ParseSettings | None
    ) -> tuple[tuple[HoursOfPartition, ...], tuple[HoursOfPartition, ...]]:
        """The spans into which no more records come, and the others. Raises Unknown where there is none of the first."""
        state = self.landed()
        through = overall(state.through, state.positions)
        if target is not None and target.stream:
            stated = {s: when for s, when in state.through.items() if s.name == target.stream}
            newest = max(stated, default=None)
            # The stream's newest life: nothing more comes into an earlier one, and its statement
            # stands still.
            through = None if newest is None else stated[newest]
        done = tuple(span for span in spans if through is not None and span.until <= through)
        late = tuple(span for span in spans if span not in done)
        if not done:
            complete = (
                "nothing states yet up to when the lake table is complete"
                if through is None
                else f"the lake table is complete up to {through:%Y-%m-%d %H:%M:%S} UTC"
            )
            raise Unknown(
                f"more records may come into {_which(late)}: {complete}. Nothing was changed; wait until the hours are complete, a quarter of an hour after their end where nothing lags, or set "
                "`incomplete: true` in the config to take what has landed so far"
            )
        return done, late

    def _check_began(self, spans: Sequence[HoursOfPartition], late: Sequence[HoursOfPartition]) -> None:
        """Raise Unknown where all spans lie before the first landed record. `late`: those that were left out before."""
        entries = self.windowing.lineage.entries(RangeFilter())
        arrivals = [
            recorded.first_arrival
            for entry in entries
            if isinstance(entry, LedgerEntry)
            for recorded in entry.page.ranges
            if recorded.first_arrival is not None
        ]
        first = min(arrivals, default=None)
        if first is None or spans[-1].until <= first:
            began = (
                "no record has landed yet"
                if first is None
                else f"the first landed record arrived at {first:%Y-%m-%d %H:%M} UTC"
            )
            others = f"; more records may come into {_which(late)}" if late else ""
            have = "has" if len(spans) == 1 else "have"
            raise Unknown(
                f"{_which(spans)} {have} no record: {began}{others}. Nothing was changed; choose later partitions that are "
                "complete"
            )

    def _is_parsed(self, window: ReplayWindow, target: ParseSettings, ports: ParsePorts, code: str) -> bool:
        if not ports.table.exists():
            return False
        # Aggregates that were taken apart since have rows that the typed table lacks, whatever has parsed them before.
        apart = self.windowing.lineage.entries(filter_of(window, frozenset({Kind.UNPACKED})))
        if any(entry.page.ranges for entry in apart if isinstance(entry, LedgerEntry)):
            return False
        entries = ports.lineage.entries(RangeFilter(kinds=DECISIONS))
        return is_parsed_by(window, entries, version=target.version, code=code)

    def _kept(self, window: ReplayWindow, *, anew: bool) -> tuple[ReplayWindow, str]:
        """The window, or one of the same records that is kept already. Of a replacement only one that isn't done:
        another one would find its rows replaced already."""
        for kept in reversed(self.windowing.windows.all()):
            if (
                _asks(kept.window) == _asks(window)
                and not kept.is_cancelled
                and not (kept.is_done and (anew or window.target))
            ):
                return (
                    kept.window,
                    f"the window {kept.window.id} has these records already, and is gone on with",
                )
        # Kept before its first wave, so that a run which is killed finds its window again, and its
        # days stay until the window is done.
        self.windowing.windows.keep(window)
        return window, f"window {window.id}: {window.how}; {window.cost()}"


def _asks(window: ReplayWindow) -> tuple[object, ...]:
    """What was asked for, of which records, and what they are for."""
    bounds = [(planned.key, planned.after, planned.upto) for planned in window.ranges]
    return window.how, bounds, window.target, window.processor, window.unpack


def _which(spans: Sequence[HoursOfPartition]) -> str:
    if len(spans) == 1:
        return spans[0].name
    return f"{counted(len(spans), 'partition')} ({spans[0].name} to {spans[-1].name})"


def _when(spans: Sequence[HoursOfPartition]) -> str:
    if len(spans) == 1:
        return f"in {spans[0].name}"
    return f"from {spans[0].since:%Y-%m-%d %H:%M} to {spans[-1].until:%Y-%m-%d %H:%M} UTC"
