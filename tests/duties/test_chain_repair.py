"""A broken chain mended from end to end: what others did to the table, the plan, and the waves after it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pipeline.core.position import TRIM
from pipeline.core.repair_plan import Repair
from pipeline.core.start_of_reading import Stop
from pipeline.duties.chain_repair import Repairing
from pipeline.errors import ChainBroken, Unknown
from pipeline.ports import StreamFacts
from pipeline.settings.choices import InitialPosition
from tests.duties.life import Life


def mended(life: Life, **more: object) -> Repair | Stop:
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


def test_a_table_whose_positions_are_whole_is_not_touched() -> None:
    life = a_life_with_a_split()
    found = mended(life)
    assert isinstance(found, Stop)
    assert "nothing to repair" in found.why


def test_after_a_lost_way_all_goes_on_where_the_rows_end_and_no_parent_is_read_again() -> None:
    life = a_life_with_a_split()
    life.table.append_as_others()
    life.table.forget(*life.table.snapshots)
    life.table.append_as_others()
    life.produce(1)
    with pytest.raises(ChainBroken):
        life.wave()
    assert isinstance(mended(life), Stop), "where the stream began has to be said"
    assert isinstance(mended(life, origin=TRIM), Repair)
    parent = life.at(0)
    assert parent is not None
    assert parent.ended
    life.produce(1)
    life.produce(2)
    life.sync()
    life.wave()
    landed = life.landed()
    assert sorted(landed) == sorted(life.put)


def test_a_shard_closed_before_the_start_is_given_no_end_and_none_of_its_children_is_taken_for_lost() -> None:
    """0 was split into 1 and 2, and both split again, before the start; only a child of 1 has rows."""
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
    assert isinstance(mended(life, origin=start), Repair)
    assert [number for number in range(7) if life.at(number) is not None] == [3]
    life.sync()
    assert life.row(2) is None, "it is of no concern"
    for shard in range(3, 7):
        life.produce(shard)
    assert life.wave().problems == ()
    assert sorted(life.landed()) == sorted(life.put)


def test_a_shard_that_ended_without_a_record_is_not_read_again() -> None:
    life = Life()
    life.sync()
    life.source.split(life.key(0))
    life.wave()
    life.produce(1)
    life.wave()
    life.table.append_as_others()
    life.table.forget(*life.table.snapshots)
    life.table.append_as_others()
    assert isinstance(mended(life, origin=TRIM), Repair)
    life.produce(2)
    life.sync()
    assert life.wave().problems == ()
    assert life.at(0) is None
    assert sorted(life.landed()) == sorted(life.put)


def test_a_repair_that_knows_no_origin_changes_nothing_so_that_a_later_one_can_say_it() -> None:
    """Nothing had landed yet when the snapshots were expired, and Kinesis denies the stream for a while."""
    life = Life()
    life.sync()
    life.table.append_as_others()
    life.table.forget(*life.table.snapshots)
    life.table.append_as_others()
    head = life.table.head
    life.source.fails = Unknown("there is no stream orders")
    denied = mended(life, origin=TRIM)
    assert isinstance(denied, Stop)
    assert "Kinesis knows none of the streams" in denied.why
    life.source.fails = None
    unsaid = mended(life)
    assert isinstance(unsaid, Stop)
    assert f"where {life.stream} began" in unsaid.why
    assert life.table.head == head
    assert isinstance(mended(life, origin=TRIM), Repair)
    life.produce(0)
    life.sync()
    life.wave()
    assert life.landed() == life.put


def test_a_picked_landing_is_taken_over_and_read_on_from() -> None:
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
    assert isinstance(mended(life), Repair)
    life.produce(0)
    assert life.wave().problems == ()
    assert sorted(life.landed()) == sorted(life.put)


def test_a_former_life_of_a_stream_needs_no_origin_and_gets_no_position() -> None:
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
    assert isinstance(mended(life, origin=TRIM), Repair)
    assert {key.stream for key in life.positions.shards} == {life.stream}
    assert former not in life.positions.origins
    life.produce(0)
    life.wave()
    assert sorted(life.landed()) == sorted(life.put)


def test_a_stream_that_is_gone_does_not_keep_its_table_from_being_repaired() -> None:
    life = a_life_with_a_split()
    life.table.append_as_others()
    picked = life.table.head
    assert picked is not None
    life.table.cherry_pick(picked)
    life.source.delete_stream("orders")
    found = mended(life)
    assert isinstance(found, Repair)
    assert len(found.landing.positions.shards) == 2


def test_a_shard_whose_only_landing_was_rolled_back_is_not_passed_over() -> None:
    """No row of it is left to disagree with the snapshot beside main, which the tag keeps known."""
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
    found = mended(life)
    assert isinstance(found, Repair)
    assert any(f"{life.key(1)}: gets no position" in told for told in found.sentences)
    assert life.at(1) is None
    told = [problem.why for problem in life.wave([life.key(1).shard_id]).problems]
    assert ["the table was rolled back" in why for why in told] == [True], "a person decides about the row"
    life.leases.wipe()
    life.sync()
    assert life.wave().problems == ()
    assert sorted(life.landed()) == sorted(life.put)


def test_while_kinesis_denies_a_stream_its_shards_do_not_count_as_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without positions their records would be read and landed again. The repair is refused until the stream answers."""
    life = a_life_with_a_split()
    life.table.append_as_others()
    life.table.forget(*life.table.snapshots)
    life.table.append_as_others()

    def denied(name: str) -> StreamFacts:
        raise Unknown(f"there is no stream {name}")

    with monkeypatch.context() as patch:
        patch.setattr(life.source, "describe", denied)
        patch.setattr(life.source, "is_gone", lambda _: True)
        refused = mended(life, origin=TRIM)
    assert isinstance(refused, Stop)
    assert "Nothing was changed" in refused.why

    assert isinstance(mended(life, origin=TRIM), Repair)
    assert {key.shard_id for key in life.positions.shards} >= {key.shard_id for key, _ in life.landed()}
