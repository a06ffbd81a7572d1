"""Hypothesis strategies for the values of core, within the limits of Kinesis and KCL."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.ledger import ACCOUNTED, Kind, LedgerPage, ParentIs, ParentReason, Range
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.position import Origin, Position, Positions, Start
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

NAMES = st.text("abcXYZ019_.-", min_size=1, max_size=12)
SEQUENCES = st.integers(0, 10**129 - 1) | st.integers(0, 50) | st.integers(10**55, 10**55 + 50)
SUB_SEQUENCE_NUMBERS = st.integers(0, 3) | st.integers(0, 2**31)
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
MOMENTS = st.integers(0, 8_000 * 365 * 86_400_000 // 2).map(lambda ms: EARLIEST + timedelta(milliseconds=ms))
"""Times in whole milliseconds, as Kinesis gives them."""

SHARD_IDS = st.integers(0, 10**12 - 1).map("shardId-{:012d}".format) | NAMES
STREAMS = st.builds(
    lambda name, epoch: StreamId(f"arn:aws:kinesis:eu-west-1:123456789012:stream/{name}", epoch),
    NAMES,
    st.integers(1, 2**33),
)
KEYS = st.builds(ShardKey, STREAMS, SHARD_IDS)

WORD_CHECKPOINTS = st.sampled_from(["AT_TIMESTAMP", "TRIM_HORIZON", "LATEST", "SHARD_END"])
DIGITS = SEQUENCES.map(str) | st.text("0123456789", min_size=1, max_size=20)
CHECKPOINTS = st.builds(Checkpoint, WORD_CHECKPOINTS | DIGITS, SUB_SEQUENCE_NUMBERS)

STARTS = st.builds(Start, st.none() | MOMENTS)
ORIGINS = st.builds(Origin, STARTS, MOMENTS)
POSITIONS = st.builds(
    Position,
    st.none() | SEQUENCES,
    SUB_SEQUENCE_NUMBERS,
    ended=st.booleans(),
    children=st.lists(SHARD_IDS, max_size=2).map(tuple),
    arrival=st.none() | MOMENTS,
    seen=st.none() | MOMENTS,
    start=st.none() | STARTS,
    gap_accepted=st.booleans(),
    inside=st.booleans(),
    skipped_until=st.none() | MOMENTS,
)


@st.composite
def table_positions(draw: st.DrawFn) -> Positions:
    """What the lake table knows of a few streams: their origins, and the positions of their shards."""
    shards = draw(st.dictionaries(KEYS, POSITIONS, max_size=6))
    origins = draw(st.dictionaries(STREAMS, ORIGINS, max_size=3))
    return Positions(origins, shards)


PARENTS = st.builds(ParentReason, SHARD_IDS, st.sampled_from(ParentIs), st.none() | SHARD_IDS)
RANGES = st.builds(
    Range,
    st.sampled_from(Kind),
    KEYS,
    after=st.none() | POSITIONS,
    upto=POSITIONS,
    run=NAMES,
    claim=NAMES,
    rows=st.integers(0, 2**40),
    bytes=st.integers(0, 2**50),
    first_arrival=st.none() | MOMENTS,
    last_arrival=st.none() | MOMENTS,
    files=st.lists(NAMES, max_size=3, unique=True).map(tuple),
    parents=st.lists(PARENTS, max_size=2).map(tuple),
    why=st.text(max_size=10),
    records=st.integers(0, 2**40),
    unpacked=st.booleans(),
).map(lambda drawn: replace(drawn, why="", account=drawn.why) if drawn.kind in ACCOUNTED else drawn)
PAGES = st.builds(
    LedgerPage,
    st.lists(RANGES, max_size=4).map(tuple),
    st.lists(st.tuples(STREAMS, ORIGINS), max_size=2).map(tuple),
    st.lists(KEYS, max_size=3).map(tuple),
)

HASH_RANGES = st.tuples(st.integers(0, MAX_HASH_KEY), st.integers(0, MAX_HASH_KEY)).map(
    lambda pair: HashRange(min(pair), max(pair))
)
_TEXTS = st.none() | st.text(min_size=1, max_size=10)
LEASES = st.builds(
    Lease,
    st.text(min_size=1, max_size=20),
    st.integers(0, 10**15),
    CHECKPOINTS,
    owner=_TEXTS,
    checkpoint_owner=_TEXTS,
    owner_switches=st.integers(0, 10**6),
    pending=st.none() | CHECKPOINTS,
    pending_state=st.none() | st.binary(min_size=1, max_size=20),
    parents=st.frozensets(SHARD_IDS, max_size=2),
    children=st.frozensets(SHARD_IDS, max_size=2),
    hash_range=st.none() | HASH_RANGES.filter(lambda r: r.start < r.end),
    throughput_kbps=st.none() | st.floats(0, 10**6).map(lambda x: round(x, 6)),
    stream=_TEXTS,
    shard=_TEXTS,
    stream_epoch=st.none() | st.integers(1, 2**33),
    run_claim=_TEXTS,
    wanted_by=_TEXTS,
    landed=st.none() | CHECKPOINTS,
    looked_at=st.none() | MOMENTS,
    behind_ms=st.none() | st.integers(0, 10**12),
    assigned_at=st.none() | MOMENTS,
    failure=st.none() | st.builds(Failure, MOMENTS, NAMES),
)

SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([10**30, -1])
)
ANY_JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)
