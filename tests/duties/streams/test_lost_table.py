"""The lake table isn't where the settings say: it was renamed, dropped, or replaced by another one. Only an application that has
never worked before makes a table by itself."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change import create
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END, Checkpoint
from headrace.pipeline.duties.streams.lake_table import ensure_table
from headrace.pipeline.errors import OriginUnsafe
from headrace.pipeline.ports.leases import Listing
from headrace.pipeline.settings.choices import InitialPosition
from tests.duties.world import World


def without_table(**how: InitialPosition) -> World:
    world = World(**how)  # type: ignore[arg-type]
    world.table.drop()
    return world


def at_work() -> World:
    world = without_table()
    world.settle()
    world.produce(0)
    world.wave()
    world.check()
    return world


def test_the_leader_of_a_new_application_makes_the_table() -> None:
    world = at_work()
    assert world.table.exists()


def test_the_leader_makes_no_new_table_for_an_application_that_has_landed() -> None:
    world = at_work()
    world.table.drop()
    world.clock.advance(timedelta(minutes=1))
    report = world.lead()
    assert isinstance(report.trouble, OriginUnsafe)
    assert "lake.records isn't in the catalog" in str(report.trouble)
    assert "Rename the table back" in str(report.trouble)
    assert not world.table.exists()


def test_a_run_makes_no_new_table_either_and_claims_nothing() -> None:
    world = at_work()
    world.produce(0)
    world.table.drop()
    with pytest.raises(OriginUnsafe, match="renamed or dropped"):
        world.wave()
    rows = world.leases.scan().leases
    assert not world.table.exists()
    assert not any(row.run_claim for row in rows)
    assert all("isn't in the catalog" in row.failure.why for row in rows if row.failure)


def test_no_other_deployment_takes_the_lead_while_the_table_is_lost() -> None:
    world = at_work()
    world.table.drop()
    world.lock = type(world.lock)()
    with pytest.raises(OriginUnsafe):
        world.lead("w9")
    assert not world.table.exists()


def test_once_the_table_is_back_reading_goes_on_where_it_was() -> None:
    world = at_work()
    kept = world.table.snapshots, world.table.head
    world.table.drop()
    world.produce(0)
    world.clock.advance(timedelta(minutes=1))
    assert world.lead().trouble is not None
    world.table.snapshots, world.table.head = kept
    world.table.is_there = True
    assert world.lead().trouble is None
    world.wave()
    world.check()


def test_a_start_at_latest_that_was_decided_is_not_decided_again_in_a_new_table() -> None:
    """Nothing has landed yet. But records that were put since the first decision would be skipped."""
    world = without_table(position=InitialPosition.LATEST)
    world.settle()
    world.table.drop()
    world.clock.advance(timedelta(minutes=1))
    assert isinstance(world.lead().trouble, OriginUnsafe)


def test_deleted_lease_rows_are_made_again_from_the_tables_positions() -> None:
    world = at_work()
    world.leases.wipe()
    world.leader_memory.clear()
    world.produce(0)
    world.settle()
    world.wave()
    world.check()


def test_a_person_who_deletes_the_lease_rows_too_begins_anew() -> None:
    world = at_work()
    world.table.drop()
    world.leases.wipe()
    world.leader_memory.clear()
    world.settle()
    world.wave()
    world.check()


def test_a_table_and_rows_that_another_process_makes_meanwhile_are_used() -> None:
    world = without_table()
    scan = world.leases.scan

    def slow_scan() -> Listing:
        """Between the look for the table and the scan of the rows, another leader makes both."""
        world.table.ensure(create=True)
        world.leases.apply(
            create(Lease("shardId-000000000000", stream_epoch=world.stream.epoch), "its parent has ended")
        )
        return scan()

    world.leases.scan = slow_scan  # type: ignore[method-assign]
    ensure_table(world.table, world.leases, name="lake.records")
    assert world.table.exists()


@pytest.mark.parametrize("checkpoint", [Checkpoint("123"), SHARD_END])
def test_in_an_empty_table_no_start_is_decided_while_rows_show_that_headrace_has_landed(
    checkpoint: Checkpoint,
) -> None:
    world = World()
    row = Lease("shardId-000000000000", checkpoint=checkpoint, landed=checkpoint, stream_epoch=1)
    world.leases = type(world.leases)([row])
    report = world.lead()
    assert isinstance(report.trouble, OriginUnsafe)
    assert "the table was replaced, or restored" in str(report.trouble)
    assert "another program" not in str(report.trouble)
    assert world.table.load().positions.origins == {}
