"""The stream of a DynamoDB table through waves: each change lands once, over roll-overs, late listings, lost rows and trims.
The reader is the product's, on the double that the contract holds to DynamoDB Local."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.dynamodb_streams.source import DynamoDbSource
from headrace.pipeline.aws.dynamodb_streams.table_pages import DynamoDbPages
from headrace.pipeline.aws.reading.asking import Host
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.shards.switched_off import SWITCHED_OFF, switched_off
from headrace.pipeline.duties.fleet.cleanup import CleanupDue
from headrace.pipeline.duties.streams.streams import Tracked
from headrace.pipeline.duties.streams.writing import Tally
from headrace.pipeline.settings.choices import InitialPosition, OnDataLoss
from headrace.pipeline.settings.model import Settings, StreamSettings
from tests.duties.life import Life
from tests.duties.waves.test_data_loss_on_kinesis import HostStage
from tests.memory.table import MemoryTable
from tests.memory.table_streams import MemoryTableStreams


@dataclass
class TableLife(Life):
    """A life whose stream is a table's."""

    folder: Path = field(kw_only=True)
    values: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.double = MemoryTableStreams()
        stream = StreamSettings(
            name=self.double.arn, initial_position=self.position, on_data_loss=self.on_data_loss
        )
        self.settings = Settings(application="app", streams=(stream,))
        self.clock.jump(self.double.now - self.clock.now())
        self.source = DynamoDbSource(self.double.client)  # type: ignore[assignment]
        self.stream = self.source.describe(self.double.arn).stream
        client = self.double.client(is_tapped=True)
        host = Host(connect=lambda _: client, sleep=lambda _: None, monotonic=lambda: 0.0)
        pages = DynamoDbPages(access=KinesisAccess("us-east-1"), host=host)
        self.stage = HostStage(pages, self.clock)  # type: ignore[arg-type, assignment]
        self.table = MemoryTable(self.clock, str(self.folder))

    def change(self, count: int = 3) -> None:
        for _ in range(count):
            self.values.append(len(self.values))
            shard = self.double.shards[-1].shard_id
            number = self.double.put(f"item {len(self.values) % 2}", self.values[-1])
            self.put.append((ShardKey(self.stream, shard), number))

    def notes_of_a_tick(self) -> list[str]:
        """What the leader's tick says of its shard sync."""
        tally = Tally()
        self.syncing.round(
            [Tracked(self.settings.streams[0])],
            self.leases.scan(),
            tally,
            memory={},
            resumed=None,
            has_time=lambda: True,
            cleanup=CleanupDue(),
        )
        return tally.notes

    def pass_time(self, by: timedelta) -> None:
        self.double.advance(by)
        self.clock.advance(by)

    def landed(self) -> list[tuple[ShardKey, int]]:
        return [(ShardKey(self.stream, row["shard_id"]), int(row["sequence_number"])) for row in self._rows()]

    def landed_values(self) -> list[int]:
        documents = [json.loads(row["data"]) for row in self._rows()]
        return sorted(int(document["dynamodb"]["NewImage"]["value"]["N"]) for document in documents)

    def _rows(self) -> list[dict[str, Any]]:
        files = [file for snapshot in self.table.history(self.table.head) for file in snapshot.files]
        return [row for file in files for row in pq.read_table(file.path).to_pylist()]

    def wave_after_sync(self) -> list[str]:
        """Returns the problems of a wave."""
        self.sync()
        return [problem.why for problem in self.wave().problems]


@pytest.fixture
def life(tmp_path: Path) -> TableLife:
    return TableLife(folder=tmp_path)


def test_each_change_lands_once_through_many_roll_overs(life: TableLife) -> None:
    for _ in range(8):
        life.change()
        assert life.wave_after_sync() == []
        life.double.roll_over()
        life.pass_time(timedelta(hours=4))
    for _ in range(3):
        assert life.wave_after_sync() == []

    life.check()
    assert life.landed_values() == life.values


def test_a_closed_shard_without_a_listed_child_is_not_the_end_of_anything(life: TableLife) -> None:
    life.change()
    life.wave_after_sync()
    life.double.roll_over()
    parent, child = life.double.shards
    life.double.hidden = {child.shard_id}
    life.change()
    for _ in range(3):
        assert life.wave_after_sync() == []
    position = life.positions.of(ShardKey(life.stream, parent.shard_id))
    assert position is not None
    assert not position.ended

    life.double.hidden = set()
    for _ in range(2):
        assert life.wave_after_sync() == []

    life.check()
    assert life.positions.has_ended(ShardKey(life.stream, parent.shard_id))


def test_looking_at_a_closed_shard_whose_child_is_hidden_proves_nothing_of_the_child(life: TableLife) -> None:
    life.change()
    life.wave_after_sync()
    life.double.roll_over()
    parent, child = life.double.shards
    key = ShardKey(life.stream, parent.shard_id)
    before = life.positions.of(key)
    life.double.hidden = {child.shard_id}
    life.change()
    life.pass_time(timedelta(hours=20))
    life.wave_after_sync()

    after = life.positions.of(key)

    assert before is not None
    assert after is not None
    assert after.witness == before.witness


def test_records_that_were_trimmed_before_a_wave_stop_the_shard_with_a_sentence(life: TableLife) -> None:
    life.change()
    life.wave_after_sync()
    life.change()
    life.pass_time(timedelta(hours=25))
    life.change()

    (problem,) = life.wave_after_sync()

    assert "records may have left the stream unread" in problem
    assert life.landed_values() == [0, 1, 2]


def test_reading_goes_on_after_a_gap_in_the_ledger_where_the_settings_say_so(tmp_path: Path) -> None:
    life = TableLife(folder=tmp_path, on_data_loss=OnDataLoss.CONTINUE)
    life.change()
    life.wave_after_sync()
    life.change()
    life.pass_time(timedelta(hours=25))
    life.change()

    assert life.wave_after_sync() == []

    life.check(lost=life.put[3:6])
    (gap,) = life.ledger(Kind.SKIPPED)
    assert gap.first_arrival is not None


def test_records_that_are_dropped_before_their_time_are_a_loss_too(life: TableLife) -> None:
    life.change()
    life.wave_after_sync()
    life.change()
    life.double.drop()
    life.change()
    life.pass_time(timedelta(minutes=20))  # Longer than the kept iterator lives.

    (problem,) = life.wave_after_sync()

    assert "before 24 h had passed" in problem
    assert life.landed_values() == [0, 1, 2]


def test_a_quiet_table_is_read_on_over_days(life: TableLife) -> None:
    life.change()
    for _ in range(12):
        # The end of the former shard, and the new one while it is open: that shows that nothing was lost.
        for _ in range(2):
            assert life.wave_after_sync() == []
        life.double.roll_over()
        life.pass_time(timedelta(hours=4))
    life.change()
    for _ in range(3):
        assert life.wave_after_sync() == []

    life.check()


def test_a_stream_that_was_switched_off_is_read_to_its_end(life: TableLife) -> None:
    life.change()
    life.double.roll_over()
    life.change()
    life.double.switch_off()
    for _ in range(3):
        assert life.wave_after_sync() == []

    life.check()
    assert all(
        life.positions.has_ended(ShardKey(life.stream, shard.shard_id)) for shard in life.double.shards
    )
    # Nobody would notice otherwise that nothing comes any more.
    assert switched_off(life.positions, [life.stream.name]) == (life.stream,)
    assert f"the stream {life.stream.name} {SWITCHED_OFF}" in life.notes_of_a_tick()


def test_a_stream_whose_shards_only_roll_over_was_not_switched_off(life: TableLife) -> None:
    for _ in range(3):
        life.change()
        life.double.roll_over()
        life.wave_after_sync()
    assert switched_off(life.positions, [life.stream.name]) == ()
    assert life.notes_of_a_tick() == []


def test_a_start_at_the_newest_change_leaves_earlier_ones_out(tmp_path: Path) -> None:
    life = TableLife(folder=tmp_path, position=InitialPosition.LATEST)
    life.change()
    life.double.roll_over()
    life.pass_time(timedelta(hours=1))
    life.sync()
    life.change()
    for _ in range(3):
        assert life.wave_after_sync() == []

    assert life.landed_values() == [3, 4, 5]
