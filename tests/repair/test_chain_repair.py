"""`headrace repair` of a broken chain of snapshots: what other engines did to the table, the plan, and the waves
after the repair."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.pipeline.core.landing.repair_plan import Repair
from headrace.pipeline.core.order.start_of_reading import Stop
from headrace.pipeline.core.shards.position import TRIM
from headrace.pipeline.errors import ChainBroken, Unknown
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.repair.repair import Repairing
from headrace.pipeline.settings.choices import InitialPosition
from tests.duties.life import Life


def repair(life: Life, **more: object) -> Repair | Stop:
    """Do what `headrace repair` does, and return its plan. A plan that refuses changes nothing."""
    repairing = Repairing(
        settings=life.settings, leases=life.leases, source=life.source, table=life.table, run="shell-1"
    )
    life.table.rows_of = lambda file: life.stage.rows[file.path]
    plan = repairing.plan(why="a test", **more)  # type: ignore[arg-type]
    if isinstance(plan, Repair):
        assert "repaired" in repairing.carry_out(plan)
    return plan


def a_life_with_a_split() -> Life:
    life = Life()
    life.sync()
    life.produce(0)
    life.source.split(life.key(0))
    life.produce(1)
    life.wave()
    life.wave()
    return life


def test_a_table_with_whole_positions_is_not_repaired() -> None:
    life = a_life_with_a_split()
    found = repair(life)
    assert isinstance(found, Stop)
    assert "nothing to repair" in found.why


def test_after_the_repair_of_a_broken_chain_shards_go_on_after_their_last_row_and_no_parent_is_read_again() -> (
    None
):
    life = a_life_with_a_split()
    life.table.append_as_others()
    life.table.forget(*life.table.snapshots)
    life.table.append_as_others()
    life.produce(1)
    with pytest.raises(ChainBroken):
        life.wave()
    assert isinstance(repair(life), Stop), "the origin of the stream has to be given"
    assert isinstance(repair(life, origin=TRIM), Repair)
    parent = life.at(0)
    assert parent is not None
    assert parent.ended
    life.produce(1)
    life.produce(2)
    life.sync()
    life.wave()
    landed = life.landed()
    assert sorted(landed) == sorted(life.put)


def test_a_repair_invents_no_end_for_a_shard_closed_before_the_start_nor_a_loss_for_its_children() -> None:
    """Shard 0 was split into 1 and 2, and both were split again, all before the start. Only a child of shard 1 has
    rows."""
    life = Life(position=InitialPosition.LATEST)
    for shard in range(3):
        life.source.split(life.key(shard))
    life.later(timedelta(minutes=1))
    life.sync()
    life.produce(3)
    life.wave()
    start = life.positions.origins[life.stream].start
    life.table.append_as_others()
    life.table.forget(*life.table.snapshots)
    life.table.append_as_others()
    assert isinstance(repair(life, origin=start), Repair)
    assert [number for number in range(7) if life.at(number) is not None] == [3]
    life.sync()
    assert life.row(2) is None, "shard 2 was closed before the start, so it needs no row"
    for shard in range(3, 7):
        life.produce(shard)
    assert life.wave().problems == ()
    assert sorted(life.landed()) == sorted(life.put)


def test_a_repair_doesnt_let_a_shard_that_ended_without_a_record_be_read_again() -> None:
    life = Life()
    life.sync()
    life.source.split(life.key(0))
    life.wave()
    life.produce(1)
    life.wave()
    life.table.append_as_others()
    life.table.forget(*life.table.snapshots)
    life.table.append_as_others()
    assert isinstance(repair(life, origin=TRIM), Repair)
    life.produce(2)
    life.sync()
    assert life.wave().problems == ()
    assert life.at(0) is None
    assert sorted(life.landed()) == sorted(life.put)


def test_a_repair_without_any_origin_is_refused_and_changes_nothing_so_that_a_later_one_can_name_it() -> None:
    """No record had landed when the snapshots were expired, and Kinesis denies the stream for a while."""
    life = Life()
    life.sync()
    life.table.append_as_others()
    life.table.forget(*life.table.snapshots)
    life.table.append_as_others()
    head = life.table.head
    life.source.fails = Unknown("there is no stream orders")
    denied = repair(life, origin=TRIM)
    assert isinstance(denied, Stop)
    assert "Kinesis knows none of the streams" in denied.why
    life.source.fails = None
    unsaid = repair(life)
    assert isinstance(unsaid, Stop)
    assert f"where the reading of {life.stream} started" in unsaid.why
    assert life.table.head == head
    assert isinstance(repair(life, origin=TRIM), Repair)
    life.produce(0)
    life.sync()
    life.wave()
    assert life.landed() == life.put


def test_a_repair_takes_over_the_rows_of_a_cherry_picked_snapshot_and_reading_goes_on_after_them() -> None:
    life = Life()
    life.sync()
    life.produce(0)
    life.wave()
    before = life.table.head
    life.produce(0)
    life.wave()
    picked = life.table.head
    assert picked is not None
    life.table.rollback(before)
    life.table.cherry_pick(picked)
    assert isinstance(repair(life), Repair)
    life.produce(0)
    assert life.wave().problems == ()
    assert sorted(life.landed()) == sorted(life.put)


def test_a_repair_needs_no_origin_for_an_earlier_life_of_a_stream_and_gives_it_no_position() -> None:
    life = Life()
    life.sync()
    life.produce(0)
    life.wave()
    former = life.stream
    life.source.delete_stream("orders")
    life.later(timedelta(minutes=1))
    life.stream = life.source.create_stream("orders", 1)
    life.sync()
    life.produce(0)
    life.wave()
    life.table.append_as_others()
    life.table.forget(*life.table.snapshots)
    life.table.append_as_others()
    assert isinstance(repair(life, origin=TRIM), Repair)
    assert {key.stream for key in life.positions.shards} == {life.stream}
    assert former not in life.positions.origins
    life.produce(0)
    life.wave()
    assert sorted(life.landed()) == sorted(life.put)


def test_a_table_is_repaired_even_if_its_stream_was_deleted() -> None:
    life = a_life_with_a_split()
    life.table.append_as_others()
    picked = life.table.head
    assert picked is not None
    life.table.cherry_pick(picked)
    life.source.delete_stream("orders")
    found = repair(life)
    assert isinstance(found, Repair)
    assert len(found.landing.positions.shards) == 2


def test_a_repair_doesnt_count_a_shard_as_read_if_its_only_landing_was_rolled_back() -> None:
    """The table has no row of the shard. The rolled-back snapshot still has its position, and a tag keeps that
    snapshot."""
    life = Life(shards=2)
    life.sync()
    life.produce(0)
    life.wave()
    before = life.table.head
    assert before is not None
    life.produce(0)
    life.produce(1)
    life.wave()
    life.table.rollback(before)
    life.table.append_as_others()
    life.table.forget(*range(1, before + 1))
    found = repair(life)
    assert isinstance(found, Repair)
    assert any(f"{life.key(1)}: gets no position" in told for told in found.sentences)
    assert life.at(1) is None
    told = [problem.why for problem in life.wave([life.key(1).shard_id]).problems]
    assert ["the table was rolled back" in why for why in told] == [True], (
        "a person has to decide about the row"
    )
    life.leases.wipe()
    life.sync()
    assert life.wave().problems == ()
    assert sorted(life.landed()) == sorted(life.put)


def test_a_repair_is_refused_while_kinesis_denies_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise its shards would count as forgotten and get no positions, and their records would land again."""
    life = a_life_with_a_split()
    life.table.append_as_others()
    life.table.forget(*life.table.snapshots)
    life.table.append_as_others()

    def deny(name: str) -> StreamFacts:
        raise Unknown(f"there is no stream {name}")

    with monkeypatch.context() as patch:
        patch.setattr(life.source, "describe", deny)
        patch.setattr(life.source, "is_gone", lambda _: True)
        refused = repair(life, origin=TRIM)
    assert isinstance(refused, Stop)
    assert "Nothing was changed" in refused.why

    assert isinstance(repair(life, origin=TRIM), Repair)
    assert {key.shard_id for key in life.positions.shards} >= {key.shard_id for key, _ in life.landed()}
