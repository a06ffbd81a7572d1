"""A person's decisions, carried out beside workers: which rows they hold, what they change, and what the next wave
does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change import Applied, claim
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.order.start_of_reading import Stop
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import TRIM
from headrace.pipeline.errors import PositionsDisagree, Throttled, Unknown
from headrace.pipeline.ports.pages import RecordPage
from headrace.pipeline.repair.decide import Busy, Held, Recovery
from headrace.pipeline.repair.decision_plan import (
    AfterRecord,
    Decision,
    Person,
    Target,
    WhatIsLeft,
    plan_reposition,
    plan_skip,
)
from tests.duties.life import DAY, Life
from tests.memory.source import MemorySource

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class MemoryPages:
    """The stream's pages, three records each. `tells_end`: a page after the last records of a closed shard tells the end."""

    source: MemorySource
    tells_end: bool = False

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        at = batch.start if batch.after is None or batch.after.sequence is None else batch.after.sequence
        found = self.source.records(batch.key, at)
        now = self.source.describe(batch.key.stream.arn).asked
        for first in range(0, max(1, len(found)), 3):
            page = found[first : first + 3]
            behind = HOUR if first + 3 < len(found) else timedelta(0)
            first_at, last_at = (page[0].arrival, page[-1].arrival) if page else (None, None)
            last = page[-1].sequence if page else None
            yield RecordPage(None, len(page), 0, now, behind, last, first_at, last_at, None)
        if self.tells_end:
            children = self.source.children(batch.key)
            yield RecordPage(None, 0, 0, now, timedelta(0), None, None, None, children)


def recovery(life: Life) -> Recovery:
    run = life.ids.fresh()
    return Recovery(
        claim=f"shell-{run}/1",
        settings=life.settings,
        policy=life.policy,
        leases=life.leases,
        workers=life.rows,
        runs=life.runs,
        source=life.source,
        table=life.table,
        clock=life.clock,
    )


def skip(life: Life, number: int, target: Target | None = None) -> str:
    person = recovery(life)
    held = person.hold(life.key(number).shard_id)
    assert isinstance(held, Held)
    try:
        plan = plan_skip(
            person.situation(held.row), target or WhatIsLeft(), Person("shell", "shell/1", "a test")
        )
        assert isinstance(plan, Decision), plan
        return person.carry_out(held.row, plan)
    finally:
        person.release(held.row.key)


def reposition(life: Life, number: int, *, to_lease: bool) -> Decision | Stop:
    person = recovery(life)
    held = person.hold(life.key(number).shard_id)
    assert isinstance(held, Held)
    plan = plan_reposition(
        person.situation(held.row),
        to_lease=to_lease,
        sentinel=TRIM_HORIZON,
        person=Person("s", "s/1", "a test"),
    )
    if isinstance(plan, Decision):
        person.carry_out(held.row, plan)
    person.release(held.row.key)
    return plan


def a_trimmed_shard() -> Life:
    life = Life()
    life.sync()
    life.produce(0)
    life.wave()
    life.produce(0)
    life.later(DAY)
    life.produce(0)
    life.later(HOUR)
    return life


def test_after_headrace_skip_a_shard_passes_over_one_gap_and_the_ledger_names_the_gap() -> None:
    life = a_trimmed_shard()
    assert life.wave().problems[0].fatal
    assert "done" in skip(life, 0)
    assert life.wave().problems == ()
    life.check(lost=life.put[3:6])
    assert [r.why for r in life.ledger(Kind.SKIPPED)] == [
        "a test",
        "these records left the stream before they were read",
    ]
    life.produce(0)
    life.later(DAY + HOUR)
    assert life.wave().problems[0].fatal, "the next gap needs a decision of its own"


def test_after_a_skip_to_a_record_reading_goes_on_behind_that_record() -> None:
    life = Life()
    life.sync()
    life.produce(0, 6)
    person = recovery(life)
    person.require_readable(life.key(0), life.put[2][1], MemoryPages(life.source))
    skip(life, 0, AfterRecord(life.put[2][1]))
    life.wave()
    life.check(lost=life.put[:3])


def test_after_a_skip_to_the_tip_only_later_records_land() -> None:
    life = Life()
    life.sync()
    life.produce(0, 7)
    life.later(2 * HOUR)
    skip(life, 0, recovery(life).tip_of(life.key(0), MemoryPages(life.source)))
    life.produce(0, 2)
    life.wave()
    life.check(lost=life.put[:7])


def test_after_a_skip_to_the_tip_of_an_empty_shard_later_records_land() -> None:
    life = Life()
    life.sync()
    skip(life, 0, recovery(life).tip_of(life.key(0), MemoryPages(life.source)))
    life.produce(0, 2)
    life.wave()
    life.check()


def test_a_skip_to_the_tip_of_a_closed_shard_doesnt_call_the_shard_open() -> None:
    """The page with the last records of a closed shard may not tell the shard's end: the next page does."""
    life = Life()
    life.produce(0, 7)
    life.source.split(life.key(0))
    tip = recovery(life).tip_of(life.key(0), MemoryPages(life.source, tells_end=True))
    assert (tip.sequence, tip.is_open) == (life.put[-1][1], False)


def test_a_busy_shard_has_a_tip_although_no_page_is_empty() -> None:
    life = Life()
    life.produce(0, 3)
    batch = Batch(life.key(0), None, TRIM, life.clock.now(), HOUR)
    page = next(MemoryPages(life.source).pages(batch))

    class Full(MemoryPages):
        def pages(self, batch: Batch) -> Iterator[RecordPage]:
            yield from [page] * 9

    assert recovery(life).tip_of(life.key(0), Full(life.source)).is_open


def test_a_skipped_shard_that_left_the_stream_is_ended_and_its_children_get_rows() -> None:
    life = Life()
    life.sync()
    life.produce(0)
    life.source.split(life.key(0))
    life.later(DAY + HOUR)
    assert life.wave().problems[0].fatal
    skip(life, 0, recovery(life).end_of(life.key(0)))
    life.wave()
    assert [life.row(n) is not None for n in (1, 2)] == [True, True]
    row = life.row(0)
    assert row is not None
    assert row.has_ended


def test_after_a_reposition_a_rolled_back_table_is_read_on_from_its_positions() -> None:
    life = Life()
    life.sync()
    life.produce(0)
    life.wave()
    first = life.table.head
    life.produce(0)
    life.wave()
    life.table.rollback(first)
    life.produce(0)
    assert "rolled back" in life.wave().problems[0].why
    reposition(life, 0, to_lease=False)
    life.wave()
    life.check()


def test_reposition_to_the_lease_moves_the_table_to_where_another_reader_left_the_row() -> None:
    life = Life()
    life.sync()
    life.produce(0)
    life.wave()
    life.produce(0)
    row = life.row(0)
    assert row is not None
    life.lose_rows(0)
    life.put_row(0, checkpoint=Checkpoint(str(life.put[4][1])), landed=row.landed)
    reposition(life, 0, to_lease=True)
    life.wave()
    life.check(lost=life.put[3:5])


def test_reposition_of_a_row_ahead_of_a_table_without_a_position_reads_the_shard_from_its_start() -> None:
    life = Life()
    life.sync()
    life.produce(0)
    life.lose_rows(0)
    life.put_row(0, checkpoint=Checkpoint(str(life.put[1][1])), landed=Checkpoint("5"))
    reposition(life, 0, to_lease=False)
    life.wave()
    life.check()


# --- beside runs and workers --------------------------------------------------------------------------------


def test_a_command_waits_for_a_living_run_and_takes_the_shard_of_a_run_that_is_over() -> None:
    life = Life()
    life.sync()
    row = life.row(0)
    assert row is not None
    life.runs.launch("other", "w1")
    life.runs.start("other")
    assert isinstance(life.leases.apply(claim(row, "w1", "other/1")), Applied)
    person = recovery(life)
    assert person.hold(row.key) == Busy(f"run other is reading {row.key}")
    wanted = life.row(0)
    assert wanted is not None
    assert wanted.wanted_by == person.claim
    life.runs.end("other")
    assert isinstance(person.hold(row.key), Held)
    held = life.row(0)
    assert held is not None
    assert (held.run_claim, held.wanted_by) == (person.claim, None)
    person.release(row.key)
    free = life.row(0)
    assert free is not None
    assert free.run_claim is None


def test_a_run_unknown_to_dagster_is_waited_for_until_its_beat_stood_still_for_the_lease_duration() -> None:
    life = Life()
    life.sync()
    row = life.row(0)
    assert row is not None
    life.leases.apply(claim(row, "w1", "elsewhere/1"))
    person, waited = recovery(life), timedelta(0)
    while isinstance(person.hold(row.key), Busy):
        life.later(timedelta(seconds=2))
        waited += timedelta(seconds=2)
        assert waited < timedelta(minutes=2)
    assert waited > life.settings.times.lease_duration


def test_a_command_that_stops_waiting_removes_its_wanted_by() -> None:
    life = Life()
    life.sync()
    row = life.row(0)
    assert row is not None
    life.runs.launch("other", "w1")
    life.leases.apply(claim(row, "w1", "other/1"))
    person = recovery(life)
    person.hold(row.key)
    person.release(row.key)
    after = life.row(0)
    assert after is not None
    assert (after.run_claim, after.wanted_by) == ("other/1", None)


def test_no_run_claims_a_shard_that_a_command_holds() -> None:
    life = Life()
    life.sync()
    life.produce(0)
    person = recovery(life)
    assert isinstance(person.hold(life.key(0).shard_id), Held)
    assert life.wave([life.key(0).shard_id]).problems[0].busy
    life.wave()
    assert life.landed() == []


def test_a_command_leaves_a_shard_alone_during_its_handover() -> None:
    life = Life()
    life.sync()
    life.lose_rows(0)
    life.put_row(0, checkpoint_owner="w1", owner="w2")
    answer = recovery(life).hold(life.key(0).shard_id)
    assert answer == Busy(f"{life.key(0).shard_id} is being handed over from w1 to w2")


def test_a_command_can_hold_a_shard_without_an_owner() -> None:
    life = Life()
    life.sync()
    life.lose_rows(0)
    life.put_row(0, owner=None)
    assert isinstance(recovery(life).hold(life.key(0).shard_id), Held)


def test_a_decision_about_a_shard_that_moved_meanwhile_is_refused_completely() -> None:
    life = Life()
    life.sync()
    life.produce(0)
    person = recovery(life)
    held = person.hold(life.key(0).shard_id)
    assert isinstance(held, Held)
    plan = plan_skip(person.situation(held.row), WhatIsLeft(), Person("s", "s/1", "a test"))
    assert isinstance(plan, Decision)
    person.release(held.row.key)
    life.wave()
    with pytest.raises(PositionsDisagree, match="changed while you decided"):
        person.carry_out(held.row, plan)
    life.check()
    assert life.ledger(Kind.SKIPPED) == []


def test_if_the_row_cant_be_written_the_error_says_that_the_table_holds_the_decision() -> None:
    life = Life()
    life.sync()
    life.produce(0)
    life.wave()
    first = life.table.head
    life.produce(0)
    life.wave()
    life.table.rollback(first)
    person = recovery(life)
    held = person.hold(life.key(0).shard_id)
    assert isinstance(held, Held)
    plan = plan_reposition(
        person.situation(held.row), to_lease=False, sentinel=TRIM_HORIZON, person=Person("s", "s/1", "a test")
    )
    assert isinstance(plan, Decision)

    def fails(_change: object) -> Applied:
        raise Throttled("DynamoDB throttles")

    apply, life.leases.apply = life.leases.apply, fails  # type: ignore[method-assign,assignment]
    with pytest.raises(Throttled, match="The lake table has the decision"):
        person.carry_out(held.row, plan)
    life.leases.apply = apply  # type: ignore[method-assign]
    assert "done" in person.carry_out(held.row, plan)


def test_a_shard_is_found_by_its_id_and_the_error_for_an_unknown_one_names_similar_keys() -> None:
    life = Life(shards=3)
    life.sync()
    person = recovery(life)
    assert person.find("shardId-000000000001") == "shardId-000000000001"
    row = life.row(1)
    assert row is not None
    life.leases = type(life.leases)([replace(row, key=f"1:orders:7:{row.key}", shard=row.key)])
    assert recovery(life).find(row.key) == f"1:orders:7:{row.key}"
    with pytest.raises(
        Unknown, match=r"no shard '1:orders:7:shardId-000000000009' \(similar names: orders@1:7/1\)"
    ):
        recovery(life).find("1:orders:7:shardId-000000000009")


def test_a_shard_is_found_by_its_name_in_dagster_and_by_a_shorter_one_that_means_no_other() -> None:
    life = Life(shards=3)
    life.sync()
    row = life.row(1)
    assert row is not None
    lives = [replace(row, key=f"1:orders:{epoch}:{row.key}", shard=row.key) for epoch in (7, 8)]
    life.leases = type(life.leases)(lives)
    assert recovery(life).find("orders@1:8/1") == f"1:orders:8:{row.key}"
    with pytest.raises(Unknown, match=r"several shards are called 'orders/1' \(orders@1:7/1, orders@1:8/1\)"):
        recovery(life).find("orders/1")
    life.leases = type(life.leases)(lives[:1])
    assert recovery(life).find("orders/1") == f"1:orders:7:{row.key}"


def test_no_decision_is_made_about_a_row_of_another_life() -> None:
    life = Life()
    life.sync()
    life.lose_rows(0)
    life.put_row(0, stream_epoch=life.stream.epoch - 1)
    held = recovery(life).hold(life.key(0).shard_id)
    assert isinstance(held, Held)
    with pytest.raises(PositionsDisagree, match="another life"):
        recovery(life).situation(held.row)


def test_a_command_beats_while_it_holds_a_shard_and_leaves_no_beat_and_no_worker_row_behind() -> None:
    life = Life()
    life.sync()
    key = life.key(0).shard_id
    stranger = recovery(life)
    stranger.hold(key)
    stranger.release(key)
    assert life.rows.get("w1") is None, "a person's command makes no worker row"
    life.rows.beat("w1", "dagster-1", found=None)
    person = recovery(life)
    person.hold(key)
    beating = life.rows.get("w1")
    assert beating is not None
    assert list(beating.run_beats) == [person.claim]
    person.release(key)
    after = life.rows.get("w1")
    assert after is not None
    assert after.run_beats == {}
