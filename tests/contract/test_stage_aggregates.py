"""What every reading and staging of a shard promises about aggregates, and about the end of a stretch that a window reads: in memory, and by the
function that a Spark task calls."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Staged
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lake.staging.stage_task import stage_batches
from headrace.pipeline.ports.staging import StagingSpec
from tests.lake.kpl_pages import a_page_of, aggregate
from tests.lake.samples import StandingClock
from tests.lake.stage_script import ROOMY, a_batch, a_spec, script
from tests.memory.clock import MemoryClock
from tests.memory.source import MemorySource
from tests.memory.stage import MemoryStage

LIMITS = BatchLimits(1_000, 1_000_000, 60.0)


class InMemory:
    """The records of a shard, by their numbers of user records, with sequence numbers 1, 2, 3..."""

    def __init__(self) -> None:
        self._clock = MemoryClock()
        self._source = MemorySource(self._clock)
        self._source._next = 1  # records are numbered as in a page
        self._key = ShardKey(self._source.create_stream("orders"), "shardId-000000000000")
        self._numbers: list[int] = []

    def read(
        self, *users: int, unpack: bool, after: Position | None = None, until: Position | None = None
    ) -> Staged:
        for count in users:
            self._numbers.append(self._source.put(self._key, users=count))
        at, end = self._placed(after), self._placed(until)
        batch = replace(a_batch(), key=self._key, after=at, witness=self._clock.now(), until=end)
        stage = MemoryStage(self._source, self._clock)
        (staged,) = stage.stage([batch], StagingSpec("memory", (), unpack=unpack), LIMITS).staged
        return staged

    def _placed(self, at: Position | None) -> Position | None:
        return at and replace(at, sequence=self._numbers[at.sequence - 1] if at.sequence else 0)

    def number(self, sequence: int | None) -> int | None:
        return (
            None
            if sequence is None
            else next((n for n, s in enumerate(self._numbers, 1) if s == sequence), 0)
        )


class ByATask:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(
        self, *users: int, unpack: bool, after: Position | None = None, until: Position | None = None
    ) -> Staged:
        payloads = [b"plain" if count == 1 else aggregate(*([b"a"] * count)) for count in users]
        first = 1 if after is None or after.sequence is None else after.sequence
        page = a_page_of(*payloads[first - 1 :], first=first)
        batch: Batch = replace(a_batch(0, after), until=until)
        spec = replace(a_spec(self._folder), unpack=unpack)
        done = stage_batches(
            [batch], script(s0=[page]), spec=spec, limits=ROOMY, threads=1, clock=StandingClock()
        )
        (staged,) = done.staged
        return staged

    def number(self, sequence: int | None) -> int | None:
        return sequence


Made = InMemory | ByATask


@pytest.fixture(params=["memory", "task"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    return InMemory() if request.param == "memory" else ByATask(tmp_path)


def told(made: Made, staged: Staged) -> tuple[int | None, int, int, bool]:
    """The number and the sub-sequence number of the last record, the rows, and whether aggregates were taken apart."""
    return made.number(staged.upto.sequence), staged.upto.sub, staged.rows, staged.unpacked


def test_an_aggregate_is_a_row_for_each_user_record_and_the_position_is_at_the_last_one(made: Made):
    assert told(made, made.read(1, 3, unpack=True)) == (2, 2, 4, True)


def test_a_table_that_keeps_aggregates_gets_a_row_for_each_record(made: Made):
    assert told(made, made.read(1, 3, 2, unpack=False)) == (3, 0, 3, False)


def test_a_table_that_keeps_aggregates_gets_no_part_of_one(made: Made):
    staged = made.read(1, 3, unpack=False, after=Position(2, 0, inside=True))
    assert staged.error is not None
    assert "keeps aggregates whole" in staged.error
    assert staged.rows == 0


@pytest.mark.parametrize(
    ("after", "until", "rows"),
    [
        # Of one plain record and two aggregates, of three user records and of two.
        (None, Position(2, 0, inside=True), 2),
        (None, Position(2, 1, inside=True), 3),
        (None, Position(2, 2, inside=True), 2),
        (None, Position(3, 0, inside=True), 3),
        (Position(2, 0, inside=True), Position(3), 3),
        (Position(2, 0, inside=True), Position(2, 1, inside=True), 1),
    ],
)
def test_a_window_that_keeps_aggregates_takes_one_apart_in_which_its_stretch_begins_or_ends(
    made: Made, after: Position | None, until: Position, rows: int
):
    staged = made.read(1, 3, 2, unpack=False, after=after, until=until)
    assert staged.error is None
    assert told(made, staged) == (until.sequence, until.sub, rows, False)


def test_a_stretch_ends_with_its_last_record(made: Made):
    staged = made.read(1, 3, 1, unpack=True, until=Position(1))
    assert told(made, staged) == (1, 0, 1, True)
    assert staged.error is None


def test_a_stretch_without_a_record_is_read_to_its_end(made: Made):
    staged = made.read(1, 3, unpack=True, until=Position(0))
    assert told(made, staged) == (0, 0, 0, True)
    assert staged.error is None
