"""What the summary says about a table whose ledger or files disagree with each other or with Kinesis."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.pipeline.core.ledger.ledger import Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.demo.evidence import DemoEvidence, File, NumberedRow, SnapshotLedger, Typed, id_in
from headrace.pipeline.demo.home import FIRST, NEW_COLUMN, SECOND, TYPED
from headrace.pipeline.demo.reading import read_evidence, read_puts, read_shards, read_typed, the_table
from headrace.pipeline.demo.verdict import judge
from tests.demo.homes import CHILD, OTHER, PARENT, a_home


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> DemoEvidence:
    home = a_home(tmp_path_factory.mktemp("home"))
    return read_evidence(the_table(home.lake), read_puts(home.puts), read_shards(home.shards))


def with_ranges(evidence: DemoEvidence, change: Callable[[Range], Range | None]) -> DemoEvidence:
    pages = [
        SnapshotLedger(p.snapshot, tuple(r for each in p.ranges if (r := change(each))))
        for p in evidence.pages
    ]
    return replace(evidence, pages=tuple(pages))


def wrong(evidence: DemoEvidence) -> dict[str, tuple[str, ...]]:
    return {finding.name: finding.wrong for finding in judge(evidence).findings if finding.wrong}


def test_a_correct_table_has_no_faults(good: DemoEvidence):
    assert wrong(good) == {}
    assert judge(good).matches


def test_a_hole_in_a_chain_of_ranges_is_named_with_its_snapshot(good: DemoEvidence):
    def with_a_gap(r: Range) -> Range:
        return replace(r, after=Position(12)) if r.key == PARENT and r.after else r

    (sentence,) = wrong(with_ranges(good, with_a_gap))["broken chains"]
    assert sentence.startswith(f"{PARENT.shard_id}: snapshot {good.pages[2].snapshot} goes on from 12")


def test_a_record_that_was_parsed_twice_or_neither_parsed_nor_set_aside_is_named(good: DemoEvidence):
    ids = [str(row.id) for _, row in good.rows]
    again = tuple(put.id for put in good.puts.values() if put.shard_id == PARENT.shard_id)
    whole = replace(good, typed=Typed(tuple(ids[2:]), ((ids[0], "no number"), (ids[1], "no number")), again))
    assert judge(whole).matches
    assert judge(whole).findings[-3].looked_at == f"{len(ids) - 2} rows, 2 set aside: no number"
    lacking = replace(good, typed=Typed((*ids[2:], ids[2]), ((ids[0], "no number"),), again))
    assert wrong(lacking)["wrongly parsed"] == (
        f"{ids[1]} landed 1 time, and is 0 times in the typed table and its quarantine",
        f"{ids[2]} landed 1 time, and is 2 times in the typed table and its quarantine",
    )


def test_a_record_of_the_window_without_one_new_row_and_a_new_row_of_another_record_are_named(
    good: DemoEvidence,
):
    ids = tuple(str(row.id) for _, row in good.rows)
    window = tuple(put.id for put in good.puts.values() if put.shard_id == PARENT.shard_id)
    other = next(put.id for put in good.puts.values() if put.shard_id == OTHER.shard_id)
    whole = replace(good, typed=Typed(ids, (), window))
    assert judge(whole).matches
    assert judge(whole).findings[-1].looked_at == f"7 rows; the window has the records of {PARENT.shard_id}"
    damaged = replace(good, typed=Typed(ids, (), (*window[1:], window[1], other)))
    assert wrong(damaged) == {
        "wrongly replayed": (
            f"{window[0]} is in the window 1 time, and has 0 rows of the second version of the schema",
            f"{window[1]} is in the window 1 time, and has 2 rows of the second version of the schema",
            f"{other} is outside of the window, and has 1 row of the second version of the schema",
        )
    }
    assert not judge(replace(good, typed=Typed(ids, (), ()))).matches


def test_rows_that_were_parsed_again_are_known_by_the_new_column_and_in_quarantine_by_the_version(
    tmp_path: Path,
):
    catalog = the_table(tmp_path).catalog
    catalog.create_namespace("lake")

    def a_table(name: str, rows: list[dict[str, Any]]) -> None:
        content = pa.Table.from_pylist(rows)
        catalog.create_table(name, schema=content.schema).append(content)

    a_table(TYPED, [{"id": "r1", NEW_COLUMN: None}, {"id": "r2", NEW_COLUMN: "shop-1"}])
    aside = {"data": b'{"id": "r3"}', "reason": "no number"}
    a_table(
        f"{TYPED}_quarantine",
        [{**aside, "version": FIRST.version}, {**aside, "data": b'{"id": "r4"}', "version": SECOND.version}],
    )
    assert read_typed(tmp_path) == Typed(
        ("r1", "r2"), (("r3", "no number"), ("r4", "no number")), ("r2", "r4")
    )


def test_a_closed_shard_without_its_end_is_named(good: DemoEvidence):
    def without_an_end(r: Range) -> Range:
        return replace(r, upto=replace(r.upto, ended=False)) if r.key == OTHER else r

    found = wrong(with_ranges(good, without_an_end))
    assert found["broken chains"][0].startswith(
        f"{OTHER.shard_id} is closed, but the ledger has no end of it"
    )
    assert found["early children"] == (
        f"{CHILD.shard_id} began in snapshot {good.pages[3].snapshot}, before its parent {OTHER.shard_id} had ended",
    )


def test_a_child_that_landed_before_its_parents_had_ended_is_named(good: DemoEvidence):
    first, early, late, child = good.pages
    swapped = replace(good, pages=(first, early, child, late))
    assert [sentence.split(",")[0] for sentence in wrong(swapped)["early children"]] == [
        f"{CHILD.shard_id} began in snapshot {child.snapshot}"
    ] * 2


def test_a_child_is_judged_by_the_parents_that_kinesis_lists_not_by_those_in_its_range(good: DemoEvidence):
    def with_one_parent(r: Range) -> Range:
        return replace(r, parents=r.parents[:1])

    (sentence,) = wrong(with_ranges(good, with_one_parent))["early children"]
    assert sentence.endswith(f"doesn't name its parent {OTHER.shard_id}")


def test_rows_whose_range_is_missing_in_the_ledger_are_named(good: DemoEvidence):
    found = wrong(with_ranges(good, lambda r: None if r.key == CHILD else r))
    assert len(found["ledger errors"]) == 6
    assert "is outside of that snapshot's range, but the ledger has none" in found["ledger errors"][0]


def test_files_of_a_shard_that_overlap_are_out_of_order(good: DemoEvidence):
    """The rows within each file are in order."""
    parents = [file for file in good.files if file.rows[0].shard_id == PARENT.shard_id]
    one, two = sorted(parents, key=lambda file: file.rows[0].sequence)
    files = (replace(one, snapshot=two.snapshot), replace(two, snapshot=one.snapshot))
    sentences = wrong(replace(good, files=files))["out of order"]
    assert len(sentences) == 2
    assert "which an earlier file holds" in sentences[0]


def test_files_may_be_listed_in_any_order(good: DemoEvidence):
    assert wrong(replace(good, files=good.files[::-1])) == {}


def test_a_file_of_a_snapshot_without_a_ledger_is_named(good: DemoEvidence):
    files: tuple[File, ...] = (*good.files[1:], replace(good.files[0], snapshot=1))
    assert any("of snapshot 1 is outside" in s for s in wrong(replace(good, files=files))["ledger errors"])


@pytest.mark.parametrize("data", [None, b"", b"[]", b"{}", b'{"id": 7}', b"\xff\xfe", b"{"])
def test_a_payload_without_an_id_has_none(data: bytes | None):
    assert id_in(data) is None


def test_a_record_that_the_processor_got_twice_not_at_all_or_out_of_order_is_named(good: DemoEvidence):
    ids = {
        key: [put.id for put in good.puts.values() if put.shard_id == key.shard_id]
        for key in (PARENT, OTHER, CHILD)
    }

    def processed(change: Callable[[list[str]], list[str]]) -> DemoEvidence:
        numbered = {key: change(names) if key == OTHER else names for key, names in ids.items()}
        rows = (
            NumberedRow(key.shard_id, n, name)
            for key, names in numbered.items()
            for n, name in enumerate(names, 1)
        )
        return replace(good, processed=tuple(rows))

    assert judge(processed(lambda names: names)).matches
    six = wrong(processed(lambda names: names[:-1]))["wrongly processed"]
    assert six == (f"{OTHER.shard_id}: the processor numbered 6 records up to 6, and 7 have landed",)
    assert wrong(processed(lambda names: [*names, names[0]]))["wrongly processed"]
    swapped = wrong(processed(lambda names: [names[1], names[0], *names[2:]]))["wrongly processed"]
    assert swapped[0] == f"{OTHER.shard_id}: the processor's record 1 is r21, and the shard's is r20"
