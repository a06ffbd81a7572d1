"""What the ledgers of the lake table state is compared with what a wave of a typed table finds there, before anything
is parsed.

    plan of the wave ─► ledgers of the same time ─► as many rows? ─► go on
                                                        │ no
                                                        ▼
                        all ledgers of these shards ─► as many rows, or is there a reason? ─► go on, and say so
                                                        │ no
                                                        ▼
                                                      refuse

A position never moves past a row that landed and that the wave doesn't find. Rows may be gone for three reasons:
another engine has removed them, the retention had removed them before the typed table was made, or a person has said
`--accept-difference`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta

from headrace.pipeline.core.ledger.arrivals import first_kept_day
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.ledger import LedgerPage
from headrace.pipeline.core.ledger.story import Story, story_of
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import ChainBroken, WrongShape
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.typed.check import (
    Differs,
    ParsedSoFar,
    differences,
    excused,
    ledgers_asked,
    passed_over,
)
from headrace.pipeline.typed.ports import MadePorts
from headrace.pipeline.typed.set_elsewhere import (
    MADE,
    ParsedElsewhere,
    WayTo,
    landed_behind,
    looks_before,
    may_be_passed,
    parsed_after,
    parsed_back_to,
)
from headrace.pipeline.typed.values import PlannedRange, WavePlan
from headrace.pipeline.typed.window_edges import WindowEdges

SET_ELSEWHERE = "the lake table was set to another snapshot, or repaired, after this table had parsed"

_TOO_LATE = "These rows came after this run had begun, so that its --accept-difference isn't for them. "


class Changed(Exception):
    """The wave found other rows than the ledgers state. The lake table may have changed after the wave loaded it
    and before its ledgers were read.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckWords:
    """The words by which messages name an operation that reads waves of the lake table, such as parsing or
    processing.
    """

    command: str = "headrace parse"
    """The command by which a person makes a wave."""
    past: str = "parsed"
    """What the operation does with records, as a participle."""
    kept_since: str = "the typed table was made"
    """From when on the retention leaves its records."""
    way_out: str = "a window over it that replaces rows brings it (docs/use/replay.md)"
    """How a person brings records that the table has passed."""

    @property
    def safe(self) -> str:
        return f"Nothing of this wave was {self.past}, and no position moved; all rows are as they were."


@dataclass(slots=True)
class FirstPositions:
    """The made table's positions as the first wave of this process found them. None: no wave has looked yet."""

    positions: Positions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseChecking:
    name: str
    """The target's name."""
    ports: MadePorts
    landings: LineageTable
    """The ledgers of the lake table."""
    retention: timedelta | None
    clock: Clock
    words: CheckWords = field(default_factory=CheckWords)
    kept_since: datetime | None = None
    """When the window was made, where the waves are those of a window: records that the retention may have removed by then, and those of days
    that the lake table says are gone, aren't missed. None: they are the waves of a table that follows the lake table."""
    edges: WindowEdges = field(default_factory=WindowEdges)
    """Those of the window, where the waves are those of a window."""
    accepts_difference: bool = False
    """Whether a person has said that the rows which are there are to be parsed, though the ledgers state others."""
    first: FirstPositions = field(default_factory=FirstPositions)

    def note_positions(self, positions: Positions) -> None:
        """Called with the made table's positions each time when a wave has looked."""
        if self.first.positions is None:
            self.first.positions = positions

    def check(
        self,
        plan: WavePlan,
        *,
        way_to: WayTo,
        kept_from: date | None = None,
        elsewhere: tuple[ParsedElsewhere, ...] = (),
        rows_there: Callable[[PlannedRange], int],
        is_last: bool,
    ) -> tuple[str, ...]:
        """Compare the rows that the wave found with the lake table's ledgers. Returns notes for people. Raises
        WrongShape where rows are missing or doubled without a reason, and Changed where the wave has to load the
        lake table again first (`is_last`: the wave has done so already). `kept_from`: the first day that the
        retention has left there, as the table states it. `elsewhere`: ranges that were parsed at
        snapshots which may not belong to the lake table's `main`. `rows_there`: counts the rows of a range in the
        lake table.
        """
        parsed, edges = ParsedSoFar(self._pages(), way_to), replace(self.edges, rows_there=rows_there)
        # Most waves end here, by the ledgers of their days. Those of all times are read only where these don't agree.
        story = story_of(self.landings.entries(ledgers_asked(plan)))
        elsewhere = may_be_passed(elsewhere, story)
        if not elsewhere and not any(differences(plan, story, parsed, edges=edges)):
            return ()
        both = replace(plan, ranges=(*plan.ranges, *(before.parsed for before in elsewhere)))
        entries = tuple(self.landings.entries(ledgers_asked(both, all_ledgers=True)))
        story = story_of(entries)
        passed = passed_over(elsewhere, story, rows_there)
        differing = tuple(differences(plan, story, parsed, edges=edges, all_ledgers=True))
        if not differing and not passed:
            return ()
        if not is_last:
            raise Changed
        # A commit that removed rows tells nothing about rows that are there, so that a person alone excuses these.
        refused = passed
        if passed and self.accepts_difference:
            # The person knew of no rows behind places that the table has come to since the run began.
            later = parsed_after(elsewhere, self.first.positions or Positions())
            refused = passed_over(later, story, rows_there)
        if refused:
            raise WrongShape(self._passed_over(refused[0]))
        # A window is made of what had landed by then, whatever the clocks of those who landed it say.
        entries_of_table = () if self.kept_since is not None else self.ports.lineage.entries()
        begun = next((entry.at for entry in entries_of_table), None)
        # The table's word first: the upkeep that removed a day may have had another clock, or a shorter retention.
        kept_from = first_kept_day(self.kept_since or self.clock.now(), self.retention, kept_from)
        notes = [
            f"{difference.key}: {counted(difference.lacks, 'row')} that landed behind this table's position aren't "
            f"{self.words.past}, "
            "as a person has accepted"
            for difference in passed
        ]
        unexcused = [
            difference
            for difference in differing
            if not excused(difference, entries, kept_from=kept_from, begun=begun)
        ]
        return (*notes, *(self._note(difference, unexcused) for difference in differing))

    def _note(self, difference: Differs, unexcused: Sequence[Differs]) -> str:
        """Why a person needn't mind this difference. Raises WrongShape where nothing tells why it is there. `unexcused`: the
        differences that the retention doesn't explain."""
        many = _many(difference, self.words.past)
        if difference not in unexcused:
            return f"{many} because upkeep.retention had removed them before {self.words.kept_since}"
        # Before a person's word, so that the note names the commit.
        if why := self._by_others(difference, unexcused):
            return f"{many}: {why}"
        if self.accepts_difference:
            return f"{many}, as a person has accepted"
        raise WrongShape(self._refusal(difference))

    def landed_behind(self, positions: Positions, looks: Mapping[ShardKey, int]) -> Mapping[ShardKey, str]:
        """The shards of which records have landed at or below these positions of the typed table, by the ledgers
        of the lake table that are newer than `looks` (`set_elsewhere.landed_behind`).
        """
        return landed_behind(positions, looks, self.story_since(positions, min(looks.values(), default=0)))

    def story_since(self, positions: Positions, above: int) -> Story:
        """What the ledgers of the lake table after the snapshot with this sequence number tell of the shards of these
        positions."""
        if not positions.shards:
            return Story()
        shards = frozenset(key.shard_id for key in positions.shards)
        return story_of(self.landings.entries(RangeFilter(shards=shards, above=above)))

    def looks_before(self, keys: Collection[ShardKey]) -> Mapping[ShardKey, int]:
        """For each of these shards a snapshot of the lake table that is older than the one that the shard's
        newest wave read (`set_elsewhere.looks_before`).
        """
        if not keys:
            return {}
        of_shards = RangeFilter(shards=frozenset(key.shard_id for key in keys))
        made = self.ports.lineage.entries(RangeFilter(kinds=MADE))
        return looks_before(keys, made, self.landings.entries(of_shards))

    def parsed_back_to(
        self, places: Mapping[ShardKey, str], looks: Mapping[ShardKey, int]
    ) -> tuple[ParsedElsewhere, ...]:
        """The ranges of these shards that the typed table has parsed after these places, which are sort keys
        (`set_elsewhere.parsed_back_to`).
        """
        # Not by the table's snapshots, of which the older ones expire.
        asked = RangeFilter(shards=frozenset(key.shard_id for key in places), kinds=MADE)
        return parsed_back_to(places, self.ports.lineage.entries(asked), looks)

    def _by_others(self, difference: Differs, unexcused: Iterable[Differs]) -> str:
        """Which commit of another engine tells why; empty where none does. One deletion may not be the reason for more
        rows than it has removed, of all shards together."""
        removes = difference.lacks > 0
        alike = [like for like in unexcused if (like.lacks > 0) == removes]
        # Rows that another engine inserted may wait for the position from long before these ranges landed.
        since, since_all = (difference.since, min(like.since for like in alike)) if removes else (0, 0)
        why = self.ports.source.changed_by_others(since, lacks=difference.lacks)
        all_lack = sum(like.lacks for like in alike)
        return why if why and self.ports.source.changed_by_others(since_all, lacks=all_lack) else ""

    def _pages(self) -> Iterator[LedgerPage]:
        # The typed table's history ends where its older snapshots have expired. What a wave can't be compared with then
        # isn't compared.
        with suppress(ChainBroken):
            yield from self.ports.table.pages()

    def _passed_over(self, difference: Differs) -> str:
        return (
            f"{self.name}: {SET_ELSEWHERE} {difference.key}, and there it has rows that this table has passed: between two "
            f"of this table's positions it has {counted(difference.stated, 'row')} now, and {difference.rows_found:,} were {self.words.past}. "
            f"Records were skipped or lost on the other way, or aggregates are taken apart now. {self.words.safe} "
            f"{_TOO_LATE if self.accepts_difference else ''}"
            f"Run `{self.words.command} {self.name} --accept-difference` once to go on without them; "
            f"`headrace prove` names what is missing, and {self.words.way_out}"
        )

    def _refusal(self, difference: Differs) -> str:
        if difference.lacks < 0:
            return (
                f"{self.name}: {difference}: {counted(-difference.lacks, 'row')} more, and no commit of another "
                f"engine tells why. {self.words.safe} `headrace prove` names rows that are in the lake table twice, "
                "and rows that no ledger claims. Of two equal rows remove the second one by another engine, "
                f"and try again; if the rows are another engine's and are to be {self.words.past}, run "
                f"`{self.words.command} {self.name} --accept-difference` once"
            )
        return (
            f"{self.name}: {difference}: {counted(difference.lacks, 'row')} that landed can't be {self.words.past}, "
            "and neither upkeep.retention nor a commit of another engine tells why. "
            f"{self.words.safe} `headrace prove` tells what is missing; bring the rows back from a snapshot that has them, or, "
            f"if they were removed on purpose, run `{self.words.command} {self.name} --accept-difference` once"
        )


def _many(difference: Differs, past: str) -> str:
    if difference.lacks < 0:
        return f"{difference.key}: {counted(-difference.lacks, 'row')} more {past} than landed"
    return (
        f"{difference.key}: {counted(difference.lacks, 'row')} that landed aren't in the lake table any more, "
        f"and aren't {past}"
    )
