"""What every worker store promises."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.aws.leases.workers import DynamoWorkerStore
from headrace.pipeline.core.leases.worker import Metrics, Worker
from headrace.pipeline.ports.leases import WorkerStore
from tests.memory.clock import START, MemoryClock
from tests.memory.workers import MemoryWorkerStore
from tests.stand_in import a_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

CLAIM = "5b0e8a4c-run/1f0c-attempt"
FIRST_TICK = START + timedelta(milliseconds=700)


@pytest.fixture
def clock() -> MemoryClock:
    return MemoryClock(FIRST_TICK)


@pytest.fixture(params=["memory", "memory, one table", "dynamodb", "dynamodb, one table"])
def store(request: pytest.FixtureRequest, clock: MemoryClock) -> Iterator[WorkerStore]:
    if request.param.startswith("memory"):
        yield MemoryWorkerStore(clock=clock, among_leases="one table" in request.param)
        return
    client: DynamoDBClient = request.getfixturevalue("dynamodb")
    key = "wid" if request.param == "dynamodb" else "leaseKey"
    table = a_table(client, key)
    yield DynamoWorkerStore(client, table, clock=clock, key=key)
    client.delete_table(TableName=table)


def by_id(workers: Iterable[Worker]) -> dict[str, Worker]:
    return {each.worker_id: each for each in workers}


def hold_odd_row(store: WorkerStore, worker_id: str) -> None:
    if isinstance(store, MemoryWorkerStore):
        store.hold_odd_row(worker_id, "lut is of type S, not N")
        return
    assert isinstance(store, DynamoWorkerStore)
    rows = store._rows
    row = {"entityType": {"S": "WORKER_METRIC_STATS"}, "lut": {"S": "yesterday"}}
    rows.client.put_item(TableName=rows.table, Item={**rows.key_of(worker_id), **row})


def test_the_first_beat_makes_the_row(store: WorkerStore):
    row = Worker("w1", last_update=START, beat=1, instance="dagster-a", ticked_at=FIRST_TICK)
    assert store.beat("w1", "dagster-a", found=None) == row
    assert store.get("w1") == row
    assert store.listing().workers == (row,)


def test_every_beat_is_counted_and_stamped_in_whole_seconds(store: WorkerStore, clock: MemoryClock):
    store.beat("w1", "dagster-a", found=None)
    clock.advance(timedelta(seconds=5))
    row = store.beat("w1", "dagster-a", found="dagster-a")
    later = timedelta(seconds=5)
    assert row == Worker(
        "w1", last_update=START + later, beat=2, instance="dagster-a", ticked_at=FIRST_TICK + later
    )
    assert store.get("w1") == row


def test_a_second_instance_that_saw_no_row_is_refused_and_changes_nothing(store: WorkerStore):
    row = store.beat("w1", "dagster-a", found=None)
    assert store.beat("w1", "dagster-b", found=None) is None
    assert store.get("w1") == row


def test_an_instance_that_read_another_instance_in_the_row_is_refused(store: WorkerStore):
    row = store.beat("w1", "dagster-a", found=None)
    assert store.beat("w1", "dagster-b", found="dagster-c") is None
    assert store.get("w1") == row


def test_an_instance_may_be_replaced_by_one_that_read_its_name_in_the_row(store: WorkerStore):
    store.beat("w1", "dagster-a", found=None)
    row = store.beat("w1", "dagster-b", found="dagster-a")
    assert row is not None
    assert (row.instance, row.beat) == ("dagster-b", 2)


def test_a_replaced_instance_is_refused_from_then_on(store: WorkerStore):
    store.beat("w1", "dagster-a", found=None)
    store.beat("w1", "dagster-b", found="dagster-a")
    assert store.beat("w1", "dagster-a", found="dagster-a") is None


def test_an_instance_is_never_refused_because_of_its_own_row(store: WorkerStore):
    """The instance read the row before its own first write, whose answer was lost."""
    store.beat("w1", "dagster-a", found=None)
    row = store.beat("w1", "dagster-a", found=None)
    assert row is not None
    assert (row.instance, row.beat) == ("dagster-a", 2)


def test_an_instance_that_expects_a_row_doesnt_beat_a_missing_one(store: WorkerStore):
    assert store.beat("w1", "dagster-b", found="dagster-a") is None
    assert store.get("w1") is None


def test_a_run_can_beat_before_its_workers_first_beat(store: WorkerStore):
    store.beat_run("w1", CLAIM)
    assert store.get("w1") == Worker("w1", last_update=START, run_beats={CLAIM: 1})


def test_each_run_has_a_counter_of_its_own_beside_the_workers(store: WorkerStore):
    store.beat("w1", "dagster-a", found=None)
    for claim in (CLAIM, "run-2/b", CLAIM):
        store.beat_run("w1", claim)
    store.beat("w1", "dagster-a", found="dagster-a")
    row = store.get("w1")
    assert row is not None
    assert (row.beat, dict(row.run_beats)) == (2, {CLAIM: 2, "run-2/b": 1})


def test_a_claim_may_contain_any_characters(store: WorkerStore):
    odd = "run.with.dots[0]/#:é "
    store.beat_run("w1", odd)
    store.beat_run("w1", odd)
    row = store.get("w1")
    assert row is not None
    assert dict(row.run_beats) == {odd: 2}


def test_beats_of_many_runs_at_once_are_all_counted(store: WorkerStore):
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda i: store.beat_run("w1", f"run-{i % 3}/a"), range(24)))
    row = store.get("w1")
    assert row is not None
    assert dict(row.run_beats) == {f"run-{i}/a": 8 for i in range(3)}


def test_an_ask_is_counted_in_the_row_of_a_worker_of_headrace_and_moves_no_beat(store: WorkerStore):
    store.beat("w1", "dagster-a", found=None)
    before = store.get("w1")
    assert before is not None
    store.ask("w1")
    store.ask("w1")
    assert store.get("w1") == replace(before, asked=2)


def test_an_ask_makes_no_row(store: WorkerStore):
    store.ask("w1")
    assert store.get("w1") is None


def test_a_notice_stays_until_it_is_removed_and_moves_no_beat(store: WorkerStore):
    store.beat("w1", "dagster-a", found=None)
    before = store.get("w1")
    assert before is not None
    store.set_notice("w1", "another application lands")
    assert store.beat("w1", "dagster-a", found="dagster-a") == replace(
        before, beat=2, notice="another application lands"
    )
    store.set_notice("w1", None)
    store.set_notice("w1", None)
    assert store.get("w1") == replace(before, beat=2)


def test_the_removal_of_a_notice_makes_no_row(store: WorkerStore):
    store.set_notice("w1", None)
    assert store.get("w1") is None


def test_forget_runs_removes_the_named_beats_and_no_others(store: WorkerStore):
    claims = [f"run-{i}/a" for i in range(130)]
    for claim in claims:
        store.beat_run("w1", claim)
    store.forget_runs("w1", [*claims[:-1], "never-seen/a"])
    row = store.get("w1")
    assert row is not None
    assert dict(row.run_beats) == {claims[-1]: 1}


def test_forget_runs_makes_no_row(store: WorkerStore):
    store.forget_runs("w1", ["run-1/a"])
    store.forget_runs("w1", [])
    assert store.listing().workers == ()


def test_stopping_stays_set_until_it_is_removed(store: WorkerStore):
    store.beat("w1", "dagster-a", found=None)
    store.set_stopping("w1", stopping=True)
    after = store.beat("w1", "dagster-a", found="dagster-a")
    assert after is not None
    assert after.stopping
    store.set_stopping("w1", stopping=False)
    assert [w.stopping for w in store.listing().workers] == [False]


def test_stopping_can_be_set_before_a_workers_first_beat(store: WorkerStore):
    store.set_stopping("w1", stopping=True)
    row = store.beat("w1", "dagster-a", found=None)
    assert row == Worker(
        "w1", last_update=START, beat=1, instance="dagster-a", stopping=True, ticked_at=FIRST_TICK
    )


def test_assignment_passes_are_counted_with_or_without_a_row(store: WorkerStore):
    store.count_assign_pass("w1")
    store.beat("w1", "dagster-a", found=None)
    store.count_assign_pass("w1")
    row = store.get("w1")
    assert row is not None
    assert (row.assign_pass, row.beat) == (2, 1)


def is_among_leases(store: WorkerStore) -> bool:
    if isinstance(store, MemoryWorkerStore):
        return store._among_leases
    assert isinstance(store, DynamoWorkerStore)
    return store._rows.key != "wid"


def test_a_listing_shows_every_worker(store: WorkerStore):
    for i in range(5):
        store.beat(f"w{i}", "dagster-a", found=None)
    assert {w.worker_id for w in store.listing().workers} == {f"w{i}" for i in range(5)}


def test_a_listing_skips_no_row_that_is_understood(store: WorkerStore):
    rows = {each: store.beat(each, "dagster-a", found=None) for each in ("w0", "w1", "w2")}
    listing = store.listing()
    assert (by_id(listing.workers), listing.skipped) == (rows, ())


def test_a_glance_reads_all_workers_in_layout_m_and_only_known_ones_in_layout_s(store: WorkerStore):
    rows = {each: store.beat(each, "dagster-a", found=None) for each in ("w0", "w1", "w2")}
    found = store.glance(["w2", "w-gone", "w1", "w2"])
    known = {"w1", "w2"} if is_among_leases(store) else rows.keys()
    assert (by_id(found.workers), len(found.workers)) == ({each: rows[each] for each in known}, len(known))
    assert found.skipped == ()


def test_a_glance_at_no_worker_is_no_error(store: WorkerStore):
    store.beat("w1", "dagster-a", found=None)
    assert len(store.glance([]).workers) == (0 if is_among_leases(store) else 1)


def test_a_glance_at_more_workers_than_a_batch_shows_all(store: WorkerStore):
    ids = [f"w{i}" for i in range(110)]
    for each in ids:
        store.beat(each, "dagster-a", found=None)
    assert by_id(store.glance(iter(ids)).workers).keys() == set(ids)


def test_get_many_shows_each_existing_worker_once(store: WorkerStore):
    ids = [f"w{i}" for i in range(110)]
    rows = {each: store.beat(each, "dagster-a", found=None) for each in ids}
    found = store.get_many([*ids, "w-gone"])
    assert (by_id(found.workers), len(found.workers), found.skipped) == (rows, 110, ())
    assert store.get_many([]).workers == ()


def test_an_odd_row_is_reported_and_hides_no_other(store: WorkerStore):
    store.beat("w1", "dagster-a", found=None)
    hold_odd_row(store, "w2")
    for listing in (store.listing(), *(look(["w1", "w2", "w3"]) for look in (store.get_many, store.glance))):
        assert [w.worker_id for w in listing.workers] == ["w1"]
        assert [row.key for row in listing.skipped] == ["w2"]
        assert "lut" in listing.skipped[0].why
    assert [w.worker_id for w in store.listing().workers] == ["w1"]


def test_get_of_a_worker_that_never_existed_is_none(store: WorkerStore):
    store.beat("w1", "dagster-a", found=None)
    assert store.get("w2") is None


def test_the_token_moves_with_every_kind_of_beat(store: WorkerStore):
    store.beat("w1", "dagster-a", found=None)
    tokens = []
    for beat in (
        lambda: store.beat("w1", "dagster-a", found="dagster-a"),
        lambda: store.beat_run("w1", CLAIM),
    ):
        beat()
        row = store.get("w1")
        assert row is not None
        tokens.append(row.token)
    assert len(set(tokens)) == 2


def metrics(at: datetime, *percents: float) -> Metrics:
    return Metrics({"C": percents}, {"C": (80,)}, "cpu of 2 hosts", at)


def test_a_report_replaces_the_metrics_and_stamps_the_row(store: WorkerStore, clock: MemoryClock):
    store.beat("w1", "dagster-a", found=None)
    clock.advance(timedelta(seconds=30))
    now = START + timedelta(seconds=30)
    assert store.report("w1", metrics(now, 12.5, -1.0), seen=None)
    assert store.get("w1") == Worker(
        "w1",
        last_update=now,
        beat=1,
        instance="dagster-a",
        stats={"C": (12.5, -1.0)},
        ranges={"C": (80,)},
        measured_by="cpu of 2 hosts",
        measured_at=now,
        ticked_at=FIRST_TICK,
    )


def test_a_report_before_the_first_beat_makes_the_row(store: WorkerStore):
    assert store.report("w1", metrics(START, 5.0), seen=None)
    row = store.get("w1")
    assert row is not None
    assert (row.last_update, row.beat, row.measured_at) == (START, 0, START)


def test_of_two_reports_for_the_same_time_only_the_first_is_kept(store: WorkerStore):
    later = START + timedelta(seconds=30)
    store.report("w1", metrics(START, 5.0), seen=None)
    assert store.report("w1", metrics(later, 5.0, 6.0), seen=START)
    assert not store.report("w1", metrics(later + timedelta(seconds=1), 5.0, 7.0), seen=START)
    assert not store.report("w1", metrics(later + timedelta(seconds=1), 7.0), seen=None)
    row = store.get("w1")
    assert row is not None
    assert (row.stats, row.measured_at) == ({"C": (5.0, 6.0)}, later)


def test_a_report_on_a_deleted_row_is_refused(store: WorkerStore):
    assert not store.report("w1", metrics(START, 5.0), seen=START - timedelta(seconds=30))
    assert store.listing().workers == ()


def test_beats_keep_fresh_metrics_and_remove_outdated_ones(store: WorkerStore, clock: MemoryClock):
    store.beat("w1", "dagster-a", found=None)
    store.report("w1", metrics(START, 90.0), seen=None)
    clock.advance(timedelta(minutes=2, seconds=59))
    row = store.beat("w1", "dagster-a", found="dagster-a")
    assert row is not None
    assert (row.stats, row.measured_by) == ({"C": (90.0,)}, "cpu of 2 hosts")
    clock.advance(timedelta(seconds=5))
    row = store.beat("w1", "dagster-a", found="dagster-a")
    assert row is not None
    assert row == Worker(
        "w1", last_update=row.last_update, beat=3, instance="dagster-a", ticked_at=clock.now()
    )
    assert store.get("w1") == row


def test_metrics_that_were_removed_can_be_reported_again(store: WorkerStore, clock: MemoryClock):
    store.report("w1", metrics(START, 90.0), seen=None)
    clock.advance(timedelta(minutes=5))
    store.beat("w1", "dagster-a", found=None)
    now = START + timedelta(minutes=5)
    assert not store.report("w1", metrics(now, 90.0, 10.0), seen=START)
    assert store.report("w1", metrics(now, 10.0), seen=None)


def test_a_stale_row_is_deleted_unless_its_worker_beats_again(store: WorkerStore, clock: MemoryClock):
    stale = [store.beat(worker, "dagster-a", found=None) for worker in ("w1", "w2")]
    clock.advance(timedelta(days=2))
    back = store.beat("w2", "dagster-a", found="dagster-a")
    assert [store.delete_stale(row) for row in stale if row] == [True, False]
    assert store.listing().workers == (back,)


def test_deleting_a_missing_row_or_one_without_a_time_stamp_changes_nothing(store: WorkerStore):
    row = store.beat("w1", "dagster-a", found=None)
    assert row is not None
    assert not store.delete_stale(Worker("w1"))
    assert store.get("w1") == row
    assert store.delete_stale(row)
    assert store.delete_stale(row)
    assert not store.delete_stale(Worker("w1"))
    assert store.listing().workers == ()


def test_the_time_stamp_of_a_stopping_worker_is_old_until_the_worker_may_work_again(
    store: WorkerStore,
):
    beaten = store.beat("w1", "one", found=None)
    store.set_stopping("w1", stopping=True)
    left = store.beat("w1", "one", found="one", leaving=True)
    assert beaten is not None
    assert left is not None
    assert left.beat == beaten.beat + 1
    assert left.last_update is not None
    assert beaten.last_update is not None
    assert beaten.last_update - left.last_update > timedelta(minutes=50)
    store.set_stopping("w1", stopping=False)
    again = store.get("w1")
    assert again is not None
    assert again.last_update is not None
    assert again.last_update >= beaten.last_update
