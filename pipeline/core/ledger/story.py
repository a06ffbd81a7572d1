"""What the ledgers of a table up to one snapshot tell of each shard (its story): its ranges in the order of their
commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headrace.pipeline.core.ledger.ledger import LedgerEntry, Lost, Range
from headrace.pipeline.core.shards.stream import ShardKey


@dataclass(frozen=True, slots=True)
class Step:
    """A range of a shard, with the snapshot whose ledger has it."""

    snapshot: int
    sequence: int
    range: Range
    at: datetime | None = None
    """The snapshot's time."""

    def __str__(self) -> str:
        after = "the start" if self.range.after is None else f"{self.range.after}"
        return f"{self.range.key} after {after} up to {self.range.upto} (snapshot {self.snapshot}, run {self.range.run})"


@dataclass(frozen=True, slots=True)
class Story:
    """The ranges that ledgers up to one snapshot have, by shard."""

    steps: Mapping[ShardKey, tuple[Step, ...]] = field(default_factory=dict)
    """Ranges that move the position, in the order of their commits."""
    derived: Mapping[ShardKey, tuple[Step, ...]] = field(default_factory=dict)
    """Ranges that were made from rows of the table, because their ledger is lost: rows can't prove them."""
    replays: Mapping[ShardKey, tuple[Step, ...]] = field(default_factory=dict)
    lost: tuple[Lost, ...] = ()
    dropped: Mapping[ShardKey, int] = field(default_factory=dict)
    """Shards whose END was removed from the positions, with the sequence number of the snapshot that did."""

    @property
    def ranges(self) -> int:
        """How many ranges of the ledgers move a position."""
        return counted_ranges(step for steps in self.steps.values() for step in steps)

    @property
    def keys(self) -> tuple[ShardKey, ...]:
        return tuple(sorted(self.steps.keys() | self.derived.keys() | self.replays.keys()))

    def of(self, key: ShardKey) -> tuple[Step, ...]:
        """All ranges of the shard that can have rows."""
        return (*self.steps.get(key, ()), *self.derived.get(key, ()), *self.replays.get(key, ()))

    def all(self) -> Iterator[Step]:
        """All ranges that ledgers have, of every shard."""
        for steps in (*self.steps.values(), *self.replays.values()):
            yield from steps

    def is_lost_between(self, below: int, upto: int) -> bool:
        """Whether the ledgers of snapshots between these two (by sequence numbers; the first excluded, the second
        included) are missing in part.
        """
        return any(below < part.sequence <= upto for part in self.lost)

    def first(self, key: ShardKey) -> Step | None:
        steps = self.steps.get(key)
        return steps[0] if steps else None

    def end(self, key: ShardKey) -> Step | None:
        """The step whose range has the shard's END, if the shard has ended and no person has opened it again."""
        steps = self.steps.get(key)
        return steps[-1] if steps and steps[-1].range.upto.ended else None


def counted_ranges(steps: Iterable[Step]) -> int:
    """How many ranges of ledgers these steps stand for; a joined range counts as many as it was joined of."""
    return sum(step.range.joined for step in steps)


def story_of(entries: Iterable[LedgerEntry | Lost]) -> Story:
    """The ranges that these ledgers have, by shard. `entries`: oldest first."""
    steps: dict[ShardKey, list[Step]] = {}
    replays: dict[ShardKey, list[Step]] = {}
    derived: dict[ShardKey, list[Step]] = {}
    lost: list[Lost] = []
    dropped: dict[ShardKey, int] = {}
    for entry in entries:
        if isinstance(entry, Lost):
            lost.append(entry)
        else:
            dropped.update(dict.fromkeys(entry.page.dropped, entry.sequence))
        for recorded in entry.ranges if isinstance(entry, Lost) else entry.page.ranges:
            # Replays and ranges made of rows stand beside the chain: they move no position, so that a chain with them
            # would look broken.
            to = derived if isinstance(entry, Lost) else steps if recorded.moves else replays
            to.setdefault(recorded.key, []).append(Step(entry.snapshot, entry.sequence, recorded, entry.at))
    return Story(_frozen(steps), _frozen(derived), _frozen(replays), tuple(lost), dropped)


def _frozen(steps: Mapping[ShardKey, list[Step]]) -> Mapping[ShardKey, tuple[Step, ...]]:
    # By name, so that two readings of one history tell of the shards in the same order.
    return {key: tuple(steps[key]) for key in sorted(steps)}
