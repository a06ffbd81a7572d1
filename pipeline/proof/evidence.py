"""The values that a proof has read of one table, and the result of comparing its rows with its ledgers.

The lake table is the simplest table: it has no quarantine table, and isn't made of another table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.pipeline.core.ledger.live_files import LiveFiles
from headrace.pipeline.core.ledger.story import Step, Story
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.proof.spans import FileCount
from headrace.pipeline.proof.verdict import Told


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLook:
    """What a proof has read of one table: its files, positions and ledgers."""

    name: str
    story: Story = field(default_factory=Story)
    positions: Positions = field(default_factory=Positions)
    live: LiveFiles = field(default_factory=LiveFiles)
    counts: tuple[FileCount, ...] = ()
    """The counts of the files that were read."""
    unchanged: tuple[FileCount, ...] = ()
    """Files that an earlier proof has read, looked at again."""
    exists: bool = True


@dataclass(frozen=True, slots=True)
class RedrivenRows:
    """Numbers of rows of a shard with redrives: what the ledgers state without the redrives, and what was counted."""

    stated_parsed: int
    stated_aside: int
    parsed: int
    aside: int

    def __add__(self, other: RedrivenRows) -> RedrivenRows:
        return RedrivenRows(
            self.stated_parsed + other.stated_parsed,
            self.stated_aside + other.stated_aside,
            self.parsed + other.parsed,
            self.aside + other.aside,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The result of comparing the rows of some ranges with what the ledgers state."""

    ranges: int = 0
    """How many ranges were compared; those that overlap count as one."""
    numbers: tuple[tuple[tuple[int, str], Told], ...] = ()
    """What is wrong with the number of rows of a range, each with the place by which it sorts (`cluster_place`)."""
    rows: tuple[Told, ...] = ()
    """What is wrong with single rows: they are there too often."""
    derived: int = 0
    """The number of records in derived ranges, of which nothing can be proved."""
    redriven: Mapping[ShardKey, RedrivenRows] = field(default_factory=dict)

    @property
    def miscounts(self) -> tuple[Told, ...]:
        return tuple(statement for _, statement in self.numbers)


def all_rounds(rounds: Iterable[Compared]) -> Compared:
    """The results of all rounds of a proof as one, in the order in which the ranges sort."""
    rounds = tuple(rounds)
    redriven: dict[ShardKey, RedrivenRows] = {}
    for compared in rounds:
        for key, rows in compared.redriven.items():
            redriven[key] = redriven[key] + rows if key in redriven else rows
    numbers = (placed for compared in rounds for placed in compared.numbers)
    return Compared(
        ranges=sum(compared.ranges for compared in rounds),
        numbers=tuple(sorted(numbers, key=lambda placed: placed[0])),
        rows=tuple(statement for compared in rounds for statement in compared.rows),
        # Each round plans the whole history, and so tells of all derived ranges.
        derived=rounds[-1].derived if rounds else 0,
        redriven=redriven,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The values that the checks of any table use."""

    table: TableLook
    aside: TableLook | None = None
    """The quarantine table beside a typed table."""
    compared: Compared = field(default_factory=Compared)
    source_rows: int = 0
    """The number of rows in the files of the lake table that were read for a table made of it."""
    source_files: int = 0

    @property
    def looks(self) -> tuple[TableLook, ...]:
        return (self.table,) if self.aside is None else (self.table, self.aside)

    @property
    def ranges(self) -> int:
        return sum(look.story.ranges for look in self.looks)

    @property
    def rows(self) -> int:
        """How many rows of the tables were read."""
        return sum(count.rows for look in self.looks for count in look.counts)

    @property
    def files(self) -> int:
        return sum(len(look.counts) for look in self.looks)

    @property
    def unchanged(self) -> int:
        return sum(len(look.unchanged) for look in self.looks)


def unsettled_steps(story: Story, quarantine: Positions) -> tuple[tuple[Step, ...], tuple[ShardKey, ...]]:
    """The ranges of a typed table that its quarantine table hasn't taken over yet, and the shards whose position
    in the quarantine table isn't the end of a range of the typed table.
    """
    late: list[Step] = []
    lost: list[ShardKey] = []
    for key, steps in story.steps.items():
        position = quarantine.of(key)
        ends = [
            i
            for i, step in enumerate(steps)
            if position is not None and step.range.upto.token == position.token
        ]
        late += steps[ends[-1] + 1 :] if ends else steps
        # A position at which no range of the typed table ends was reached by something else than
        # its ledgers.
        if position is not None and not ends:
            lost.append(key)
    return tuple(late), tuple(lost)
