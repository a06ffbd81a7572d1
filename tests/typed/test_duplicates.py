"""Typed tables whose settings say `unique`, on real Iceberg: the same event is in the table once, and each row is accounted for."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.errors import Overtaken, Transient, WrongShape
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.settings.blocks.parse import UniqueSettings
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.typed.quarantine.redrive import Redriving
from headrace.pipeline.typed.source import IcebergSource
from headrace.pipeline.typed.tasks.duplicates import marked
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.live_table import IcebergLive
from tests.lake.merge_on_read import delete_rows
from tests.lake.samples import NOON
from tests.typed.parsings import BAD, A, B, Bed, Killed, good
from tests.upkeep.compactions import InProcess as InProcessRewriter

HOUR = timedelta(hours=1)


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    bed = Bed(tmp_path)
    bed.settings = replace(bed.settings, unique=UniqueSettings(by="id", within=HOUR))
    return bed


def events(bed: Bed) -> list[tuple[int | None, int]]:
    """The id and the sequence number of each row."""
    rows = read.rows(bed.typed(), ("id", "sequence_number")).to_pylist()
    return sorted(((row["id"], int(row["sequence_number"])) for row in rows), key=lambda pair: pair[1])


def told(bed: Bed) -> dict[str, int]:
    """What the ledgers say became of all rows."""
    found = {"rows": 0, "parsed": 0, "quarantined": 0, "duplicate": 0}
    for page in bed.typed().pages():
        for each in page.ranges:
            its = read_accounting(each.account)
            assert its.is_complete
            found["rows"] += its.rows
            found["parsed"] += its.parsed
            found["quarantined"] += its.quarantined
            found["duplicate"] += its.dropped.get("duplicate", 0)
    return found


def test_the_same_event_stays_once_within_a_wave_between_shards_and_between_waves(bed: Bed):
    bed.land(A, {10: good(1), 11: good(1), 12: good(2), 13: BAD})
    bed.land(B, {20: good(2), 21: good(3)}, arrival=NOON + timedelta(minutes=1))
    wave = bed.parsing().wave()
    assert (wave.landed, wave.aside, wave.dropped) == (3, 1, {"duplicate": 2})
    assert events(bed) == [(1, 10), (2, 12), (3, 21)]
    # Later waves: the same events through the other shard, within the window of the first ones and beyond it.
    bed.land(A, {30: good(3), 31: good(4)}, arrival=NOON + timedelta(minutes=50))
    bed.land(B, {40: good(2), 41: good(1)}, arrival=NOON + timedelta(minutes=61))
    assert bed.parsing().wave().dropped == {"duplicate": 1}
    assert events(bed)[3:] == [(4, 31), (2, 40), (1, 41)]
    assert told(bed) == {"rows": 10, "parsed": 6, "quarantined": 1, "duplicate": 3}


def test_the_row_that_was_parsed_first_stays_also_where_the_other_one_arrived_earlier(bed: Bed):
    bed.land(A, {10: good(1)}, arrival=NOON)
    bed.parsing().wave()
    bed.land(B, {5: good(1)}, arrival=NOON - HOUR)
    bed.land(B, {6: good(1)}, arrival=NOON - HOUR - timedelta(milliseconds=1))
    assert bed.parsing().wave().dropped == {"duplicate": 1}
    assert events(bed) == [(1, 6), (1, 10)]


def test_a_key_is_all_of_its_columns_and_a_null_is_equal_to_nothing(bed: Bed):
    bed.settings = replace(bed.settings, unique=UniqueSettings(by="id, name", within=HOUR))
    other, none, half = b'{"id": 1, "name": "other"}', b"{}", b'{"id": 1}'
    bed.land(A, {10: good(1), 11: other, 12: none, 13: half})
    bed.parsing().wave()
    bed.land(A, {20: other, 21: none, 22: half, 23: none})
    assert bed.parsing().wave().dropped == {"duplicate": 1}
    assert [number for _, number in events(bed)] == [10, 11, 12, 13, 21, 22, 23]


def test_only_files_within_the_window_are_read(bed: Bed):
    for n, hours in enumerate((0, 5, 5.5)):
        bed.land(A, {100 + n: good(1)}, arrival=NOON + hours * HOUR)
        bed.parsing().wave()
    assert [len(each.files) for each in bed.parser.compared] == [0, 0, 1]
    assert events(bed) == [(1, 100), (1, 101)]


@pytest.mark.parametrize("arrow", ["staged", "committed"])
def test_a_wave_that_was_killed_and_done_again_leaves_out_the_same_rows(bed: Bed, arrow: str):
    bed.land(A, {10: good(1), 11: BAD, 12: good(2)})
    bed.land(B, {20: good(1), 21: good(2)})
    with pytest.raises(Killed):
        bed.parsing(kill=arrow).wave()
    bed.land(B, {30: good(1)})
    bed.catch_up()
    # By arrival: the second record of each landing arrives a millisecond after the first, and 12 is a third one.
    assert events(bed) == [(1, 10), (2, 21)]
    assert told(bed) == {"rows": 6, "parsed": 2, "quarantined": 1, "duplicate": 3}


def overtaken(bed: Bed, act: Any) -> Any:
    """A wave of shard A. Before its commit, something else happens."""
    bed.land(A, {50: good(1)})
    return replace(bed.parsing(), on_step=lambda arrow: act() if arrow == "staged" else None)


def test_of_two_runs_that_parse_the_same_event_from_different_shards_one_compares_again(bed: Bed):
    def other_run() -> None:
        bed.land(B, {5: good(1)})
        assert bed.parsing(limits=WaveLimits(1, 2**30)).wave().landed == 1
        assert set(bed.typed().load().positions.shards) == {B}

    with pytest.raises(Transient, match="have to be compared"):
        overtaken(bed, other_run).wave()
    assert bed.parsing().wave().dropped == {"duplicate": 1}
    assert events(bed) == [(1, 5)]


def test_a_compaction_meanwhile_hinders_no_wave(bed: Bed):
    for n in range(10, 60, 10):
        bed.land(A, {n: good(n)})
        bed.parsing().wave()

    def compact() -> None:
        bed.clock.at += timedelta(hours=2)
        typed = bed.typed()
        done = Compacting(
            table=IcebergLive(typed),
            rewriter=lambda: InProcessRewriter(typed),
            settings=UpkeepSettings(),
            clock=bed.clock,
        ).run()
        assert len(done.done) == 1

    bed.land(B, {5: good(10), 6: good(7)})
    wave = replace(bed.parsing(), on_step=lambda arrow: compact() if arrow == "staged" else None).wave()
    assert (wave.landed, wave.dropped) == (1, {"duplicate": 1})
    # The rows of a compacted file are compared with as well.
    bed.land(B, {8: good(20)})
    assert bed.parsing().wave().dropped == {"duplicate": 1}


def test_a_record_that_a_redrive_mends_is_left_out_where_its_event_came_again(bed: Bed):
    bed.land(A, {10: BAD, 11: b"{{"})
    bed.parsing().wave()
    bed.land(A, {12: good(1)})
    bed.parsing().wave()
    bed.parser.fixes = {BAD: good(1), b"{{": good(2)}
    (portion,) = bed.redriving().portions()
    assert (portion.landed, portion.dropped, portion.aside) == (1, {"duplicate": 1}, 0)
    assert events(bed) == [(2, 11), (1, 12)]
    assert bed.set_aside() == []


def test_a_redrive_compares_again_where_a_wave_has_landed_rows_meanwhile(bed: Bed):
    bed.land(A, {10: BAD})
    bed.parsing().wave()
    bed.parser.fixes = {BAD: good(1)}

    def wave() -> None:
        bed.land(A, {11: good(1)})
        bed.parsing().wave()

    late = replace(bed.redriving(), on_step=lambda arrow: wave() if arrow == "staged" else None)
    assert [portion.dropped for portion in late.portions()] == [{"duplicate": 1}]
    assert events(bed) == [(1, 11)]


def beside_a_busy_run(bed: Bed, *, overtakes: int) -> tuple[Redriving, list[str]]:
    """A redrive of eight files with a row each. A busy run lands a wave during each of the first tries. Also returns the tries."""
    rows = {n: f"{{{n}".encode() for n in range(8)}
    for n, payload in rows.items():
        bed.land(A, {n + 10: payload})
        bed.parsing().wave()
    bed.parser.fixes = {payload: good(n) for n, payload in rows.items()}
    tries: list[str] = []

    def wave(arrow: str) -> None:
        if arrow == "staged":
            tries.append(arrow)
            if len(tries) <= overtakes:
                bed.land(B, {100 + len(tries): good(100 + len(tries))})
                bed.parsing().wave()

    return replace(bed.redriving(), on_step=wave), tries


def test_a_redrive_beside_a_busy_run_goes_on_in_smaller_portions(bed: Bed):
    redriving, tries = beside_a_busy_run(bed, overtakes=2)
    assert [portion.landed for portion in redriving.portions()] == [2, 2, 2, 2]
    assert len(tries) == 6
    bed.check()
    assert bed.set_aside() == []


def test_a_redrive_that_is_overtaken_each_time_ends_with_a_sentence(bed: Bed):
    redriving, tries = beside_a_busy_run(bed, overtakes=1000)
    with pytest.raises(
        Overtaken, match=r"have to be compared.*no row is lost or doubled; run the command again"
    ):
        list(redriving.portions())
    assert len(tries) == 10
    bed.check()
    assert len(bed.set_aside()) == 8


def test_rows_that_another_engine_has_deleted_by_a_delete_file_stop_the_comparison(bed: Bed):
    bed.land(A, {10: good(1), 11: good(2)})
    bed.parsing().wave()
    typed = bed.typed()
    (file,) = IcebergSource(typed).look().files
    delete_rows(typed.open(), file.path, 0)
    bed.land(A, {12: good(1)})
    with pytest.raises(WrongShape, match=r"can't be compared .* rewrite_data_files"):
        bed.parsing().wave()
    assert events(bed)[-1] == (2, 11)


# --- how rows are marked ----------------------------------------------------------------------------------------

_KINDS: dict[str, pa.DataType] = {
    "record": pa.int64(),
    "row": pa.int64(),
    "reason": pa.string(),
    "data": pa.binary(),
    "key_0": pa.string(),
    "key_1": pa.int64(),
    "arrival": pa.timestamp("us", tz="UTC"),
    "fresh": pa.bool_(),
}
SCHEMA = pa.schema(_KINDS)
START = datetime(2026, 1, 31, tzinfo=UTC)

rows = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]),
        st.sampled_from([None, 1, 2]),
        st.booleans(),
        st.integers(0, 12),
    ),
    max_size=25,
)


def naive(wave: list[dict[str, Any]], within: timedelta) -> list[bool]:
    """Row by row, against all rows that stay."""
    kept: list[dict[str, Any]] = [row for row in wave if not row["fresh"]]
    found: list[bool] = []
    for row in wave:
        key = (row["key_0"], row["key_1"])
        if not row["fresh"]:
            continue
        found.append(
            None not in key
            and any(
                key == (one["key_0"], one["key_1"]) and abs(row["arrival"] - one["arrival"]) <= within
                for one in kept
            )
        )
        if not found[-1]:
            kept.append(row)
    return found


@given(rows, st.integers(1, 5), st.integers(1, 8))
def test_rows_are_marked_the_same_however_they_are_cut_into_batches(
    drawn: list[tuple[str | None, int | None, bool, int]], hours: int, size: int
):
    made = [
        {"record": n, "key_0": one, "key_1": two, "fresh": fresh, "arrival": START + at * HOUR}
        for n, (one, two, fresh, at) in enumerate(drawn)
        if fresh or None not in (one, two)
    ]
    made.sort(
        key=lambda row: (
            json.dumps([row["key_0"], row["key_1"]]),
            row["fresh"],
            row["arrival"],
            row["record"],
        )
    )
    parts = [
        pa.RecordBatch.from_pylist(made[start : start + size], SCHEMA) for start in range(0, len(made), size)
    ]
    told = [
        mark.as_py() for batch in marked(parts, keys=2, within=hours * HOUR) for mark in batch["is_duplicate"]
    ]
    assert told == naive(made, hours * HOUR)
