"""Processes that parse die by SIGKILL, and processes with other code go on. The tables alone are judged."""

from pathlib import Path

import pytest

from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.windows.make import Numbers
from tests.killed import NOWHERE, finished, killed
from tests.spark import SparkServer
from tests.typed.latest.beds import GONE, LatestBed, named
from tests.typed.parsing_process import PLACES, WRONG, bed_of, once
from tests.typed.parsings import BAD, A, B, Bed, good
from tests.windows.replacements import ReplaceBed

PROCESS = "tests.typed.parsing_process"


def engine_of(server: SparkServer | None) -> str:
    return "python" if server is None else "spark"


def landed(folder: Path) -> ReplaceBed:
    """Tables with a record of each kind in quarantine, and with further records in the lake table."""
    bed = bed_of(folder, "1")
    bed.land(A, {1: good(1), 2: WRONG, 3: BAD})
    bed.land(B, {10: WRONG})
    bed.catch_up()
    bed.land(A, {4: good(4), 5: WRONG, 6: BAD})
    bed.land(B, {11: WRONG, 12: good(12)})
    return bed


def check(bed: Bed) -> None:
    """I38, by the rows and by the ledgers."""
    bed.check()
    waves = redriven = 0
    for page in bed.typed().pages():
        for each in page.ranges:
            told = read_accounting(each.account)
            if each.kind is Kind.PARSED:
                waves += told.rows
                redriven += told.parsed
            else:
                redriven += told.parsed
    assert waves == len(bed.landed())
    assert redriven == len(bed.parsed())


def killed_and_carried_on(folder: Path, kind: str, place: str, server: SparkServer | None = None) -> None:
    bed = landed(folder)
    if kind == "redrive":
        bed.catch_up()
    before = {row["sequence_number"]: row["version"] for row in read.rows(bed.quarantine()).to_pylist()}

    killed(PROCESS, folder, kind, place, "2", engine_of(server), server=server)

    # Another version carries out what was decided. Where nothing was decided, it decides by itself.
    finished(PROCESS, folder, "wave", NOWHERE, "3", "python")
    check(bed)
    is_decided = PLACES.index(place) >= PLACES.index("decided")
    aside = {row["sequence_number"]: row["version"] for row in read.rows(bed.quarantine()).to_pylist()}
    if kind == "redrive":
        # All of it has happened, or nothing.
        assert aside == ({"3": "2", "6": "2"} if is_decided else before)
    else:
        new = {"6": "2"} if is_decided else {"5": "3", "6": "3", "11": "3"}
        assert aside == {**before, **new}

    finished(PROCESS, folder, "redrive", NOWHERE, "2", engine_of(server), server=server)
    check(bed)
    assert {number for _, number, _ in bed.set_aside()} == {3, 6}


def test_a_redrive_that_is_killed_between_its_two_commits_is_carried_out_by_other_code(tmp_path: Path):
    killed_and_carried_on(tmp_path, "redrive", "committed")


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["wave", "redrive"])
def test_a_process_that_is_killed_anywhere_loses_and_doubles_nothing(tmp_path: Path, kind: str, place: str):
    killed_and_carried_on(tmp_path, kind, place)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["staged", "committed"])
@pytest.mark.parametrize("kind", ["wave", "redrive"])
def test_a_process_that_parses_on_spark_and_is_killed_loses_and_doubles_nothing(
    spark_server: SparkServer, tmp_path: Path, kind: str, place: str
):
    killed_and_carried_on(tmp_path, kind, place, spark_server)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "engine"),
    [*((place, "python") for place in PLACES), ("staged", "spark"), ("committed", "spark")],
)
def test_a_replacement_that_is_killed_anywhere_leaves_the_old_rows_or_the_new_ones(
    request: pytest.FixtureRequest, tmp_path: Path, place: str, engine: str
):
    server = request.getfixturevalue("spark_server") if engine == "spark" else None
    bed = landed(tmp_path)
    bed.catch_up()
    bed.window(Numbers(A.shard_id, 2, 5))
    typed, aside = bed.parsed(), bed.aside()

    killed(PROCESS, tmp_path, "replace", place, "2", engine_of(server), server=server)

    is_decided = PLACES.index(place) >= PLACES.index("decided")
    if not is_decided:
        assert (bed.parsed(), bed.aside()) == (typed, aside)
    # Another version carries out what was decided, and decides nothing itself: there is no new record.
    finished(PROCESS, tmp_path, "wave", NOWHERE, "3", "python")
    bed.check()
    versions = {number: version for number, (_, version) in bed.aside().items()}
    assert versions == ({3: "2", 6: "1", 10: "1", 11: "1"} if is_decided else dict.fromkeys(aside, "1"))

    finished(PROCESS, tmp_path, "replace", NOWHERE, "2", engine_of(server), server=server)
    bed.check()
    assert set(bed.aside()) == {3, 6, 10, 11}
    assert {number for number, (_, version) in bed.aside().items() if version == "2"} == {3}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "engine"),
    [*((place, "python") for place in PLACES), ("staged", "spark"), ("committed", "spark")],
)
def test_a_process_that_lands_each_event_once_and_is_killed_leaves_out_no_event_and_no_second_row(
    request: pytest.FixtureRequest, tmp_path: Path, place: str, engine: str
):
    server = request.getfixturevalue("spark_server") if engine == "spark" else None
    bed = bed_of(tmp_path, "1")
    bed.settings = once(bed.settings)
    # Events 1 and 2 are in the typed table. Then they come again by the other shard, with a new event that both shards have.
    bed.land(A, {1: good(1), 2: good(2), 3: BAD})
    bed.catch_up()
    bed.land(B, {10: good(2), 11: good(3), 12: BAD})
    bed.land(A, {4: good(3), 5: good(4), 6: good(4)})
    before = bed.parsed(), bed.set_aside()

    killed(PROCESS, tmp_path, "unique", place, "1", engine_of(server), server=server)

    if PLACES.index(place) < PLACES.index("decided"):
        assert (bed.parsed(), bed.set_aside()) == before
    # Event 4 comes once more, by the other shard, before another process goes on.
    bed.land(B, {13: good(4), 14: good(5)})
    finished(PROCESS, tmp_path, "unique", NOWHERE, "1", engine_of(server), server=server)

    ids = sorted(row["id"] for row in read.rows(bed.typed(), ("id",)).to_pylist())
    assert ids == [1, 2, 3, 4, 5]
    assert {number for _, number, _ in bed.set_aside()} == {3, 12}
    ranges = [each for page in bed.typed().pages() for each in page.ranges]
    told = [read_accounting(each.account) for each in ranges]
    assert all(each.is_complete for each in told)
    assert sum(each.rows for each in told) == len(bed.landed()) == 11
    assert sum(each.dropped.get("duplicate", 0) for each in told) == 4
    assert bed.parsing().settling.is_settled()


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_process_that_keeps_the_latest_rows_and_is_killed_leaves_those_of_one_wave_or_of_the_next(
    tmp_path: Path, place: str
):
    bed = LatestBed(tmp_path)
    bed.land(A, {1: named(1, "one"), 2: named(2, "two"), 3: named(3, "three"), 4: BAD})
    bed.catch_up()
    bed.land(A, {5: named(1, "uno"), 6: named(2, GONE), 7: BAD})
    bed.land(B, {10: named(4, "four"), 11: named(4, "quattro")})

    killed(PROCESS, tmp_path, "latest", place, "1", "python", server=None)

    after = {1: "uno", 3: "three", 4: "quattro"}
    is_decided = PLACES.index(place) >= PLACES.index("decided")
    assert bed.names() == (after if is_decided else {1: "one", 2: "two", 3: "three"})
    finished(PROCESS, tmp_path, "latest", NOWHERE, "1", "python", server=None)
    assert bed.names() == after
    assert {number for _, number, _ in bed.set_aside()} == {4, 7}
    told = [read_accounting(each.account) for page in bed.typed().pages() for each in page.ranges]
    assert all(each.is_complete for each in told)
    assert sum(each.rows for each in told) == len(bed.landed()) == 9
    bed.check()
