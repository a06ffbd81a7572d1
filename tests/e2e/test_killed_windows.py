"""The run of a window dies by SIGKILL, and another run finishes the window. Each record is there once, and no position has moved."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.pipeline.demo.aggregate import aggregated
from headrace.pipeline.local.endpoint import LocalAws
from tests.e2e.conftest import apps
from tests.e2e.windows import Row, Windows
from tests.eventually import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

WAVE = ("planned", "staged", "deciding", "decided", "committed")
"""The places of a wave, in their order. deciding, decided: just before and after the catalog takes the commit of the wave's rows."""
DONE = ("noting", "noted")
"""Just before and after the window counts as done."""
FROM_STREAM = ("begun 1", *(f"{each} {wave}" for wave in (1, 2) for each in WAVE), *DONE)
"""The first wave reads from the stream, and the second one copies from the lake table."""
UNPACK = (*(f"{each} 1" for each in WAVE), *DONE)
QUICK = {"decided 1"}
OLDER = [b"older-%d" % number for number in range(10)]


def second_of(answer: Any) -> str:
    return str(answer["ResponseMetadata"]["HTTPHeaders"]["date"])


def places(all_of_them: tuple[str, ...]) -> list[object]:
    return [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in all_of_them]


def has_landed(wave: int, place: str) -> bool:
    """Whether the rows of a wave from the stream have landed when the run is killed."""
    return FROM_STREAM.index(place) >= FROM_STREAM.index(f"decided {wave}")


def own(rows: list[Row]) -> list[Row]:
    """The rows that the lake table has, too."""
    return [row for row in rows if row[3] not in OLDER]


@pytest.fixture(scope="module")
def from_latest(
    aws: LocalAws, _environment: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Windows]:
    """An application that began at the newest record of its stream. All tests make windows of it, each with a table of its own."""
    with apps(aws, tmp_path_factory.mktemp("latest")) as make:
        app = make(stream={"initial_position": "LATEST"})
        entries = [{"Data": each, "PartitionKey": each.decode()} for each in OLDER]
        second = second_of(app.kinesis.put_records(StreamName=app.name, Records=entries))
        # LATEST is the second of Kinesis's clock in which the application begins: records of this second would land.
        eventually(
            lambda: second_of(app.kinesis.list_streams()) != second, "the second of the older records is over"
        )
        app.settle()
        app.produce(10)
        windows = Windows(app)
        windows.land(10)
        yield windows


@pytest.fixture(scope="module")
def with_aggregates(
    aws: LocalAws, _environment: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Windows]:
    """An application whose lake table has each aggregate as one row."""
    with apps(aws, tmp_path_factory.mktemp("aggregates")) as make:
        app = make(shards=1, landing={"aggregates": "keep"})
        app.settle()
        yield Windows(app)


@pytest.mark.parametrize("place", places(FROM_STREAM))
def test_a_killed_run_of_a_window_from_the_stream_loses_and_doubles_no_record(
    from_latest: Windows, place: str
):
    windows, app = from_latest, from_latest.app
    app.produce(10)
    windows.land(len(app.put))
    window = windows.make(from_stream=True)
    landed, positions = windows.landed(), windows.positions()
    # The first range of each shard is read as a whole, from the oldest record of the stream on.
    ends = {each.key.shard_id: each.stretches[0].upto.sequence for each in window.ranges}
    read = [row for row in landed if row[1] <= (ends[row[0]] or 0)]
    assert 0 < len(read) < len(landed)

    windows.kill_run(window, place)

    copied = windows.copied(window)
    assert sorted(row[3] for row in copied if row[3] in OLDER) == (OLDER if has_landed(1, place) else [])
    assert own(copied) == (landed if has_landed(2, place) else read if has_landed(1, place) else [])
    assert windows.is_done(window) == (place == "noted")
    for _ in range(2):  # the second run finds nothing left to do
        assert windows.run(window).success
        copied = windows.copied(window)
        assert own(copied) == landed
        assert sorted(row[3] for row in copied if row[3] in OLDER) == OLDER
        assert windows.is_done(window)
    assert windows.landed() == landed
    assert windows.positions() == positions
    proof = windows.prove()
    assert proof.holds, proof.lines()


@pytest.mark.parametrize("place", places(UNPACK))
def test_a_killed_run_of_a_window_that_takes_aggregates_apart_leaves_them_or_their_user_records(
    with_aggregates: Windows, place: str
):
    windows, app = with_aggregates, with_aggregates.app
    before = windows.landed()
    whole = aggregated("key", [b"%d" % number for number in range(5)])
    for data in (b"plain", whole, whole, b"plain"):
        app.kinesis.put_record(StreamName=app.name, Data=data, PartitionKey="key")
    windows.land(len(before) + 4)
    window = windows.make(unpack=True)
    landed, positions = windows.landed(), windows.positions()
    apart = sorted(
        (shard, number, user if data == whole else sub, part)
        for shard, number, sub, data in landed
        for user, part in enumerate([b"%d" % n for n in range(5)] if data == whole else [data])
    )
    assert len(apart) == len(before) + 12

    windows.kill_run(window, place)

    assert windows.landed() == (apart if UNPACK.index(place) >= UNPACK.index("decided 1") else landed)
    assert windows.is_done(window) == (place == "noted")
    for _ in range(2):  # the second run finds nothing left to do
        assert windows.run(window).success
        assert windows.landed() == apart
        assert windows.is_done(window)
    assert windows.positions() == positions
    proof = windows.prove()
    assert proof.holds, proof.lines()
