"""Lost records with the real reader against the stand-in, whose clock is moved on until it forgets records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace.pipeline.aws.clients.clients import kinesis_client
from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.aws.reading.pages import KinesisPages
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lake.staging.stage_task import stage_batches
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.ports.staging import OnWaiting, StagingSpec
from headrace.pipeline.repair.decide import Held, Recovery
from headrace.pipeline.repair.decision_plan import Decision, Person, WhatIsLeft, plan_skip
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.choices import OnDataLoss
from tests.duties.life import STREAM, Life
from tests.memory.table import MemoryTable
from tests.stand_in import access_to

HOURS = 3600.0


@pytest.fixture(scope="module")
def served() -> Iterator[LocalAws]:
    """A stand-in for this module alone, because its clock is moved."""
    with local_aws("--transition", "0") as aws, pytest.MonkeyPatch.context() as patch:
        for name, value in aws.environment.items():
            patch.setenv(name, value)
        yield aws


@dataclass
class HostStage:
    """Does in this process what a Spark task does."""

    pages: KinesisPages
    clock: Any

    def open(self, on_waiting: OnWaiting) -> None:
        """Nothing needs to start."""

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        return stage_batches(batches, self.pages, spec=spec, limits=limits, threads=2, clock=self.clock)


@dataclass
class KinesisLife(Life):
    """A life whose stream is on the stand-in's Kinesis and whose pages come from the product's reader."""

    aws: LocalAws = field(kw_only=True)
    folder: Path = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.clock.jump(datetime.now(UTC) - self.clock.now())
        self.client = kinesis_client(AwsSettings(region=self.aws.region, endpoint=self.aws.endpoint))
        self.aws.reset()
        self.client.create_stream(StreamName=STREAM, ShardCount=self.shards)
        self.source = KinesisSource(self.client)  # type: ignore[assignment]
        self.stream = self.source.describe(STREAM).stream
        self.pages = KinesisPages(access=access_to(self.aws))
        self.stage = HostStage(self.pages, self.clock)  # type: ignore[assignment]
        self.table = MemoryTable(self.clock, str(self.folder))

    def put_some(self, count: int = 3) -> None:
        for _ in range(count):
            answer = self.client.put_record(StreamName=STREAM, Data=b"{}", PartitionKey="k")
            self.put.append((ShardKey(self.stream, answer["ShardId"]), int(answer["SequenceNumber"])))

    def split(self) -> None:
        self.client.split_shard(
            StreamName=STREAM, ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**127)
        )

    def hours(self, number: float) -> None:
        self.aws.advance(number * HOURS)
        self.clock.jump(timedelta(hours=number))

    def landed(self) -> list[tuple[ShardKey, int]]:
        files = [f for s in self.table.history(self.table.head) for f in s.files]
        rows = [row for f in files for row in pq.read_table(f.path).to_pylist()]
        return [(ShardKey(self.stream, r["shard_id"]), int(r["sequence_number"])) for r in rows]


def a_life(served: LocalAws, folder: Path, on_data_loss: OnDataLoss) -> KinesisLife:
    life = KinesisLife(on_data_loss=on_data_loss, aws=served, folder=folder)
    life.sync()
    life.put_some()
    life.wave()
    assert len(life.landed()) == 3
    return life


def test_trimmed_records_are_recorded_as_a_gap_and_the_records_that_are_left_land(
    served: LocalAws, tmp_path: Path
) -> None:
    life = a_life(served, tmp_path, OnDataLoss.CONTINUE)
    life.put_some()
    life.hours(24)
    life.put_some()
    life.hours(1)
    report = life.wave()
    assert [p.why for p in report.problems] == []
    life.check(lost=life.put[3:6])
    (gap,) = life.ledger(Kind.SKIPPED)
    assert gap.first_arrival is not None
    assert gap.last_arrival is not None
    assert gap.first_arrival < gap.last_arrival


def test_a_stopped_shard_goes_on_after_headrace_skip(served: LocalAws, tmp_path: Path) -> None:
    life = a_life(served, tmp_path, OnDataLoss.STOP)
    life.put_some()
    life.hours(24)
    life.put_some()
    life.hours(1)
    (problem,) = life.wave().problems
    assert "headrace skip --shard shardId-000000000000" in problem.why
    person = Recovery(
        claim="shell/1",
        settings=life.settings,
        policy=life.policy,
        leases=life.leases,
        workers=life.rows,
        runs=life.runs,
        source=life.source,
        table=life.table,
        clock=life.clock,
    )
    held = person.hold("shardId-000000000000")
    assert isinstance(held, Held)
    plan = plan_skip(person.situation(held.row), WhatIsLeft(), Person("shell", "shell/1", "a test"))
    assert isinstance(plan, Decision)
    person.carry_out(held.row, plan)
    person.release(held.row.key)
    life.wave()
    life.check(lost=life.put[3:6])
    tip = person.tip_of(life.put[0][0], life.pages)
    assert (tip.sequence, tip.arrival is not None) == (life.put[-1][1], True)


def test_a_shard_that_kinesis_forgot_is_ended_and_its_children_are_read(
    served: LocalAws, tmp_path: Path
) -> None:
    life = a_life(served, tmp_path, OnDataLoss.CONTINUE)
    life.put_some()
    life.split()
    life.hours(26)
    life.put_some()
    for _ in range(3):
        life.wave()
        life.sync()
    life.check(lost=life.put[3:6])
    ended = life.at(0)
    assert ended is not None
    assert (ended.ended, len(ended.children)) == (True, 2)
