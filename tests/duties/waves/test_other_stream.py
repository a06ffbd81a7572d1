"""The settings reach another stream than before: nothing is read, retired or written until a person has decided."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.duties.fleet.preview import preview
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory
from headrace.pipeline.errors import OriginUnsafe
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.settings.model import StreamSettings
from tests.duties.reading import wiring_of
from tests.duties.two_streams import RETURNS
from tests.duties.world import STREAM, World


def restarted(world: World, name: str) -> None:
    world.settings = replace(world.settings, streams=(StreamSettings(name=name),))
    world.leader_memory = {each: LeaderMemory() for each in world.leader_memory}
    world.worker_memory = {each: WorkerMemory() for each in world.worker_memory}


@pytest.mark.parametrize(
    "apart", [timedelta(0), timedelta(hours=1)], ids=["the same second", "an hour later"]
)
@pytest.mark.parametrize("former", [STREAM, RETURNS])
@pytest.mark.parametrize("has_landed", [True, False])
def test_a_single_application_never_goes_on_with_another_stream(
    former: str, apart: timedelta, *, has_landed: bool
) -> None:
    world = World()
    world.clock.advance(apart)
    world.source.create_stream(RETURNS, 2)
    restarted(world, former)
    world.stream = world.stream_now(former)
    world.settle()
    if has_landed:
        world.produce(0)
        world.wave(run="first")
    before, commits = world.leases.scan(), len(world.table.snapshots)
    other = RETURNS if former == STREAM else STREAM
    restarted(world, other)
    said = str(world.lead())
    assert (
        f"the settings name the stream {other}, but the lease rows of this application (shardId-000000000000, ...) are of {former}"
        in said
    )
    assert "`headrace rekey`" in said
    with pytest.raises(OriginUnsafe, match="no row was written"):
        preview(wiring_of(world).leader("plan"), LeaderMemory())
    world.source.put(ShardKey(world.stream_now(other), "shardId-000000000000"))
    with suppress(OriginUnsafe):
        assert not world.wave(run="next").landed
    assert len(world.table.snapshots) == commits
    rows = {
        row.key: replace(row, counter=0, looked_at=None, failure=None) for row in world.leases.scan().leases
    }
    assert rows == {row.key: replace(row, counter=0, looked_at=None, failure=None) for row in before.leases}
    restarted(world, former)
    world.produce(1)
    world.settle()
    world.wave(run="last")
    world.check()


@pytest.mark.parametrize(
    "arn",
    [
        "arn:aws:kinesis:eu-west-1:123456789012:stream/orders",
        "arn:aws:kinesis:eu-west-1:210987654321:stream/orders",
    ],
    ids=["another region", "another account"],
)
def test_a_stream_of_the_same_name_elsewhere_never_lands_in_the_table(arn: str) -> None:
    world = World()
    world.produce(0)
    world.settle()
    world.wave(run="first")
    # The coordination tables of the other region or account are empty.
    elsewhere = World(clock=world.clock)
    elsewhere.table, elsewhere.stage = world.table, world.stage
    describe = elsewhere.source.describe

    def there(name: str) -> StreamFacts:
        facts = describe(STREAM if "stream/" in name else name)
        return replace(facts, stream=StreamId(arn, facts.stream.epoch + 7))

    elsewhere.source.describe = there  # type: ignore[method-assign]
    commits = len(world.table.snapshots)
    said = str(elsewhere.lead())
    assert f"the lake table has the stream {world.stream.arn}, and the settings now reach {arn}" in said
    assert elsewhere.leases.scan().leases == ()
    assert len(world.table.snapshots) == commits


def test_a_stream_that_was_created_again_is_the_same_stream() -> None:
    world = World()
    world.settle()
    world.source.delete_stream(STREAM)
    world.clock.advance(timedelta(seconds=90))
    world.stream = world.source.create_stream(STREAM, 2)
    world.clock.advance(timedelta(seconds=60))
    assert "2 shards added" in str(world.lead())
