"""Windows on real Iceberg that read from the stream what the lake table lacks: each record once, and nothing is lost in silence."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.ledger.arrivals import ALL, Window
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.errors import Transient, Unreachable, WrongShape, WrongStream
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.ports.pages import RecordPage
from headrace.pipeline.windows.make import Asked, Numbers, OfSnapshot
from headrace.pipeline.windows.windows import WindowRequest
from tests.proof.target_proofs import beside, changed, prove, removed, unproved, window_ports, wrong
from tests.typed.parsings import Killed, good
from tests.windows.unpackings import packed
from tests.windows.window_streams import StreamBed
from tests.windows.windows import SETTINGS

HOUR = 3600
DAY = 24 * HOUR


@pytest.fixture
def bed(tmp_path: Path) -> StreamBed:
    return StreamBed(tmp_path)


def with_a_gap(bed: StreamBed, kind: Kind = Kind.SKIPPED) -> list[int]:
    """Nine records: the three in the middle didn't land."""
    first = bed.land_put(3)
    middle = bed.put(3)
    bed.leave_out(kind, Position(middle[-1], inside=kind is Kind.FOREIGN))
    return [*first, *middle, *bed.land_put(3)]


@pytest.mark.parametrize("kind", [Kind.SKIPPED, Kind.FOREIGN])
def test_what_didnt_land_is_read_from_the_stream_and_the_rest_is_copied(bed: StreamBed, kind: Kind):
    numbers = with_a_gap(bed, kind)
    before = bed.lake.handle().load()
    window = bed.window_from_stream(ALL)
    assert window.missing == ()
    assert bed.copy(window) == ["3 rows copied", "3 rows read from the stream", "3 rows copied"]
    assert bed.numbers(window) == numbers
    assert bed.lake.handle().load() == before
    assert bed.copy(window) == ["nothing left to copy"]
    kinds = [(each.kind, each.rows) for each in bed.ledger(window)]
    assert kinds == [(Kind.COPIED, 3), (Kind.READ, 3), (Kind.COPIED, 3)]


def test_a_window_that_keeps_aggregates_reads_both_sides_of_a_checkpoint_inside_of_one(bed: StreamBed):
    """Another program has read the first user record of an aggregate, and a person has skipped the rest."""
    first = bed.land_put(1)
    (number, last) = bed.world.put(packed(1, 2, 3), packed(4, 5))
    bed.tick()
    bed.leave_out(Kind.FOREIGN, Position(number, inside=True))
    bed.leave_out(Kind.SKIPPED, Position(last))
    window = bed.window_from_stream(ALL)
    bed.keep_aggregates(window)
    assert bed.copy(window) == ["1 row copied", "1 row read from the stream", "3 rows read from the stream"]
    rows = read.rows(bed.table_of(window), ("sequence_number", "sub_sequence_number", "data")).to_pylist()
    found = sorted((int(r["sequence_number"]), r["sub_sequence_number"], r["data"]) for r in rows)
    assert found == [
        (first[0], 0, b"0"),
        *((number, sub, good(sub + 1)) for sub in range(3)),
        (last, 0, packed(4, 5)),
    ]
    assert prove(bed, lambda: window_ports(bed, window))[1].holds


def test_without_being_asked_to_no_window_reads_from_the_stream(bed: StreamBed):
    numbers = with_a_gap(bed)
    window = bed.window(ALL)
    assert "these records never landed" in window.missing[0]
    bed.copy(window)
    assert bed.numbers(window) == [*numbers[:3], *numbers[6:]]


def test_reading_ends_exactly_where_the_range_ends(bed: StreamBed):
    """The records after the skipped ones are in the same page of Kinesis, and haven't landed."""
    first = bed.land_put(2)
    later = bed.put(6)
    bed.leave_out(Kind.SKIPPED, Position(later[2]))
    window = bed.window_from_stream(ALL)
    bed.copy(window)
    assert bed.numbers(window) == [*first, *later[:3]]


def test_the_snapshot_of_a_skipped_range_is_enough_to_name_it(bed: StreamBed):
    numbers = with_a_gap(bed)
    entries = list(bed.windowing().lineage.entries())
    skipped = next(e for e in entries if e.page.ranges and e.page.ranges[0].kind is Kind.SKIPPED)  # type: ignore[union-attr]
    window = bed.window_from_stream(OfSnapshot(skipped.snapshot))
    bed.copy(window)
    assert bed.numbers(window) == numbers[3:6]


def test_a_window_that_begins_within_such_a_range_takes_it_from_its_beginning(bed: StreamBed):
    numbers = with_a_gap(bed)
    window = bed.window_from_stream(Numbers("shardId-000000000000", numbers[4], numbers[7]))
    bed.copy(window)
    assert bed.numbers(window) == numbers[3:8]


def test_a_window_that_ends_within_such_a_range_reads_no_further(bed: StreamBed):
    numbers = with_a_gap(bed)
    window = bed.window_from_stream(Numbers("shardId-000000000000", numbers[1], numbers[4]))
    bed.copy(window)
    assert bed.numbers(window) == numbers[1:5]


def test_a_foreign_end_is_read_to_the_end_and_the_child_comes_after_it(bed: StreamBed):
    first = bed.land_put(2)
    last = bed.put(3)
    bed.world.split()
    children = [shard.shard_id for shard in bed.source().list_shards(bed.world.stream) if shard.parents]
    bed.leave_out(Kind.FOREIGN, Position(first[-1], ended=True, children=tuple(children)))
    after = bed.put(2)
    shard = next(
        n for n in (1, 2) if bed.world.client.get_records(
            ShardIterator=bed.world.client.get_shard_iterator(
                StreamName="orders", ShardId=bed.world.key(n).shard_id, ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
        )["Records"]
    )  # fmt: skip
    bed.land(
        bed.world.key(shard),
        dict.fromkeys(after, b"0"),
        parents=[bed.world.key().shard_id],
        arrival=bed.tick(),
    )
    window = bed.window_from_stream(ALL)
    bed.copy(window)
    assert [(s, n) for s, _, n, _ in bed.copied(window)] == [
        *((bed.world.key().shard_id, n) for n in [*first, *last]),
        *((bed.world.key(shard).shard_id, n) for n in after),
    ]
    order = [(each.kind, each.key.shard_id) for each in bed.ledger(window) if each.rows]
    assert order[-1] == (Kind.COPIED, bed.world.key(shard).shard_id)
    assert prove(bed, lambda: window_ports(bed, window))[1].holds
    assert bed.copy(window) == ["nothing left to copy"]


@pytest.mark.parametrize("asked", [ALL, Numbers("shardId-000000000000", 1)])
def test_records_from_before_an_application_that_began_at_latest_are_read(tmp_path: Path, asked: Asked):
    bed = StreamBed(tmp_path, older=4)
    numbers = [*bed.older, *bed.land_put(3), *bed.land_put(2)]
    window = bed.window_from_stream(asked)
    assert (window.missing, window.rows) == ((), 2)
    assert bed.copy(window) == ["7 rows read from the stream", "2 rows copied"]
    assert bed.numbers(window) == numbers
    assert prove(bed, lambda: window_ports(bed, window))[1].holds
    bed.copy(window := bed.window(ALL))
    assert bed.numbers(window) == numbers[4:]


def test_a_time_before_an_application_began_is_in_reach(tmp_path: Path):
    bed = StreamBed(tmp_path, older=4)
    began = bed.clock.at
    bed.tick(HOUR)
    bed.land_put(3)
    bed.tick(HOUR)
    bed.land_put(3)
    window = bed.window_from_stream(Window(None, began))
    bed.copy(window)
    assert bed.numbers(window)[:4] == bed.older
    assert len(bed.numbers(window)) == 7, "a range is taken as a whole"


def test_an_application_that_began_longer_ago_than_the_retention_has_no_older_record_in_reach(tmp_path: Path):
    bed = StreamBed(tmp_path, older=4)
    numbers = bed.land_put(3)
    bed.tick(2 * DAY)
    window = bed.window_from_stream(ALL)
    assert bed.copy(window) == ["3 rows copied"]
    assert bed.numbers(window) == numbers


@pytest.mark.parametrize("arrow", ["begun", "planned", "staged", "committed"])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_run_that_is_killed_at_any_arrow_loses_and_doubles_nothing(bed: StreamBed, arrow: str, after: int):
    numbers = with_a_gap(bed)
    window = bed.window_from_stream(Numbers("shardId-000000000000", numbers[1]))
    left = after

    def stop(now: str) -> None:
        nonlocal left
        if now == arrow:
            if not left:
                raise Killed(now)
            left -= 1

    if arrow == "begun" and after:
        bed.copy(window, at=stop)
    else:
        with pytest.raises(Killed):
            bed.copy(window, at=stop, records=1)
    bed.copy(window)
    assert bed.numbers(window) == numbers[1:]


def test_waves_from_the_stream_end_at_their_limits(bed: StreamBed):
    first, skipped = bed.land_put(1), [n for _ in range(3) for n in bed.put_large(5)]
    bed.leave_out(Kind.SKIPPED, Position(skipped[-1]))
    window = bed.window_from_stream(ALL)
    told = bed.copy(window, records=2)
    assert len(told) > 2
    assert bed.numbers(window) == [*first, *skipped]


@pytest.mark.parametrize("arrow", ["planned", "staged"])
def test_of_two_runs_at_once_one_lands_what_was_read(bed: StreamBed, arrow: str):
    numbers = with_a_gap(bed)
    window = bed.window_from_stream(ALL)
    assert str(bed.replaying(window).wave()) == "3 rows copied"

    def second_run(now: str) -> None:
        if now == arrow:
            bed.copy(window)

    with pytest.raises(Transient, match="another run has copied records"):
        bed.replaying(window, at=second_run).wave()
    assert bed.numbers(window) == numbers


def test_a_run_isnt_told_to_go_on_where_records_cant_be_the_streams(bed: StreamBed):
    with_a_gap(bed)
    window = bed.window_from_stream(ALL)
    bed.replaying(window).wave()

    def clock_goes_back() -> None:
        bed.clock.at -= timedelta(hours=3)

    bed.on_stage = clock_goes_back
    with pytest.raises(WrongStream, match=r"a record arrived at .* Nothing of this range was committed"):
        bed.replaying(window).wave()


class Unanswered:
    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        raise Unreachable("Kinesis could not be reached")


def test_a_window_isnt_done_where_another_run_reads_while_this_one_plans(bed: StreamBed):
    """What comes next in the window is to be copied, and this run has only looked for what is to be read."""
    older = bed.put(2)
    bed.leave_out(Kind.SKIPPED, Position(older[-1]))
    numbers = [*older, *bed.land_put(2)]
    window = bed.window_from_stream(ALL)
    other = bed.replaying(window).waves()

    def read_by_another_run(arrow: str) -> None:
        if arrow == "planned" and not bed.ledger(window):
            next(other)

    with pytest.raises(Transient, match="another run has copied records"):
        bed.copy(window, at=read_by_another_run)
    assert not bed.windowing().find(window.id).is_done
    bed.copy(window)
    assert bed.windowing().find(window.id).is_done
    assert bed.numbers(window) == numbers


def test_a_shard_that_fails_fails_the_run_and_the_next_run_goes_on(bed: StreamBed):
    numbers = with_a_gap(bed)
    window = bed.window_from_stream(ALL)
    bed.replaying(window).wave()
    pages, bed.pages = bed.pages, Unanswered
    with pytest.raises(Transient, match=r"could not be reached\. Other records .* run the window again"):
        bed.replaying(window).wave()
    assert bed.numbers(window) == numbers[:3]
    bed.pages = pages
    bed.copy(window)
    assert bed.numbers(window) == numbers


# --- what is out of reach -----------------------------------------------------------------------------------------


def test_records_that_have_left_the_stream_are_told_before_anything_is_read(bed: StreamBed):
    numbers = with_a_gap(bed)
    bed.tick(2 * DAY)
    window = bed.window_from_stream(ALL)
    (missing,) = window.missing
    assert (
        "these records never landed (a reason); the records have left the stream, which keeps records for 24 h"
        in missing
    )
    assert bed.copy(window) == ["6 rows copied"]
    assert bed.numbers(window) == [*numbers[:3], *numbers[6:]]


def half_trimmed(bed: StreamBed) -> tuple[list[int], list[int], list[int]]:
    """Skipped records, of which the first three leave the stream earlier."""
    first, early = bed.land_put(1), bed.put(3)
    bed.tick(12 * HOUR)
    late = bed.put(3)
    bed.leave_out(Kind.SKIPPED, Position(late[-1]))
    return first, early, late


def test_of_a_range_that_has_left_the_stream_in_part_the_rest_is_read_and_the_loss_is_told(bed: StreamBed):
    first, _, late = half_trimmed(bed)
    bed.tick(18 * HOUR)
    window = bed.window_from_stream(ALL)
    (missing,) = window.missing
    assert "may have left the stream" in missing
    notes = [note for wave in bed.replaying(window).waves() for note in wave.notes]
    assert bed.numbers(window) == [*first, *late]
    assert len(notes) == 1
    assert "may have left the stream before they were read" in notes[0]
    (read,) = [each for each in bed.ledger(window) if each.kind is Kind.READ]
    assert notes[0].endswith(read.why)
    assert list(bed.replaying(window).losses()) == notes
    (told,) = unproved(prove(bed, lambda: window_ports(bed, window))[1])
    assert told.endswith(read.why)


def test_records_that_leave_the_stream_after_the_window_was_made_are_told_by_the_run(bed: StreamBed):
    first, _, late = half_trimmed(bed)
    window = bed.window_from_stream(ALL)
    assert window.missing == ()
    bed.tick(18 * HOUR)
    notes = [note for wave in bed.replaying(window).waves() for note in wave.notes]
    assert len(notes) == 1
    assert bed.numbers(window) == [*first, *late]


def test_where_all_has_left_the_stream_since_then_the_run_tells_it_and_ends(bed: StreamBed):
    first, _, _ = half_trimmed(bed)
    window = bed.window_from_stream(ALL)
    bed.tick(3 * DAY)
    notes = [note for wave in bed.replaying(window).waves() for note in wave.notes]
    assert len(notes) == 1
    assert bed.numbers(window) == first
    assert bed.copy(window) == ["nothing left to copy"]


def recreate(bed: StreamBed) -> None:
    bed.world.client.delete_stream(StreamName="orders")
    bed.tick(60)
    bed.world.client.create_stream(StreamName="orders", ShardCount=1)
    bed.put(5)


def test_a_stream_that_was_created_again_is_out_of_reach(bed: StreamBed):
    numbers = with_a_gap(bed)
    recreate(bed)
    window = bed.window_from_stream(ALL)
    assert "the stream was deleted since, or created again" in window.missing[0]
    bed.copy(window)
    assert bed.numbers(window) == [*numbers[:3], *numbers[6:]]


@pytest.mark.parametrize("arrow", ["", "planned"])
def test_of_a_stream_that_is_created_again_meanwhile_nothing_lands(bed: StreamBed, arrow: str):
    numbers = with_a_gap(bed)
    window = bed.window_from_stream(ALL)
    bed.replaying(window).wave()
    if not arrow:
        recreate(bed)
    bed.on_stage = (lambda: recreate(bed)) if arrow else bed.on_stage
    with pytest.raises(WrongShape, match="created again"):
        bed.replaying(window).wave()
    assert bed.numbers(window) == numbers[:3]


def test_days_that_the_retention_removes_are_read_from_the_stream_as_long_as_it_has_them(bed: StreamBed):
    bed.world.client.increase_stream_retention_period(StreamName="orders", RetentionPeriodHours=168)
    numbers = bed.land_put(3)
    bed.tick(3 * DAY)
    numbers += bed.land_put(3)
    settings = replace(SETTINGS, upkeep=replace(SETTINGS.upkeep, retention=timedelta(days=1)))
    window = bed.windowing(settings).create(WindowRequest(ALL, how="a test", from_stream=True))
    assert (window.missing, window.rows) == ((), 3)
    assert bed.copy(window) == ["3 rows read from the stream", "3 rows copied"]
    assert bed.numbers(window) == numbers
    assert prove(bed, lambda: window_ports(bed, window))[1].holds


def test_a_proof_of_the_windows_table_accepts_what_was_read_and_finds_what_is_missing(bed: StreamBed):
    numbers = with_a_gap(bed)
    window = bed.window_from_stream(ALL)
    bed.copy(window)
    _, table = prove(bed, lambda: window_ports(bed, window))
    assert (wrong(table), unproved(table)) == ([], [])
    assert table.counts == "6 rows copied, and 3 rows read from the stream that the lake table needn't have"
    with removed(bed.table_of(window), numbers[4]):
        missing = wrong(prove(bed, lambda: window_ports(bed, window), anew=True)[1])
    assert "the ledger states 3 rows, and 2 are in" in missing[-1]
    with changed(bed.table_of(window), numbers[4], beside(numbers[5])):
        twice = wrong(prove(bed, lambda: window_ports(bed, window), anew=True)[1])
    assert any(f"{numbers[5]}: 2 times in {table.name}" in text for text in twice)
