"""Runs with several streams: one run reads the due shards of all streams, and a partition is one shard of one
stream."""

from headrace.pipeline.errors import Unknown
from headrace.resources.runs import FAILED_TAG, DagsterRuns
from tests.dagster.fixtures import MakeWorld
from tests.dagster.world import DagsterWorld, key, why_failed

RETURNS = "returns"


def keys_of(world: DagsterWorld, stream: str, *shards: int) -> list[str]:
    """The partitions of these shards, which have the stream at the front and the shard at the end."""
    life = world.world.stream_now(stream)
    return [f"{stream}@{life.account}:{life.epoch}/{n}" for n in shards]


def test_one_run_reads_the_due_shards_of_all_streams(make_world: MakeWorld):
    world = make_world(more_streams=(RETURNS,))
    for stream in ("orders", RETURNS):
        world.world.produce(0, stream=stream)
    world.settle()
    every = sorted([*keys_of(world, "orders", 0, 1), *keys_of(world, RETURNS, 0, 1)])

    assert sorted(world.known()) == every
    assert world.read().success
    world.world.check()
    assert world.statuses() == {"MATERIALIZED": every}
    rows = {each: world.materializations(each)[0].metadata["records"].value for each in every}
    assert [rows[each] for each in every] == [10, 0, 10, 0]


def test_a_partition_is_a_shard_of_one_stream(make_world: MakeWorld):
    world = make_world(more_streams=(RETURNS,))
    for stream in ("orders", RETURNS):
        world.world.produce(0, stream=stream)
    world.settle()
    ours, theirs = keys_of(world, "orders", 0)[0], keys_of(world, RETURNS, 0)[0]

    assert world.execute(partition=theirs).success
    assert {shard.stream.name for shard, _ in world.world.landed()} == {RETURNS}
    assert world.execute(partition=ours).success
    world.world.check()
    assert sorted(world.statuses()["MATERIALIZED"]) == sorted([ours, theirs])


def test_a_deleted_stream_fails_only_its_own_partitions(make_world: MakeWorld):
    world = make_world(more_streams=(RETURNS,))
    world.settle()
    world.world.produce(0)
    lost = keys_of(world, RETURNS, 0, 1)
    rows = [f"{world.world.stream_now(RETURNS).serialized}:{key(n)}" for n in (0, 1)]
    request = world.asked()
    assert request is not None
    world.world.source.delete_stream(RETURNS)

    result = world.execute(request.run_config, tags=dict(request.tags))

    assert "2 shards failed" in why_failed(result)
    assert "there is no stream" in why_failed(result)
    assert sorted(world.statuses()["FAILED"]) == lost
    run = world.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert sorted(run.tags[FAILED_TAG].split(",")) == lost
    assert (
        sorted(DagsterRuns(world.instance, world.settings.application).outcome(result.run_id).failed) == rows
    )
    assert keys_of(world, "orders", 0)[0] in world.statuses()["MATERIALIZED"]
    world.world.check()


def test_the_error_for_a_key_without_a_stream_names_similar_keys(make_world: MakeWorld):
    world = make_world(more_streams=(RETURNS,))
    world.settle()

    result = world.execute(world.config(worker="w1", shards=[key(0)]))

    assert f"there is no shard '{key(0)}' (similar names: orders@" in why_failed(result)
    assert Unknown.__name__ not in why_failed(result)
