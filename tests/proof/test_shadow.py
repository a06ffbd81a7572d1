"""The lake table beside another consumer's output: what is equal, and that each kind of difference is named."""

import base64
import csv
import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.pipeline.core.ledger.arrivals import ALL, Window
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, LedgerPage, Range
from headrace.pipeline.core.ledger.story import Story, story_of
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.errors import BadSetting, Unknown
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.proof.compare_spark import other_side
from headrace.pipeline.proof.other_side import ConsumerRows, OtherColumns, PayloadForm
from headrace.pipeline.proof.patterns import comparing
from headrace.pipeline.proof.ports import OtherSide
from headrace.pipeline.proof.shadow.compare import Shadowing
from headrace.pipeline.proof.shadow.other_rows import files_at
from headrace.pipeline.proof.shadow.other_table import files_of_table
from headrace.pipeline.proof.shadow.verdict import Shadow, compared_stream, plan_shadow
from headrace.pipeline.proof.spark import IcebergProof
from tests.lake.samples import NOON
from tests.memory.tasks import LocalTasks
from tests.proof.target_proofs import shuffled
from tests.typed.parsings import A, B, Bed, good

BIG = 49590338271490256608559692538361571095921575989136588898
COLUMNS = OtherColumns("shard_id", "sequence_number", None, "data", PayloadForm.BASE64)
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Bed:
    """Five records of two shards, and one on the day after."""
    bed = Bed(tmp_path_factory.mktemp("shadow"))
    bed.land(A, {1: good(1), 2: good(2)})
    bed.land(A, {BIG: good(3)})
    bed.land(B, {7: good(7), 8: b"\xff"})
    bed.land(B, {9: good(9)}, arrival=NOON + timedelta(days=1))
    return bed


def rows(*, but: Iterable[int] = ()) -> Rows:
    """What the other consumer has, each payload as base64."""
    of_a = [(A, 1, good(1)), (A, 2, good(2)), (A, BIG, good(3))]
    of_b = [(B, 7, good(7)), (B, 8, b"\xff"), (B, 9, good(9))]
    return [
        {"shard_id": key.shard_id, "sequence_number": number, "data": base64.b64encode(data).decode()}
        for key, number, data in (*of_a, *of_b)
        if number not in but
    ]


def as_json(there: Rows, path: Path) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in there))


def compared(
    bed: Bed, location: Path, columns: OtherColumns = COLUMNS, window: Window = ALL, table: str = ""
) -> Shadow:
    lake = bed.lake.handle()

    def other(stream: StreamId) -> OtherSide:
        return other_side(
            "theirs",
            partial(files_of_table, lake.catalog, table)
            if table
            else partial(files_at, str(location), lake.staging_spec()),
            lake.staging_spec,
            ConsumerRows(stream, columns),
            tasks=LocalTasks(bed.clock),
            shuffle=shuffled,
        )

    return Shadowing(
        table=IcebergProof(lake, LocalTasks(bed.clock)),
        lineage=IcebergLineage(lake),
        other_side=other,
        stream=None,
    ).run(window)


def wrong(shadow: Shadow) -> list[str]:
    return [text for check in shadow.checks for text in check.wrong]


def of_rows(bed: Bed, there: Rows, folder: Path, **how: Any) -> Shadow:
    as_json(there, folder / "theirs.jsonl")
    return compared(bed, folder, **how)


# --- forms of the other side ------------------------------------------------------------------------------------


def _csv(there: Rows, folder: Path) -> None:
    with (folder / "theirs.csv").open("w") as file:
        writer = csv.DictWriter(file, list(there[0]))
        writer.writeheader()
        writer.writerows(there)


def _parquet(there: Rows, folder: Path) -> None:
    texts = [{**row, "sequence_number": str(row["sequence_number"])} for row in there]
    pq.write_table(pa.Table.from_pylist(texts), folder / "part-0.parquet")
    (folder / "_SUCCESS").touch()


def as_json_in(there: Rows, folder: Path) -> None:
    as_json(there, folder / "theirs.jsonl")


def _packed(there: Rows, folder: Path) -> None:
    text = "\n".join(map(json.dumps, there)).encode()
    (folder / "theirs.jsonl.gz").write_bytes(gzip.compress(text))


@pytest.mark.parametrize("write", [_csv, _parquet, _packed])
def test_the_same_records_are_equal_in_each_form(
    bed: Bed, tmp_path: Path, write: Callable[[Rows, Path], None]
):
    write(rows(), tmp_path)
    shadow = compared(bed, tmp_path)
    assert (wrong(shadow), shadow.is_equal, shadow.same) == ([], True, 6)
    assert str(shadow).startswith("equal: 6 records of 2 shards are the same in theirs and in snapshot ")
    assert str(shadow).endswith("of the lake table, by number and payload")


def test_a_table_of_the_same_catalog_is_compared(bed: Bed, tmp_path: Path):
    catalog = bed.lake.handle().catalog
    there = pa.Table.from_pylist(
        [{**row, "sequence_number": str(row["sequence_number"])} for row in rows(but=[2])]
    )
    catalog.create_table("lake.theirs", there.schema).append(there)
    (told,) = wrong(compared(bed, tmp_path, table="lake.theirs"))
    assert told.startswith(f"{A} 2: only here")
    with pytest.raises(BadSetting, match="has no such table"):
        compared(bed, tmp_path, table="lake.nowhere")
    with pytest.raises(BadSetting, match="has no such table"):
        compared(bed, tmp_path, table="nowhere.theirs")
    for name in ("theirs", ".theirs", "lake."):
        with pytest.raises(BadSetting, match="allowed: a namespace and a name"):
            compared(bed, tmp_path, table=name)


def test_payloads_may_be_digests_or_left_out(bed: Bed, tmp_path: Path):
    there = rows()
    for row in there:
        row["data"] = hashlib.sha256(base64.b64decode(row["data"])).hexdigest()
    sha = replace(COLUMNS, form=PayloadForm.SHA256)
    assert of_rows(bed, there, tmp_path, columns=sha).is_equal
    there[0]["data"] = "0" * 64
    assert not of_rows(bed, there, tmp_path, columns=sha).is_equal
    shadow = of_rows(bed, there, tmp_path, columns=replace(COLUMNS, data=None))
    assert shadow.is_equal
    assert str(shadow).endswith("by number, without payloads")


# --- differences ------------------------------------------------------------------------------------------------


def test_a_record_that_is_only_here_is_named_with_its_range(bed: Bed, tmp_path: Path):
    (told,) = wrong(of_rows(bed, rows(but=[BIG]), tmp_path))
    assert told == (f"{A} {BIG}: only here, in the range after 2 up to {BIG} with 1 row here and 0 there")


def test_a_record_that_is_only_there_is_named(bed: Bed, tmp_path: Path):
    there = [*rows(), {**rows()[0], "sequence_number": 5}]
    shadow = of_rows(bed, there, tmp_path)
    (told,) = wrong(shadow)
    assert told.startswith(f"{A} 5: only there, in the range after 2 up to")
    assert str(shadow).startswith("NOT EQUAL: 1 difference; 6 records of 2 shards are the same")


def test_a_record_that_is_twice_there_is_named_also_if_it_is_in_two_files(bed: Bed, tmp_path: Path):
    as_json(rows()[:1], tmp_path / "again.json")
    (told,) = wrong(of_rows(bed, rows(), tmp_path))
    assert told.startswith(f"{A} 1: more than once there")


@pytest.mark.parametrize("data", [base64.b64encode(b"other").decode(), "no base64", None])
def test_other_bytes_are_named(bed: Bed, tmp_path: Path, data: str | None):
    there = rows()
    there[4]["data"] = data
    (told,) = wrong(of_rows(bed, there, tmp_path))
    assert told.startswith(
        f"{B} 8: other bytes there, in the range after the start up to 8 with 2 rows here and 2 there"
    )


def test_rows_in_no_landed_range_are_told_and_not_judged(bed: Bed, tmp_path: Path):
    later = {**rows()[0], "sequence_number": 10 * BIG}
    unknown = {**rows()[0], "shard_id": "shardId-9"}
    shadow = of_rows(bed, [*rows(), later, unknown], tmp_path)
    assert shadow.is_equal
    (told,) = shadow.left_out
    assert "2 rows of" in told
    assert f"{A} {10 * BIG}" in told
    assert "orders/shardId-9 1 (created" in told
    assert str(shadow).endswith("; NOT compared: 1 thing named above")


def test_a_time_leaves_other_ranges_out(bed: Bed, tmp_path: Path):
    shadow = of_rows(bed, rows(but=[9]), tmp_path, window=Window(until=NOON + timedelta(hours=1)))
    assert (shadow.is_equal, shadow.same) == (True, 5)
    assert not of_rows(bed, rows(but=[9]), tmp_path).is_equal


def test_nothing_in_common_is_not_equal(bed: Bed, tmp_path: Path):
    shadow = of_rows(bed, rows(), tmp_path, window=Window(since=NOON + timedelta(days=9)))
    assert not shadow.is_equal
    assert str(shadow).startswith("nothing to compare")


# --- what can't be compared -------------------------------------------------------------------------------------


def test_a_file_without_a_column_or_that_isnt_json_is_named(bed: Bed, tmp_path: Path):
    as_json(rows(), tmp_path / "good.jsonl")
    shadow = of_rows(bed, [{"shard_id": A.shard_id}], tmp_path)
    (told,) = wrong(shadow)
    assert "theirs.jsonl lacks a column that was named: 'sequence_number'" in told
    # Nothing is said of rows that weren't compared.
    assert [check.promise for check in shadow.checks] == ["each file of the other side can be read"]
    (tmp_path / "theirs.jsonl").write_text("{")
    (told,) = wrong(compared(bed, tmp_path))
    assert "theirs.jsonl can't be read" in told


@pytest.mark.parametrize("write", [as_json_in, _csv, _parquet, _packed])
@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (replace(COLUMNS, data="nope"), "--data is nope, and .* has no such column"),
        (replace(COLUMNS, number="nope"), "--number is nope"),
        (replace(COLUMNS, shard="nope"), "--shard is nope"),
        (replace(COLUMNS, sub="nope"), "--sub is nope"),
    ],
)
def test_a_column_that_isnt_there_is_refused_with_those_that_are(
    bed: Bed, tmp_path: Path, write: Callable[[Rows, Path], None], columns: OtherColumns, why: str
):
    write(rows(), tmp_path)
    with refused(f"{why}.*it has data, sequence_number, shard_id. Nothing was compared"):
        compared(bed, tmp_path, columns=columns)


@pytest.mark.parametrize("write", [as_json_in, _csv, _parquet])
def test_a_later_file_without_the_payloads_column_is_named_before_rows_are_compared(
    bed: Bed, tmp_path: Path, write: Callable[[Rows, Path], None]
):
    as_json(rows(), tmp_path / "first.jsonl")
    write([{name: row[name] for name in ("shard_id", "sequence_number")} for row in rows()], tmp_path)
    (told,) = wrong(compared(bed, tmp_path))
    assert "lacks a column that was named: 'data'" in told


def test_numbers_in_the_place_of_payloads_are_named(bed: Bed, tmp_path: Path):
    there = [{**row, "sequence_number": str(row["sequence_number"]), "data": 5} for row in rows()]
    pq.write_table(pa.Table.from_pylist(there), tmp_path / "part-0.parquet")
    (told,) = wrong(compared(bed, tmp_path))
    assert "the column data has values of the type int64, and payloads are bytes or texts" in told


def test_texts_in_the_place_of_sequence_numbers_are_named_once_and_not_row_by_row(bed: Bed, tmp_path: Path):
    (told,) = wrong(of_rows(bed, rows(), tmp_path, columns=replace(COLUMNS, number="data")))
    assert "the column data has 'eyJ" in told
    assert "and a sequence number has digits only" in told


@contextmanager
def refused(why: str) -> Iterator[None]:
    with pytest.raises((BadSetting, Unknown), match=why):
        yield


def test_places_without_readable_files_are_refused(bed: Bed, tmp_path: Path):
    with refused("there is no file and no folder"):
        compared(bed, tmp_path / "nowhere")
    (tmp_path / "_SUCCESS").touch()
    with refused("has no file whose name begins with another character than _ and"):
        compared(bed, tmp_path)
    (tmp_path / "theirs.txt").touch()
    with refused("has another ending than"):
        compared(bed, tmp_path)


def test_the_stream_is_the_newest_life_of_the_one_that_was_asked_for():
    arn = "arn:aws:kinesis:eu-west-1:000000000000:stream/"
    orders, others = [StreamId(f"{arn}orders", epoch) for epoch in (1, 2)], StreamId(f"{arn}others", 3)
    assert compared_stream(orders, None) == orders[1]
    assert compared_stream([*orders, others], "orders") == orders[1]
    with refused("allowed for --stream: orders, others"):
        compared_stream([*orders, others], None)
    with refused("no records of a stream 'x'"):
        compared_stream(orders, "x")


def test_a_recorded_gap_is_compared_and_a_range_that_a_kcl_worker_has_read_is_not():
    def story(kind: Kind) -> Story:
        gap = Range(kind, A, None, Position(10), run="r", claim="c")
        return story_of([LedgerEntry(1, 1, NOON, LedgerPage((gap,)))])

    assert not comparing(plan_shadow(story(Kind.SKIPPED), A.stream)).is_empty
    assert comparing(plan_shadow(story(Kind.FOREIGN), A.stream)).is_empty
