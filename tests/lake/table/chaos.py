"""Writers without any lease on one Iceberg table, and a seed that decides who goes on, dies, freezes or loses an answer.

A writer is a generator: between two of its steps anything can happen to it. One thread goes through all steps, so that the same
seed is the same history. There are two kinds of writers:

    fenced   the product's commit: read the table's position, stage, commit by compare-and-swap
    naive    read the checkpoint, stage, append, write the checkpoint
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Protocol

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import Transient
from headrace.pipeline.lake.table.data_files import data_files
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from tests.lake.samples import ORIGIN, a_file, a_key, a_range
from tests.lake.tables import IcebergLake, before_next_swap, lose
from tests.upkeep.upkeeps import upkeep_of

KEYS = tuple(a_key(number) for number in range(12))
RECORDS, AT_ONCE = 1_000, 100
"""Records that each shard has, and records of a shard that one wave takes."""
WRITERS = 4
KILLED, FROZEN, UPKEPT = 0.08, 0.08, 0.06
"""How likely each of these is in one step of the chaos."""
STALE, LOST, OVERTAKEN = 0.3, 0.15, 0.3
"""How likely a writer begins from an old position or checkpoint, loses a request or its answer, and is overtaken by another commit."""
HOURS = timedelta(hours=8)
"""The time that passes from one upkeep to the next. Staged files are too old for a commit after twelve hours."""
FEW = UpkeepSettings(
    keep_snapshots=5, keep_for=timedelta(minutes=1), orphans_after=timedelta(days=1), compact=False
)


class Writing(Protocol):
    """What the chaos does with one table."""

    happened: Counter[str]

    def wave(self, writer: int) -> Iterator[None]:
        """The steps of one wave."""
        ...

    def is_done(self) -> bool: ...

    def look_after(self) -> None:
        """One upkeep of the table."""
        ...


@dataclass
class Fenced:
    lake: IcebergLake
    dice: Random
    happened: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        # The table was created at the host's time, which no commit may go behind.
        self.lake.clock.at = datetime.now(UTC) + timedelta(hours=1)
        self.lake.table.commit(ORIGIN)
        self.handles: list[IcebergTable] = [self.lake.handle() for _ in range(WRITERS)]
        self.seen = [self.lake.iceberg.load().positions] * WRITERS

    def wave(self, writer: int) -> Iterator[None]:
        table, dice = self.handles[writer], self.dice
        keys = dice.sample(KEYS, 2)
        if dice.random() >= STALE:
            self.seen[writer] = table.load().positions
        begins = {key: _number(self.seen[writer], key) for key in keys}
        yield
        proposal = self._staged(table, {key: n for key, n in begins.items() if n < RECORDS})
        yield
        if not proposal.ranges:
            return
        if dice.random() < LOST:
            lose(table.catalog, dice.choice(("request", "answer")))
            self.happened["lost"] += 1
        elif dice.random() < OVERTAKEN:
            before_next_swap(table.catalog, lambda: self._overtake(keys[0]))
        try:
            committed = table.commit(proposal)
        except Transient:
            self.happened["given up"] += 1  # as in a run, the next wave starts at the table's positions
            return
        finally:
            table.__dict__.pop("catalog", None)  # a fresh connection, without faults that didn't strike
        self.happened["refused"] += bool(committed.landing.refused)

    def _staged(self, table: IcebergTable, begins: dict[ShardKey, int]) -> Proposal:
        if not begins:
            return Proposal()
        file = _a_file(self.lake, table, begins)
        ranges = (
            a_range(key, n or None, n + AT_ONCE, rows=AT_ONCE, files=[file]) for key, n in begins.items()
        )
        return Proposal(tuple(ranges), (file,))

    def _overtake(self, key: ShardKey) -> None:
        """Another process lands a wave of this shard between the look and the commit of a writer."""
        table = self.lake.handle()
        stands = _number(table.load().positions, key)
        if stands < RECORDS:
            table.commit(self._staged(table, {key: stands}))
            self.happened["overtaken"] += 1

    def is_done(self) -> bool:
        positions = self.lake.iceberg.load().positions
        return all(_number(positions, key) == RECORDS for key in KEYS)

    def look_after(self) -> None:
        table, clock = self.lake.iceberg, self.lake.clock
        before = len(table.retained().snapshots)
        report = upkeep_of(table, FEW, clock).run()
        self.happened["deleted"] += len(report.deleted)
        self.happened["expired"] += max(0, before - len(table.retained().snapshots))
        clock.at += HOURS


@dataclass
class Naive:
    lake: IcebergLake
    dice: Random
    happened: Counter[str] = field(default_factory=Counter)
    checkpoints: dict[ShardKey, int] = field(default_factory=lambda: dict.fromkeys(KEYS, 0))

    def __post_init__(self) -> None:
        self.seen = [dict(self.checkpoints) for _ in range(WRITERS)]

    def wave(self, writer: int) -> Iterator[None]:
        dice = self.dice
        keys = dice.sample(KEYS, 2)
        if dice.random() >= STALE:
            self.seen[writer] = dict(self.checkpoints)
        begins = {key: n for key in keys if (n := self.seen[writer][key]) < RECORDS}
        yield
        file = _a_file(self.lake, self.lake.iceberg, begins) if begins else None
        yield
        if file is None:
            return
        self._append(file)
        if dice.random() < LOST:
            self.happened["lost"] += 1
            self._append(file)  # no answer came, so the writer tries again
        yield
        self.checkpoints |= {key: n + AT_ONCE for key, n in begins.items()}

    def _append(self, file: StagedFile) -> None:
        table = self.lake.iceberg.open()
        with table.transaction() as change, change.update_snapshot().fast_append() as append:
            append.append_data_file(next(data_files((file,), table.metadata)))

    def is_done(self) -> bool:
        return all(stands >= RECORDS for stands in self.checkpoints.values())

    def look_after(self) -> None:
        """A naive pipeline has none."""


@dataclass(frozen=True)
class Outcome:
    lost: int
    doubled: int
    happened: Counter[str]

    def __str__(self) -> str:
        what = ", ".join(f"{n} {name}" for name, n in sorted(self.happened.items()))
        return f"{len(KEYS) * RECORDS:,} records: {self.lost:,} lost, {self.doubled:,} doubled ({what})"


def chaos(kind: type[Fenced] | type[Naive], folder: Path, seed: int) -> Outcome:
    """Let the writers work until all records have landed, and each frozen writer has woken and ended its wave."""
    dice = Random(seed)
    lake = IcebergLake(folder)
    writing = kind(lake, dice)
    at_work = [writing.wave(writer) for writer in range(WRITERS)]
    frozen: list[Iterator[None]] = []
    while not writing.is_done():
        writer, fate = dice.randrange(WRITERS), dice.random()
        if fate < KILLED:
            writing.happened["killed"] += 1
            at_work[writer] = writing.wave(writer)
        elif fate < KILLED + FROZEN:
            frozen.append(at_work[writer])
            at_work[writer] = writing.wave(writer)
        elif fate < KILLED + FROZEN + UPKEPT:
            writing.look_after()
        elif frozen and fate > 1 - FROZEN:
            wake(writing, frozen.pop(dice.randrange(len(frozen))))
        elif next(at_work[writer], writing) is writing:
            at_work[writer] = writing.wave(writer)
    for sleeper in (*frozen, *at_work):
        wake(writing, sleeper)
    numbers = lake.numbers()
    doubled = sum(len(found) - len(set(found)) for found in numbers.values())
    return Outcome(
        len(KEYS) * RECORDS - sum(len(set(found)) for found in numbers.values()), doubled, writing.happened
    )


def wake(writing: Writing, sleeper: Iterator[None]) -> None:
    """A frozen writer goes on where it stood, and ends its wave."""
    writing.happened["woken"] += 1
    for _ in sleeper:
        pass


def _number(positions: Positions, key: ShardKey) -> int:
    found = positions.of(key)
    return 0 if found is None else found.sequence or 0


def _a_file(lake: IcebergLake, table: IcebergTable, begins: dict[ShardKey, int]) -> StagedFile:
    """One file with the next records of each shard."""
    rows = {key: range(n + 1, n + AT_ONCE + 1) for key, n in begins.items()}
    return replace(a_file(table.staging_spec(), rows), staged_at=lake.clock.at)
