"""Processes that run a window die by SIGKILL, and other processes go on. The tables alone are judged."""

from pathlib import Path

import pytest

from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.windows.make import Numbers
from tests.killed import NOWHERE, finished, killed
from tests.spark import SparkServer
from tests.typed.parsings import A, B, good
from tests.windows.processings import WindowProcessorBed
from tests.windows.unpackings import UnpackBed, packed
from tests.windows.window_process import PLACES

PROCESS = "tests.windows.window_process"
ENGINES = [*((place, "python") for place in PLACES), ("staged", "spark"), ("committed", "spark")]


def server_of(request: pytest.FixtureRequest, engine: str) -> SparkServer | None:
    return request.getfixturevalue("spark_server") if engine == "spark" else None


@pytest.fixture
def bed(tmp_path: Path) -> UnpackBed:
    bed = UnpackBed(tmp_path)
    bed.land(A, {1: good(1), 2: packed(21, 22, 23), 3: packed(31, 32)})
    bed.land(B, {10: packed(101, 102)})
    bed.land(A, {4: packed(41), 5: good(5)})
    return bed


@pytest.mark.slow
@pytest.mark.parametrize(("place", "engine"), ENGINES)
def test_a_killed_unpacking_leaves_the_aggregates_or_their_user_records(
    request: pytest.FixtureRequest, tmp_path: Path, bed: UnpackBed, place: str, engine: str
):
    server = server_of(request, engine)
    before, positions = bed.payloads(), bed.lake.handle().load().positions
    after = [
        (1, 0, good(1)),
        *((2, sub, good(21 + sub)) for sub in range(3)),
        *((3, sub, good(31 + sub)) for sub in range(2)),
        *(row for row in before if row[0] > 3),
    ]
    bed.to_unpack(Numbers(A.shard_id, None, 3))

    killed(PROCESS, tmp_path, "unpack", place, engine, server=server)

    is_decided = PLACES.index(place) >= PLACES.index("decided")
    assert bed.payloads() == (after if is_decided else before)
    finished(PROCESS, tmp_path, "unpack", NOWHERE, engine, server=server)
    assert bed.payloads() == after
    assert bed.lake.handle().load().positions == positions


@pytest.mark.slow
@pytest.mark.parametrize(("place", "engine"), ENGINES)
def test_a_killed_copy_of_a_window_has_each_row_once_after_the_next_run(
    request: pytest.FixtureRequest, tmp_path: Path, bed: UnpackBed, place: str, engine: str
):
    server = server_of(request, engine)
    positions = bed.lake.handle().load().positions
    window = bed.window(Numbers(A.shard_id, 2, 4))
    expected = [row for row in bed.lake_rows() if row[0] == A.shard_id and 2 <= row[2] <= 4]

    killed(PROCESS, tmp_path, "copy", place, engine, server=server)

    is_decided = PLACES.index(place) >= PLACES.index("decided")
    assert bed.copied(window) == (expected if is_decided else [])
    finished(PROCESS, tmp_path, "copy", NOWHERE, engine, server=server)
    assert bed.copied(window) == expected
    assert bed.lake.handle().load().positions == positions


@pytest.mark.slow
@pytest.mark.parametrize("place", ["begun", *PLACES])
def test_a_killed_run_of_a_window_through_a_processor_counts_each_record_once(tmp_path: Path, place: str):
    bed = WindowProcessorBed(tmp_path)
    bed.land(A, {1: b"a", 2: b"b"})
    bed.land(A, {3: b"a", 4: b"a", 5: b"b"})
    bed.catch_up()
    live = bed.table().load()
    window = bed.window(Numbers(A.shard_id, 2, 4))

    killed(PROCESS, tmp_path, "process", place, "python")

    is_decided = place in PLACES and PLACES.index(place) >= PLACES.index("decided")
    rows = read.rows(bed.of(window).table(), ("sequence_number",)).num_rows
    assert rows == (1 if is_decided else 0)
    finished(PROCESS, tmp_path, "process", NOWHERE, "python")
    assert bed.of(window).words() == [("b", 1), ("a", 1), ("a", 2)]
    assert bed.is_done(window)
    assert bed.table().load() == live
