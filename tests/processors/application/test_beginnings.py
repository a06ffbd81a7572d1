"""At LATEST, no record is skipped that comes after the processor has begun with its stream."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.leases.change import Applied, Change, Outcome, Refused
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import LATEST, TRIM_HORIZON
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange
from headrace.pipeline.core.sharing.sync_plan import rows_of_stream
from headrace.pipeline.errors import Throttled, Transient
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.processors.application.beginnings import begun_at_latest
from headrace.pipeline.settings.choices import InitialPosition
from tests.duties.two_streams import recreate
from tests.duties.world import STREAM, Cut
from tests.memory.leases import MemoryLeaseStore, one_by_one
from tests.memory.source import MemorySource
from tests.processors.application.worlds import ApplicationWorld


class Throttling(MemorySource):
    """Describes no stream."""

    def __init__(self, source: MemorySource) -> None:
        vars(self).update(vars(source))

    def describe(self, name: str) -> StreamFacts:
        raise Throttled(f"the description of {name} was throttled")


BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = BEGUN + timedelta(seconds=60)
LOWER, UPPER = HashRange(0, MAX_HASH_KEY // 2), HashRange(MAX_HASH_KEY // 2 + 1, MAX_HASH_KEY)


def a_row(name: str, hash_range: HashRange | None = LOWER, *, epoch: int | None = 7) -> Lease:
    return Lease(name, checkpoint=LATEST, hash_range=hash_range, stream_epoch=epoch)


def test_the_first_rows_of_a_stream_have_the_moment_at_which_they_are_made():
    assert begun_at_latest(a_row("a"), (), NOW) == replace(a_row("a"), looked_at=NOW)


def test_a_shard_whose_hash_keys_another_row_has_is_read_from_its_oldest_record():
    ancestor = replace(a_row("a", HashRange(0, MAX_HASH_KEY)), looked_at=BEGUN)
    assert begun_at_latest(a_row("c"), (ancestor,), NOW).checkpoint == TRIM_HORIZON


def test_a_shard_that_the_first_listing_hid_is_read_from_the_moment_of_the_other_rows():
    first = replace(a_row("a"), looked_at=BEGUN)
    assert begun_at_latest(a_row("b", UPPER), (first,), NOW) == replace(a_row("b", UPPER), looked_at=BEGUN)


@pytest.mark.parametrize("row", [a_row("b", UPPER, epoch=6), a_row("b", None)])
def test_beside_rows_of_an_earlier_life_or_without_hash_keys_nothing_is_skipped(row: Lease):
    assert begun_at_latest(a_row("a"), (row,), NOW).checkpoint == TRIM_HORIZON


class MortalRows(MemoryLeaseStore):
    """Lease rows of a leader that dies once it has made some writes. Writes that go out side by side arrive in either order."""

    def __init__(self, *, last_first: bool) -> None:
        super().__init__()
        self._last_first = last_first
        self.writes_left: int | None = None
        """How many writes arrive before the leader dies; None: it lives."""

    @property
    def at_once(self) -> int:
        return 16

    def apply(self, change: Change) -> Applied | Refused:
        if self.writes_left == 0:
            raise Cut
        if self.writes_left is not None:
            self.writes_left -= 1
        return super().apply(change)

    def apply_all(self, changes: Sequence[Change]) -> tuple[Outcome, ...]:
        if not self._last_first:
            return super().apply_all(changes)
        return one_by_one(self.apply, changes[::-1])[::-1]


@pytest.mark.parametrize("last_first", [False, True], ids=["in order", "last first"])
@pytest.mark.parametrize("writes", [0, 1, 2, None])
@pytest.mark.parametrize(
    ("shards_before", "more_streams"),
    [(1, ()), (2, ()), (1, ("returns",))],
    ids=["one shard", "two shards", "of several streams"],
)
def test_a_stream_that_is_created_again_is_read_from_its_beginning_wherever_its_leader_dies(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    shards_before: int,
    more_streams: tuple[str, ...],
    writes: int | None,
    last_first: bool,
):
    world = ApplicationWorld(
        shards=shards_before,
        more_streams=more_streams,
        log=tmp_path / "recorded",
        position=InitialPosition.LATEST,
    )
    monkeypatch.setenv("RECORDED", str(world.log))
    rows = world.store = MortalRows(last_first=last_first)
    world.begin_process()
    world.say("before")
    world.clock.advance(world.settings.times.worker_tick)
    world.settle()
    if shards_before > 1:
        # As after a merge whose parents are forgotten: no row of the earlier life has the key of the new one.
        rows.wipe(world.shard(0).shard_id)
    world.shards = 1
    world.clock.advance(timedelta(hours=1))
    recreate(world, STREAM)
    world.say("a")
    world.clock.advance(timedelta(minutes=10))
    world.begin_process()
    rows.writes_left = writes
    with suppress(Cut):
        world.lead()
    rows.writes_left = None
    world.begin_process()
    world.clock.advance(timedelta(minutes=10))
    world.tick(40)
    world.wave(run="second")
    assert world.words() == ["a"]
    of_stream = rows_of_stream(world.stream, rows.scan().leases)
    assert {row.stream_epoch for row in of_stream} == {world.stream.epoch}


def test_nothing_is_skipped_where_kinesis_doesnt_describe_the_stream_while_its_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    world = ApplicationWorld(shards=1, log=tmp_path / "recorded", position=InitialPosition.LATEST)
    monkeypatch.setenv("RECORDED", str(world.log))
    world.settle()
    world.clock.advance(timedelta(seconds=10))
    world.say("a")
    world.clock.advance(timedelta(minutes=5))
    world.begin_process()
    streams = world.table.streams  # type: ignore[attr-defined]
    streams.source = Throttling(world.source)
    with pytest.raises(Transient, match="couldn't be described when its lease rows were read"):
        world.wave()
    streams.source = world.source
    world.clock.advance(timedelta(minutes=15))
    world.wave(run="second")
    assert world.words() == ["a"]


@pytest.mark.parametrize("position", [InitialPosition.LATEST, InitialPosition.TRIM_HORIZON])
def test_a_stream_that_is_created_again_within_a_minute_is_read_from_its_beginning_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, position: InitialPosition
):
    world = ApplicationWorld(shards=1, log=tmp_path / "recorded", position=position)
    monkeypatch.setenv("RECORDED", str(world.log))
    world.settle()
    world.say("before")
    world.wave()
    # The leader's process still knows the stream as it was.
    world.source.delete_stream(STREAM)
    world.clock.advance(timedelta(seconds=20))
    world.stream = world.source.create_stream(STREAM, world.shards)
    world.say("a")
    world.clock.advance(timedelta(seconds=10))
    assert world.lead().trouble is None
    assert world.row().stream_epoch == world.stream.epoch
    world.settle()
    world.begin_process()
    world.wave(run="second")
    assert world.words() == ["before", "a"]
