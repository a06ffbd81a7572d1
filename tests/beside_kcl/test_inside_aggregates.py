"""Checkpoints of KCL inside aggregates, on the whole path: the real duties, Kinesis of the stand-in, the product's reader and a real
Iceberg table. Only Spark is left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headrace.pipeline.aws.clients.clients import kinesis_client
from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.aws.reading.pages import KinesisPages
from headrace.pipeline.core.leases.change import Applied
from headrace.pipeline.core.ledger.ledger import Range
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.catalog import embedded_catalog
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from tests.beside_kcl.test_adopting import adopt, kcl
from tests.beside_kcl.test_beside_kcl import headrace_takes_back, kcl_writes
from tests.duties.moves import row_of, shared
from tests.duties.waves.test_data_loss_on_kinesis import HostStage
from tests.duties.world import STREAM, World
from tests.lake.kpl_pages import aggregate
from tests.memory.clock import MemoryClock
from tests.stand_in import access_to

UserRecord = tuple[int, int, bytes]
"""Sequence number, sub-sequence number and data."""


@pytest.fixture(scope="module")
def served() -> Iterator[LocalAws]:
    """A stand-in for this module alone, because the stream's name is fixed."""
    with local_aws("--transition", "0") as aws, pytest.MonkeyPatch.context() as patch:
        for name, value in aws.environment.items():
            patch.setenv(name, value)
        yield aws


@dataclass
class AggregateWorld(World):
    """A world with one shard, whose stream is on the stand-in and whose lake table is Iceberg's."""

    shards: int = 1
    clock: MemoryClock = field(default_factory=lambda: MemoryClock(datetime.now(UTC)))
    aws: LocalAws = field(kw_only=True)
    folder: Path = field(kw_only=True)
    delivered: list[UserRecord] = field(default_factory=list, kw_only=True)
    """What producers put into the stream, as KCL would deliver it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.client = kinesis_client(AwsSettings(region=self.aws.region, endpoint=self.aws.endpoint))
        self.aws.reset()
        self.client.create_stream(StreamName=STREAM, ShardCount=self.shards)
        self.source = KinesisSource(self.client)  # type: ignore[assignment]
        self.stream = self.source.describe(STREAM).stream
        pages = KinesisPages(access=access_to(self.aws))
        self.stage = HostStage(pages, self.clock)  # type: ignore[assignment]
        self.iceberg = IcebergTable(
            embedded_catalog(self.folder), "lake.records", state=str(self.folder / "state"), clock=self.clock
        )
        self.iceberg.ensure(create=True)
        self.table = self.iceberg  # type: ignore[assignment]

    def put_aggregate(self, *payloads: bytes) -> int:
        """The sequence number of one Kinesis record with these user records."""
        number = self._put(aggregate(*payloads))
        self.delivered += [(number, sub, data) for sub, data in enumerate(payloads)]
        return number

    def put_plain(self, data: bytes) -> int:
        number = self._put(data)
        self.delivered.append((number, 0, data))
        return number

    def _put(self, data: bytes) -> int:
        return int(self.client.put_record(StreamName=STREAM, Data=data, PartitionKey="k")["SequenceNumber"])

    def after(self, number: int, sub: int) -> list[UserRecord]:
        """The user records that KCL would deliver after its checkpoint."""
        return [each for each in self.delivered if each[:2] > (number, sub)]

    def rows_landed(self) -> list[UserRecord]:
        table = read.rows(self.iceberg).sort_by("sort_key").to_pylist()
        assert [row["decode_error"] for row in table] == [None] * len(table)
        return [(int(row["sequence_number"]), row["sub_sequence_number"], row["data"]) for row in table]

    def ranges(self) -> list[Range]:
        return [each for entry in read.ledger(self.iceberg) for each in entry.page.ranges]

    def stands(self) -> Position:
        at = self.iceberg.load().positions.of(self.shard(0))
        assert at is not None
        return at

    def waves(self, count: int = 3) -> None:
        """Some runs, each after the sensors' ticks."""
        for _ in range(count):
            self.tick()
            report = self.wave("w1", self.ids.fresh())
            assert [each.why for each in report.problems] == []


@pytest.fixture
def world(served: LocalAws, tmp_path: Path) -> AggregateWorld:
    return AggregateWorld(aws=served, folder=tmp_path)


def adopted_at(world: AggregateWorld, number: int, sub: int) -> None:
    """KCL's workers stopped at this user record, and Headrace's workers have the leases."""
    kcl(world, {0: Checkpoint(str(number), sub)})
    adopt(world)
    world.tick(9)


@pytest.mark.parametrize("sub", [0, 1, 2])
@pytest.mark.parametrize("more", [False, True], ids=["at the tip", "with records after it"])
def test_after_an_adopted_checkpoint_the_rest_of_its_aggregate_lands_once(
    world: AggregateWorld, sub: int, *, more: bool
) -> None:
    world.put_plain(b"before")
    number = world.put_aggregate(b"a", b"b", b"c")
    if more:
        world.put_aggregate(b"d", b"e")
        world.put_plain(b"f")
    adopted_at(world, number, sub)

    world.waves()

    assert world.rows_landed() == world.after(number, sub)
    later = world.put_aggregate(b"later", b"still later")
    world.waves()
    assert world.rows_landed() == world.after(number, sub)
    assert world.stands().token == (later, 1, False)
    assert row_of(world, 0).checkpoint == row_of(world, 0).landed == Checkpoint(str(later), 1)


@pytest.mark.parametrize("sub", [0, 1, 2])
def test_what_kcl_left_of_an_aggregate_in_a_shard_that_was_taken_back_lands_once_though_no_record_follows(
    world: AggregateWorld, sub: int
) -> None:
    shared(world).settle()
    world.put_aggregate(b"1", b"2")
    world.waves()
    ours = world.rows_landed()
    number = world.put_aggregate(b"a", b"b", b"c")
    assert isinstance(kcl_writes(world, 0, checkpoint=Checkpoint(str(number), sub)), Applied)
    headrace_takes_back(world, 0)
    assert world.work().due, "no probe finds the rest of a record that is behind the checkpoint"

    world.waves()

    assert world.rows_landed() == ours + world.after(number, sub)
    assert len(ours) == 2
    assert [str(each.kind) for each in world.ranges()] == ["landed", "foreign", "landed"]
    assert not world.work().due


@pytest.mark.parametrize("is_aggregate", [True, False])
def test_a_record_of_which_kcl_left_nothing_is_read_again_once_and_then_known(
    world: AggregateWorld, *, is_aggregate: bool
) -> None:
    shared(world).settle()
    world.waves(1)
    number = world.put_aggregate(b"a", b"b") if is_aggregate else world.put_plain(b"a")
    stands = Checkpoint(str(number), 1 if is_aggregate else 0)
    assert isinstance(kcl_writes(world, 0, checkpoint=stands), Applied)
    headrace_takes_back(world, 0)

    world.waves(1)

    assert (world.stands().checkpoint, world.stands().inside) == (stands, False)
    assert (row_of(world, 0).checkpoint, row_of(world, 0).landed) == (stands, stands)
    known = len(world.ranges())
    assert not world.work().due
    world.waves(2)
    assert (len(world.ranges()), world.rows_landed()) == (known, [])
    world.put_plain(b"next")
    world.waves(1)
    assert world.rows_landed() == world.after(number, stands.sub)
