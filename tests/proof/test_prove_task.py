"""What a Spark task of a proof counts, compared with a plain count in Python, for rows in any order and in pieces of any size."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.pipeline.core.ledger.live_files import LiveFile
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.proof import task as prove_task
from headrace.pipeline.proof import task_count as prove_count
from headrace.pipeline.proof.counts import overlaps
from headrace.pipeline.proof.spans import NOT_ASKED, CountPlan, FileCount, Overlap, Part, ShardSpans
from headrace.pipeline.proof.task import ProofSpec, count_rows, doubled_rows

IDS = tuple((name, number) for number, name in enumerate(prove_task._COLUMNS, start=1))
SHARDS = ("shardId-0", "shardId-1")
Row = tuple[str, int, int]
"""Shard, sequence number, sub-sequence number."""

numbers = st.integers(0, 60)
rows = st.lists(st.tuples(st.sampled_from([*SHARDS, "shardId-9"]), numbers, st.integers(0, 2)), max_size=40)
ends = st.lists(st.tuples(numbers, st.integers(0, 2)), min_size=1, max_size=5, unique=True).map(sorted)
wanted = st.lists(st.sampled_from([NOT_ASKED, 0, 1, 1, 2]), min_size=5, max_size=5)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def key(number: int, sub: int) -> str:
    digits = str(number) if number else ""
    return f"{len(digits):03}:{digits}:{sub:019}"


def write(path: Path, content: list[Row]) -> LiveFile:
    columns: list[Any] = [
        ["orders"] * len(content),
        [1] * len(content),
        [row[0] for row in content],
        [str(row[1]) for row in content],
        [row[2] for row in content],
    ]
    schema = pa.schema(
        pa.field(name, kind, metadata={"PARQUET:field_id": str(dict(IDS)[name])})
        for name, kind in prove_task._COLUMNS.items()
    )
    pq.write_table(pa.table(columns, schema=schema), path)
    return LiveFile(str(path), "2026-01-31", len(content), path.stat().st_size)


def spans(shard: str, cuts: list[tuple[int, int]], counts: list[int]) -> ShardSpans:
    texts = tuple(f"{key(number, sub)}:0" for number, sub in cuts)
    return ShardSpans("orders", 1, shard, texts, (0, *counts[: len(texts) - 1]))


def spec(folder: Path, *shards: ShardSpans) -> ProofSpec:
    return ProofSpec(StagingSpec(str(folder), IDS, private=False), shards)


def span_of(row: Row, shards: tuple[ShardSpans, ...]) -> tuple[int, int] | None:
    """The place of the shard and of the span; None where no row may be."""
    for place, shard in enumerate(shards):
        if shard.shard_id == row[0]:
            for span, (after, upto) in enumerate(pairwise(shard.ends), start=1):
                if after < key(*row[1:]) <= upto and shard.claims[span]:
                    return place, span
    return None


def counted(parts: tuple[Part, ...]) -> Iterator[tuple[tuple[int, int], int]]:
    for part in parts:
        yield (part.shard, part.span), part.rows


@given(
    content=rows,
    cuts=st.tuples(ends, ends),
    counts=st.tuples(wanted, wanted),
    piece=st.integers(1, 50),
    runs=st.integers(0, 5),
)
def test_a_task_counts_what_a_plain_count_finds(
    tmp_path_factory: pytest.TempPathFactory,
    content: list[Row],
    cuts: tuple[list[tuple[int, int]], list[tuple[int, int]]],
    counts: tuple[list[int], list[int]],
    piece: int,
    runs: int,
):
    folder = tmp_path_factory.mktemp("files")
    shards = tuple(spans(shard, c, n) for shard, c, n in zip(SHARDS, cuts, counts, strict=True))
    file = write(folder / "a.parquet", content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prove_task, "_PIECE", piece)
        patch.setattr(prove_count, "_MOST_RUNS", runs)
        found = count_rows(file, spec(folder, *shards))
    places = Counter(span_of(row, shards) for row in content)
    strangers = places.pop(None, 0)
    known = sum(n for (shard, span), n in places.items() if shards[shard].claims[span] == NOT_ASKED)  # type: ignore[misc]
    asked = Counter(
        {place: n for place, n in places.items() if shards[place[0]].claims[place[1]] != NOT_ASKED}  # type: ignore[index]
    )
    sums: Counter[tuple[int, int]] = Counter()
    for place, number in counted(found.parts):
        sums[place] += number
    assert (found.rows, found.strangers_count, found.known.rows) == (len(content), strangers, known)
    assert sums == asked
    assert found.all.rows == len(content) - strangers


@given(content=rows, other=rows, piece=st.integers(1, 50))
@example(content=[("shardId-0", 5, 0), ("shardId-0", 5, 0)], other=[], piece=1)
def test_each_record_that_is_there_twice_is_found(
    tmp_path_factory: pytest.TempPathFactory, content: list[Row], other: list[Row], piece: int
):
    """In one file or in two, in whatever order."""
    folder = tmp_path_factory.mktemp("files")
    shards = tuple(spans(shard, [(0, 0), (30, 1), (99, 0)], [1, 1]) for shard in SHARDS)
    files = [write(folder / "a.parquet", content), write(folder / "b.parquet", other)]
    how = spec(folder, *shards)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prove_task, "_PIECE", piece)
        counts = [count_rows(each, how) for each in files]
        found = [doubled_rows(each, how) for each in overlaps(CountPlan(shards, ()), counts)]
    there = Counter(row for row in [*content, *other] if span_of(row, shards))
    assert sum(each.count for each in found) == sum(times > 1 for times in there.values())


def test_a_digest_tells_other_records_and_other_shards_apart_but_not_another_order(folder: Path):
    shards = tuple(spans(shard, [(0, 0), (99, 0)], [1]) for shard in SHARDS)

    def digest(*content: Row) -> object:
        return count_rows(write(folder / "a.parquet", list(content)), spec(folder, *shards)).all

    first, second = SHARDS
    whole = digest((first, 1, 0), (first, 2, 0))
    assert digest((first, 2, 0), (first, 1, 0)) == whole
    others = [
        ((first, 1, 0), (first, 3, 0)),
        ((first, 1, 0), (second, 2, 0)),
        ((first, 1, 0), (first, 2, 1)),
        ((first, 1, 0),),
    ]
    assert all(digest(*each) != whole for each in others)


def test_files_of_an_engine_that_renamed_a_column_are_read_by_the_columns_ids(folder: Path):
    file = write(folder / "a.parquet", [("shardId-0", 5, 0)])
    found = pq.read_table(file.path)
    pq.write_table(
        found.rename_columns(["s", "e", "shard", "number", "sub"]).cast(
            pa.schema(
                field.with_name(name)
                for field, name in zip(found.schema, ["s", "e", "shard", "number", "sub"], strict=True)
            )
        ),
        file.path,
    )
    how = spec(folder, spans("shardId-0", [(0, 0), (9, 0)], [1]))
    (part,) = count_rows(file, how).parts
    assert part == Part(0, 1, 1, key(5, 0), key(5, 0), part.sum)


def test_only_the_keys_of_an_overlap_are_compared(folder: Path):
    file = write(
        folder / "a.parquet",
        [("shardId-0", 5, 0), ("shardId-0", 5, 0), ("shardId-0", 7, 0), ("shardId-0", 7, 0)],
    )
    how = spec(folder, spans("shardId-0", [(0, 0), (9, 0)], [1]))
    found = doubled_rows(Overlap(0, key(6, 0), key(8, 0), (file.path,)), how)
    assert (found.count, found.rows) == (1, ("orders/shardId-0 7 is there 2 times, in a.parquet",))


def test_a_count_that_failed_has_no_rows(folder: Path):
    file = LiveFile(str(folder / "none.parquet"), None, 3, 10)
    found = count_rows(file, spec(folder))
    assert found == FileCount(file.path, None, 3, error="the file is gone from the storage")
