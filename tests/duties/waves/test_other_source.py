"""A task that finds another stream than the driver, of the same name and account, lands nothing, and no position moves."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.ledger.batch import Manifest
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.shard import NumberRange
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.waves.report import WaveReport
from tests.duties.life import STREAM, Life
from tests.memory.source import MemorySource

RECORDS = 20
HOUR = timedelta(hours=1)


def elsewhere(life: Life) -> MemorySource:
    """Another place with a stream of that name, which is an hour younger and has records."""
    other = MemorySource(life.clock)
    life.later(HOUR)
    stream = other.create_stream(STREAM)
    for _ in range(RECORDS):
        other.put(ShardKey(stream, "shardId-000000000000"), b"another project's")
    return other


def landed_nothing(life: Life, report: WaveReport, why: str) -> bool:
    assert why in report.problems[0].why
    assert report.problems[0].fatal
    return not report.records and life.at(0) is None and not life.ledger(Kind.LANDED) and not life.landed()


def test_nothing_lands_of_a_stream_with_another_creation_time():
    life = Life()
    life.sync()
    life.produce(0)
    other = elsewhere(life)
    life.stage.answers = lambda _: other
    assert landed_nothing(life, life.wave(), "the task finds orders (created")
    life.stage.answers = lambda _: life.source
    life.wave()
    assert life.landed() == life.put, "once the task finds its stream, all records land"


def manifests(life: Life, changed: Callable[[Manifest], Manifest]) -> None:
    """The stage reports other manifests than it has made."""
    stage = life.stage.stage
    life.stage.stage = lambda *asked: changed(stage(*asked))  # type: ignore[method-assign]


@pytest.mark.parametrize("hours", [-1, 3])
def test_the_commit_refuses_arrivals_that_cant_be_the_streams_also_where_the_task_has_not(hours: int):
    life = Life()
    life.sync()
    life.produce(0)
    at = life.clock.now() + hours * HOUR

    def elsewhen(manifest: Manifest) -> Manifest:
        return replace(
            manifest,
            staged=tuple(replace(each, first_arrival=at, last_arrival=at) for each in manifest.staged),
        )

    manifests(life, elsewhen)
    assert landed_nothing(life, life.wave(), "a record arrived at")
    row = life.row(0)
    assert row is not None
    assert row.failure is not None, (
        "the next wave would stage and refuse the same records, and nobody would see it"
    )
    assert "Nothing of this range was committed" in row.failure.why
    assert "look at the clocks of both" in row.failure.why


def test_a_task_is_told_the_numbers_of_its_shard_by_the_drivers_list_also_after_a_reshard():
    life = Life()
    life.sync()
    life.produce(0)
    told: dict[str, NumberRange | None] = {}
    stage = life.stage.stage

    def note(batches, *asked):
        told.update({batch.key.shard_id: batch.numbers for batch in batches})
        return stage(batches, *asked)

    life.stage.stage = note  # type: ignore[method-assign]
    run = life.run()
    run.wave()
    life.source.split(life.key(0))
    run.wave()
    life.sync()
    life.produce(1)
    run.wave()
    run.let_go()
    listed = {shard.shard_id: shard.numbers for shard in life.source.list_shards(life.stream)}
    first, *children = (told[f"shardId-{n:012d}"] for n in range(3))
    assert first is not None
    assert children == [listed[f"shardId-{n:012d}"] for n in (1, 2)]


def test_a_record_with_a_number_of_another_shard_doesnt_land():
    life = Life()
    life.sync()
    life.produce(0)
    list_shards = life.source.list_shards

    def moved(*asked):
        return tuple(replace(shard, numbers=NumberRange(10**30)) for shard in list_shards(*asked))

    life.source.list_shards = moved  # type: ignore[method-assign]
    assert landed_nothing(life, life.wave(), "isn't one of the shard's")
