"""What is left of a wave's manifest if some of its shards can't be committed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.ledger.batch import Manifest, Staged, StagedFile
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 17)
KEYS = [ShardKey(STREAM, f"shardId-{n:012d}") for n in range(6)]


def a_file(shards: frozenset[ShardKey]) -> StagedFile:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return StagedFile("/x", shards, 1, 1, footer=b"", partition="2026-01-01", staged_at=at)


SOME_SHARDS = st.frozensets(st.sampled_from(KEYS))
FILES = st.lists(SOME_SHARDS.filter(bool).map(a_file), max_size=5)


@given(files=FILES, named=SOME_SHARDS)
def test_no_file_and_no_shard_lands_in_part(files: list[StagedFile], named: frozenset[ShardKey]) -> None:
    whole = Manifest(tuple(Staged(key, None, Position()) for key in KEYS), tuple(files))
    left, shared = whole.without(named)
    out = named | shared
    assert not shared & named
    assert {staged.key for staged in left.staged} == set(KEYS) - out
    assert all(not file.shards & out for file in left.files)
    assert all(file.shards <= out for file in files if file not in left.files)
    for key in shared:
        assert any(key in file.shards and file.shards & (out - {key}) for file in files)


@pytest.mark.parametrize("order", [1, -1])
def test_a_shard_that_is_left_out_takes_others_along_over_any_number_of_shared_files(order: int) -> None:
    """As where of several streams one was created anew during the wave, and the shards of the others share files in a chain."""
    chain = [a_file(frozenset(KEYS[n : n + 2])) for n in range(4)][::order]
    whole = Manifest(
        tuple(Staged(key, None, Position()) for key in KEYS), (*chain, a_file(frozenset(KEYS[5:])))
    )
    left, shared = whole.without([KEYS[0]])
    assert shared == frozenset(KEYS[1:5])
    assert [staged.key for staged in left.staged] == KEYS[5:]
    assert [file.shards for file in left.files] == [frozenset(KEYS[5:])]


def test_leaving_out_no_shard_changes_nothing() -> None:
    whole = Manifest((Staged(KEYS[0], None, Position()),), (a_file(frozenset(KEYS)),))
    assert whole.without([]) == (whole, frozenset())
