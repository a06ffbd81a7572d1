"""How far a staging task reads each shard, and what its manifest says about the shard."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Barrier

import pytest

from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Gap, Manifest
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.errors import DataLoss, Unreachable
from headrace.pipeline.lake.staging.stage_codec import decode, encode
from tests.lake.samples import NOON, a_key
from tests.lake.stage_script import DAY, ROOMY, a_batch, a_page, files_in, rows_of, script, stage, staged_of


def test_a_shard_is_read_to_its_tip_and_no_further(tmp_path: Path):
    pages = script(s0=[a_page(1, 2, behind=3), a_page(3, answered=NOON + DAY / 2), a_page(4)])

    manifest = stage([a_batch()], pages, tmp_path)

    done = staged_of(manifest)
    assert done.upto == Position(3, arrival=NOON)
    assert (done.rows, done.bytes, done.pages, done.behind) == (3, 21, 2, timedelta(0))
    assert (done.first_arrival, done.last_arrival, done.error) == (NOON, NOON, None)
    assert [number for _, number in rows_of(manifest)] == [1, 2, 3]


def test_empty_pages_behind_the_tip_dont_end_the_reading(tmp_path: Path):
    pages = script(s0=[a_page(behind=5), a_page(behind=5), a_page(1)])

    assert staged_of(stage([a_batch()], pages, tmp_path)).upto.sequence == 1


def test_reading_an_idle_shard_moves_only_its_witness(tmp_path: Path):
    before = Position(7, arrival=NOON - DAY / 2, seen=NOON - DAY / 4)

    manifest = stage([a_batch(after=before)], script(s0=[a_page(answered=NOON)]), tmp_path)

    assert staged_of(manifest).upto == Position(7, arrival=NOON - DAY / 2, seen=NOON)
    assert manifest.files == ()
    assert files_in(tmp_path) == []


def test_a_page_with_records_doesnt_show_that_its_shard_is_open(tmp_path: Path):
    """Kinesis may give a next iterator with the last records of a closed shard. A later time than these records' arrival would
    hide what the shard's children have lost."""
    closed_for_long = script(
        s0=[a_page(8, arrival=NOON - DAY / 2)], s1=[a_page(8, key=a_key(1), behind=3), a_page()]
    )
    before = Position(7, arrival=NOON - DAY, seen=NOON - DAY)

    done = stage([a_batch(after=before), a_batch(1)], closed_for_long, tmp_path)

    assert staged_of(done).upto == Position(8, arrival=NOON - DAY / 2, seen=NOON - DAY)
    assert staged_of(done).at_tip
    assert staged_of(done, 1).upto == Position(8, arrival=NOON, seen=NOON), "the last page had no record"


def test_a_shard_that_is_behind_doesnt_count_as_seen(tmp_path: Path):
    few = BatchLimits(records=1, bytes=1 << 30, seconds=60)
    before = Position(7, arrival=NOON, seen=NOON)

    manifest = stage(
        [a_batch(after=before)],
        script(s0=[a_page(8, 9, behind=60, answered=NOON + DAY / 2)]),
        tmp_path,
        limits=few,
    )

    assert staged_of(manifest).upto == Position(9, arrival=NOON, seen=NOON)
    assert staged_of(manifest).behind == timedelta(seconds=60)


def test_the_end_of_a_closed_shard_names_its_children(tmp_path: Path):
    children = ("shardId-000000000001", "shardId-000000000002")

    manifest = stage([a_batch(after=5)], script(s0=[a_page(6, children=children)]), tmp_path)

    assert staged_of(manifest).upto == Position(6, ended=True, children=children, arrival=NOON)
    assert tuple(child.shard_id for child in staged_of(manifest).children) == children
    assert decode(encode(manifest), Manifest) == manifest, "as the task sends it to the driver"


def test_the_witness_of_an_end_with_records_is_the_arrival_of_the_last_one(
    tmp_path: Path,
):
    """The child's witness is that of its parent's end, which may be long before the origin was decided."""
    early = NOON - DAY / 2
    page = a_page(6, arrival=early, children=("shardId-000000000001",))

    manifest = stage([a_batch(witness=NOON)], script(s0=[page]), tmp_path)

    assert staged_of(manifest).upto.witness == early


def test_a_shard_that_ends_without_a_record_keeps_the_witness_it_began_with(tmp_path: Path):
    before = Position(seen=NOON)

    manifest = stage([a_batch(after=before)], script(s0=[a_page(children=())]), tmp_path)

    assert staged_of(manifest).upto == Position(ended=True, seen=NOON)


@pytest.mark.parametrize(
    "limits",
    [
        BatchLimits(records=3, bytes=1 << 30, seconds=60),
        BatchLimits(records=1 << 30, bytes=3 * 7, seconds=60),
    ],
    ids=["records", "bytes"],
)
def test_a_shard_stops_at_the_first_limit_that_is_reached(tmp_path: Path, limits: BatchLimits):
    pages = script(s0=[a_page(n, behind=9) for n in range(1, 10)])

    manifest = stage([a_batch()], pages, tmp_path, limits=limits)

    assert staged_of(manifest).upto == Position(3, arrival=NOON)
    assert staged_of(manifest).error is None


def test_without_time_left_no_page_is_read_and_no_position_moves(tmp_path: Path):
    pages = script(s0=[a_page(1)])

    manifest = stage([a_batch(after=5)], pages, tmp_path, limits=BatchLimits(100, 100, seconds=0))

    assert pages.asked == []
    assert staged_of(manifest).upto == staged_of(manifest).after
    assert not staged_of(manifest).moved


def test_shards_share_the_limit_of_bytes_by_their_weight(tmp_path: Path):
    endless = {f"s{n}": [a_page(i, key=a_key(n), behind=9) for i in range(1, 100)] for n in range(2)}
    box = BatchLimits(records=40, bytes=1 << 30, seconds=60)

    manifest = stage([a_batch(0, weight=1), a_batch(1, weight=3)], script(**endless), tmp_path, limits=box)

    assert 9 <= staged_of(manifest, 0).rows <= 12
    assert 28 <= staged_of(manifest, 1).rows <= 31


def test_shards_behind_their_tip_get_the_bytes_that_idle_shards_dont_use(tmp_path: Path):
    idle = {f"s{n}": [a_page(key=a_key(n))] for n in range(1, 10)}
    behind = [a_page(i, behind=9) for i in range(1, 200)]
    box = BatchLimits(records=100, bytes=1 << 30, seconds=60)

    manifest = stage([a_batch(n) for n in range(10)], script(s0=behind, **idle), tmp_path, limits=box)

    assert staged_of(manifest, 0).rows >= 100


def test_the_limit_of_bytes_bounds_the_memory_however_many_shards_there_are(tmp_path: Path):
    full = b"x" * 1000
    many = {f"s{n}": [a_page(1, key=a_key(n), payload=full, behind=9)] * 5 for n in range(50)}
    box = BatchLimits(records=1 << 30, bytes=10_000, seconds=60)

    manifest = stage([a_batch(n) for n in range(50)], script(**many), tmp_path, limits=box)

    assert sum(each.bytes for each in manifest.staged) == 10_000


def test_a_shard_that_the_limit_of_bytes_stopped_is_first_in_the_next_wave(tmp_path: Path):
    pages = script(s0=[a_page(1, behind=9)], s1=[a_page(1, key=a_key(1), behind=9)])
    one = BatchLimits(records=1, bytes=1 << 30, seconds=60)
    batches = [a_batch(0, witness=NOON), a_batch(1, witness=NOON - timedelta(hours=1))]

    stage(batches, pages, tmp_path, limits=one)

    assert pages.asked == ["shardId-000000000001"]


def test_many_shards_are_read_at_the_same_time(tmp_path: Path):
    together = Barrier(4, timeout=20)
    steps = {f"s{n}": [together.wait, a_page(1, key=a_key(n))] for n in range(4)}

    manifest = stage([a_batch(n) for n in range(4)], script(**steps), tmp_path, threads=4)

    assert [each.error for each in manifest.staged] == [None] * 4


# --- data loss ----------------------------------------------------------------------------------------------


def test_a_page_behind_a_gap_is_judged_before_its_rows_are_staged(tmp_path: Path):
    late = NOON + DAY + timedelta(seconds=1)
    pages = script(s0=[a_page(6, behind=9), a_page(7, 8, arrival=late, answered=late, behind=9), a_page(9)])

    manifest = stage([a_batch(after=5)], pages, tmp_path)

    done = staged_of(manifest)
    assert done.data_loss
    assert "records may have left the stream unread" in (done.error or "")
    assert done.upto == Position(6, arrival=NOON)
    assert [number for _, number in rows_of(manifest)] == [6]


def test_the_first_page_is_judged_too(tmp_path: Path):
    manifest = stage(
        [a_batch(after=5, witness=NOON - DAY - timedelta(seconds=1))], script(s0=[a_page(6)]), tmp_path
    )

    assert staged_of(manifest).data_loss
    assert staged_of(manifest).upto == staged_of(manifest).after
    assert manifest.files == ()


def test_an_empty_page_and_an_end_are_judged_like_any_other_page(tmp_path: Path):
    old = NOON - DAY - timedelta(seconds=1)
    pages = script(s0=[a_page()], s1=[a_page(children=())])

    manifest = stage([a_batch(0, 5, witness=old), a_batch(1, 5, witness=old)], pages, tmp_path)

    assert [each.data_loss for each in manifest.staged] == [True, True]
    assert [each.upto.ended for each in manifest.staged] == [False, False]


def test_a_witness_a_second_within_the_retention_means_no_loss_and_one_in_its_last_second_does(
    tmp_path: Path,
):
    """The Date of an answer is cut to whole seconds."""
    whole = NOON - DAY + timedelta(seconds=1)
    manifest = stage([a_batch(after=5, witness=whole)], script(s0=[a_page(6)]), tmp_path)
    assert staged_of(manifest).error is None

    early = whole - timedelta(milliseconds=1)
    manifest = stage([a_batch(after=5, witness=early)], script(s0=[a_page(6)]), tmp_path)
    assert staged_of(manifest).data_loss


def test_each_record_that_is_read_moves_the_witness(tmp_path: Path):
    steps = [
        a_page(n, arrival=NOON + n * DAY / 2, answered=NOON + n * DAY / 2, behind=9) for n in range(1, 9)
    ]

    manifest = stage([a_batch()], script(s0=steps), tmp_path)

    assert staged_of(manifest).rows == 8
    assert not staged_of(manifest).data_loss


def test_an_empty_answer_behind_the_tip_doesnt_move_the_witness(tmp_path: Path):
    """Only a record that was read, and an answer at the tip, prove that no record was lost."""
    old = NOON - timedelta(hours=20)
    steps = [a_page(6, arrival=old, behind=9), a_page(7, answered=NOON + timedelta(hours=10), behind=9)]

    manifest = stage([a_batch(after=5, witness=old)], script(s0=steps), tmp_path)

    assert staged_of(manifest).data_loss
    assert staged_of(manifest).upto.sequence == 6


def test_no_loss_is_reported_for_an_idle_shard_that_was_read_within_the_retention(tmp_path: Path):
    long_ago = Position(5, arrival=NOON - 30 * DAY, seen=NOON - DAY / 2)

    manifest = stage([a_batch(after=long_ago, witness=NOON - DAY / 2)], script(s0=[a_page(6)]), tmp_path)

    assert staged_of(manifest).error is None


def test_a_shard_that_left_kinesis_is_a_loss_of_its_unread_records(tmp_path: Path):
    manifest = stage([a_batch(after=5)], script(s0=[a_page(6, behind=9), DataLoss("it is gone")]), tmp_path)

    done = staged_of(manifest)
    assert (done.data_loss, done.error, done.upto.ended) == (True, "it is gone", False)
    assert done.upto.sequence == 6


# --- passing over a gap ------------------------------------------------------------------------------------

OLD_WITNESS = NOON - DAY - timedelta(hours=3)
SECOND = timedelta(seconds=1)


def a_batch_that_goes_on(after: Position | int | None = 5, *, witness: datetime = OLD_WITNESS) -> Batch:
    return replace(a_batch(after=after, witness=witness), goes_on=True)


def test_a_batch_that_may_pass_over_a_gap_reports_it_and_stages_the_records_that_are_left(tmp_path: Path):
    manifest = stage([a_batch_that_goes_on()], script(s0=[a_page(8, behind=9), a_page(9)]), tmp_path)

    done = staged_of(manifest)
    assert (done.error, done.data_loss) == (None, False)
    assert done.gap == Gap(OLD_WITNESS, NOON - DAY + SECOND)
    assert done.upto.sequence == 9


def test_empty_answers_at_trim_horizon_make_one_gap_that_grows(tmp_path: Path):
    later = NOON + timedelta(seconds=30)
    pages = script(s0=[a_page(behind=9), a_page(answered=later, behind=9), a_page(9, answered=later)])

    manifest = stage([a_batch_that_goes_on()], pages, tmp_path)

    assert staged_of(manifest).gap == Gap(OLD_WITNESS, later - DAY + SECOND)
    assert staged_of(manifest).upto.sequence == 9


def test_a_gap_after_staged_rows_ends_the_batch_and_is_left_to_the_next_one(tmp_path: Path):
    late = NOON + DAY + timedelta(seconds=1)
    steps = [a_page(6, behind=9), a_page(8, arrival=late, answered=late, behind=9)]

    manifest = stage([a_batch_that_goes_on(witness=NOON)], script(s0=steps), tmp_path)

    done = staged_of(manifest)
    assert (done.error, done.gap, done.upto.sequence, done.at_tip) == (None, None, 6, False)
    assert [number for _, number in rows_of(manifest)] == [6]


def test_an_end_after_a_gap_gives_its_children_no_later_witness(tmp_path: Path):
    manifest = stage(
        [a_batch_that_goes_on(Position(5, arrival=OLD_WITNESS))],
        script(s0=[a_page(children=("shardId-000000000001",))]),
        tmp_path,
    )

    done = staged_of(manifest)
    assert done.gap == Gap(OLD_WITNESS, NOON - DAY + SECOND)
    assert (done.upto.ended, done.upto.witness) == (True, OLD_WITNESS)
    read = stage(
        [a_batch_that_goes_on()], script(s0=[a_page(8, children=("shardId-000000000001",))]), tmp_path
    )
    assert staged_of(read).upto.witness == NOON, "a record of the shard that was read moves the witness"


def test_a_gap_that_a_person_accepted_is_passed_over_once(tmp_path: Path):
    accepted = Position(5, arrival=OLD_WITNESS, gap_accepted=True)

    manifest = stage([a_batch_that_goes_on(accepted)], script(s0=[a_page(9)]), tmp_path)

    assert not staged_of(manifest).upto.gap_accepted
    empty = stage([a_batch_that_goes_on(accepted)], script(s0=[a_page()]), tmp_path)
    assert not staged_of(empty).upto.gap_accepted


def test_a_batch_that_may_pass_over_a_gap_reports_none_if_there_is_none(tmp_path: Path):
    manifest = stage([a_batch_that_goes_on(witness=NOON)], script(s0=[a_page(6)]), tmp_path)

    assert staged_of(manifest).gap is None


# --- errors at one shard ------------------------------------------------------------------------------------


def test_records_that_were_read_before_an_error_still_land(tmp_path: Path):
    steps = [a_page(6, behind=9), Unreachable("Kinesis is away"), a_page(7)]

    manifest = stage([a_batch(after=5)], script(s0=steps), tmp_path)

    assert (staged_of(manifest).error, staged_of(manifest).data_loss) == ("Kinesis is away", False)
    assert staged_of(manifest).upto.sequence == 6
    assert [number for _, number in rows_of(manifest)] == [6]


def test_a_failing_shard_doesnt_delay_the_others(tmp_path: Path):
    pages = script(s0=[Unreachable("Kinesis is away")], s1=[a_page(1, key=a_key(1))])

    manifest = stage([a_batch(0), a_batch(1)], pages, tmp_path, threads=2)

    assert [each.error for each in manifest.staged] == ["Kinesis is away", None]
    assert manifest.files[0].shards == {a_key(1)}


def test_an_unexpected_error_is_reported_by_its_kind_without_its_text(tmp_path: Path):
    manifest = stage([a_batch()], script(s0=[ValueError("payload-canary")]), tmp_path)

    assert "unexpected ValueError" in (staged_of(manifest).error or "")
    assert "canary" not in (staged_of(manifest).error or "")


def test_a_missing_package_fails_the_whole_task(tmp_path: Path):
    with pytest.raises(ModuleNotFoundError):
        stage([a_batch()], script(s0=[ModuleNotFoundError("No module named 'x'", name="x")]), tmp_path)


def test_results_come_in_the_order_of_the_batches(tmp_path: Path):
    pages = script(**{f"s{n}": [a_page(1, key=a_key(n))] for n in range(6)})
    order = [3, 0, 5, 1, 4, 2]

    manifest = stage([a_batch(n) for n in order], pages, tmp_path, limits=ROOMY, threads=3)

    assert [each.key for each in manifest.staged] == [a_key(n) for n in order]
