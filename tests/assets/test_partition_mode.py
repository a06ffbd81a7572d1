"""A person or a backfill starts a run for named shards: the run reads of each shard what had
arrived when the run began, and claims rows as other runs do."""

from dataclasses import replace
from datetime import timedelta

import dagster as dg
import pytest

from headrace.assets.names import lineage_key
from headrace.pipeline.core.leases.change import Applied, Change, assign, claim, release
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.errors import Unreachable
from tests.dagster.fixtures import MakeWorld
from tests.dagster.world import TIMES, DagsterWorld, key, keys, why_failed

RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


def _owned_by(world: DagsterWorld, shard: int, owner: str | None) -> None:
    """Make this worker the owner in the shard's row."""
    row = world.world.leases.get(key(shard))
    assert row is not None
    if owner is None:
        world.world.leases = type(world.world.leases)(
            [Lease(each, stream_epoch=row.stream_epoch) for each in keys(0, 1)]
        )
    else:
        assert isinstance(world.world.leases.apply(assign(row, owner, "a test")), Applied)


def test_a_partition_is_read_to_its_tip_and_released(make_world: MakeWorld):
    world = make_world(wave_records=10)
    world.settle()
    world.world.produce(0, 35)
    world.world.produce(1, 5)
    world.world.clock.advance(timedelta(seconds=2))

    assert world.execute(partition=key(0)).success

    assert len(world.world.landed()) == 35
    row = world.world.leases.get(key(0))
    assert row is not None
    assert row.run_claim is None
    assert row.checkpoint.is_digits
    assert world.statuses() == {"MATERIALIZED": keys(0)}


def test_an_ended_shard_succeeds_with_no_record(make_world: MakeWorld):
    world = make_world(shards=1)
    world.settle()
    world.world.produce(0)
    world.world.source.split(world.world.shard(0))
    assert world.read().success
    landed = world.world.landed()

    assert world.execute(partition=key(0)).success

    assert world.materializations(key(0))[-1].metadata["records"].value == 0
    assert world.world.landed() == landed


def test_an_idle_shard_is_materialized_too_so_that_no_backfill_waits_for_it(make_world: MakeWorld):
    world = make_world()
    world.settle()

    assert world.execute(partition=key(1)).success

    assert [each.metadata["records"].value for each in world.materializations(key(1))] == [0]


def test_a_range_of_partitions_is_one_run_that_materializes_each(make_world: MakeWorld):
    world = make_world(shards=4)
    world.settle()
    for shard in range(4):
        world.world.produce(shard)
    first, last = world.known()[0], world.known()[2]

    assert world.execute(tags={RANGE_START: first, RANGE_END: last}).success

    assert world.statuses() == {"MATERIALIZED": sorted(world.known()[:3])}
    assert len(world.world.landed()) == 30


def test_a_range_over_shards_of_two_workers_reads_each_as_its_worker(make_world: MakeWorld):
    world = make_world(workers=("w1", "w2"), shards=4)
    world.settle()
    for shard in range(4):
        world.world.produce(shard)
    owners = {row.key: row.owner for row in world.world.leases.scan().leases}

    assert world.execute(tags={RANGE_START: world.known()[0], RANGE_END: world.known()[-1]}).success

    world.world.check()
    assert {row.key: row.owner for row in world.world.leases.scan().leases} == owners


def test_the_error_for_a_shard_of_another_deployments_worker_names_the_worker(make_world: MakeWorld):
    world = make_world()
    world.settle()
    world.world.produce(0)
    _owned_by(world, 0, "far-away")

    said = why_failed(world.execute(partition=key(0)))

    assert said.startswith(
        f"{key(0)} is read by worker far-away, which isn't among the workers in these settings (w1)"
    )
    assert world.world.landed() == []
    assert world.statuses() == {"FAILED": keys(0)}


def test_dagster_itself_refuses_an_unknown_partition(make_world: MakeWorld):
    world = make_world()
    world.settle()

    with pytest.raises(dg.DagsterUnknownPartitionError, match=key(7)):
        world.execute(partition=key(7))


def test_an_unowned_shard_is_assigned_to_the_first_worker_of_the_deployment(make_world: MakeWorld):
    world = make_world()
    world.settle()
    world.world.produce(0)
    _owned_by(world, 0, None)

    assert world.execute(partition=key(0)).success

    row = world.world.leases.get(key(0))
    assert row is not None
    assert row.owner == "w1"
    assert len(world.world.landed()) == 10


def test_the_run_waits_for_a_shard_that_a_living_run_reads_and_then_reads_it(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
):
    world = make_world()
    world.settle()
    world.world.produce(0)
    row = world.world.leases.get(key(0))
    assert row is not None
    held = world.world.leases.apply(claim(row, "w1", "elsewhere/1"))
    assert isinstance(held, Applied)
    waited: list[str | None] = []

    def let_go(_seconds: float) -> None:
        """The holder's wave ends while the other run waits."""
        found = world.world.leases.get(key(0))
        assert found is not None
        waited.append(found.wanted_by)
        world.world.leases.apply(_release(found))

    monkeypatch.setattr("headrace.pipeline.clock.time.sleep", let_go)

    result = world.execute(partition=key(0))

    assert result.success
    assert len(waited) == 1
    assert waited[0] is not None
    assert waited[0].startswith(result.run_id)
    after = world.world.leases.get(key(0))
    assert after is not None
    assert (after.run_claim, after.wanted_by) == (None, None)
    assert len(world.world.landed()) == 10


def test_the_wait_ends_after_the_linger_time_with_a_sentence(make_world: MakeWorld):
    world = make_world(times=replace(TIMES, linger=timedelta(0)))
    world.settle()
    row = world.world.leases.get(key(0))
    assert row is not None
    assert isinstance(world.world.leases.apply(claim(row, "w1", "elsewhere/1")), Applied)

    said = why_failed(world.execute(partition=key(0)))

    assert said == f"1 shard failed; {key(0)}: run elsewhere is reading the shard"
    assert world.statuses() == {"FAILED": keys(0)}


def test_a_shard_whose_parent_has_not_ended_is_not_read_before_it(make_world: MakeWorld):
    world = make_world(shards=1, times=replace(TIMES, linger=timedelta(0)))
    world.settle()
    world.world.produce(0)
    world.world.source.split(world.world.shard(0))
    world.world.produce(1)
    parent = world.world.leases.get(key(0))
    assert parent is not None
    child = Lease(key(1), owner="w1", parents=frozenset({key(0)}), stream_epoch=parent.stream_epoch)
    world.world.leases = type(world.world.leases)([parent, child])
    world.instance.add_dynamic_partitions(f"{world.settings.application}_shards", [key(1)])

    said = why_failed(world.execute(partition=key(1)))

    assert said == f"1 shard failed; {key(1)}: {key(0)} hasn't been read to its end"
    assert world.world.landed() == []


def test_claims_are_released_if_a_wave_raises_an_error(make_world: MakeWorld):
    def on_step(step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is WaveStep.STAGED:
            raise RuntimeError("a mistake in Headrace")

    world = make_world(on_step=on_step)
    world.settle()
    world.world.produce(0)

    assert not world.execute(partition=key(0)).success

    row = world.world.leases.get(key(0))
    assert row is not None
    assert row.run_claim is None
    assert world.statuses() == {"FAILED": keys(0)}


def _release(found: Lease) -> Change:
    return release(found, found.run_claim or "")


def test_shards_that_an_error_kept_from_being_read_are_failed_and_not_materialized(
    make_world: MakeWorld,
):
    world = make_world(shards=2, workers=("w1", "w2"))
    world.settle()
    _owned_by(world, 0, "w1")
    _owned_by(world, 1, "w2")

    def fails(_proposal: object) -> object:
        raise Unreachable("no answer from the catalog; nothing was committed")

    world.world.produce(0)
    world.world.produce(1)
    world.world.table.commit = fails  # type: ignore[method-assign,assignment]
    result = world.execute(tags={RANGE_START: key(0), RANGE_END: key(1)})

    assert not result.success
    assert world.statuses() == {"FAILED": keys(0, 1)}


def test_assets_that_are_selected_for_the_same_run_are_materialized_after_the_records(make_world: MakeWorld):
    world = make_world()
    world.settle()
    world.world.produce(1)
    lineage = lineage_key(world.settings)

    result = world.defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=world.instance, asset_selection=[world.records, lineage], partition_key=key(1)
    )

    assert result.success
    assert lineage in {event.asset_key for event in result.get_asset_materialization_events()}
    assert world.statuses() == {"MATERIALIZED": keys(1)}
