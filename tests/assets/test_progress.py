"""A run tells how far it is while it catches up, one line a minute while it keeps up, and its shards at its end."""

from base64 import b64decode
from dataclasses import dataclass, replace
from datetime import timedelta

import dagster as dg

from headrace.assets.progress import Progress
from headrace.pipeline.core.ledger.batch import Staged
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.duties.waves.report import Landed, Problem, WaveReport
from tests.dagster.fixtures import MakeWorld
from tests.dagster.world import key
from tests.lake.samples import StandingClock, a_key, at

TIP = timedelta(0)


@dataclass
class ARun:
    clock: StandingClock
    progress: Progress

    def wave(self, seconds: float, *shards: tuple[int, timedelta | None], rows: int = 100) -> str | None:
        """A wave that ends after so many seconds, with what each shard is behind then."""
        self.clock.pause(seconds)
        landed = tuple(_landed(number, behind, rows) for number, behind in shards)
        return self.progress.waved(WaveReport(landed=landed, snapshot=7))


def _landed(number: int, behind: timedelta | None, rows: int) -> Landed:
    staged = Staged(
        a_key(number), at(1), at(2), rows=rows, records=rows, bytes=rows * 100_000, behind=behind, pages=1
    )
    return Landed(key(number), staged, 7, (), ())


def a_run() -> ARun:
    clock = StandingClock()
    return ARun(clock, Progress(clock))


def test_a_run_that_catches_up_tells_shards_size_speed_and_the_time_left():
    run = a_run()
    hour = timedelta(hours=1)
    run.wave(10, (0, hour), (1, hour), (2, TIP))
    assert (
        run.wave(30, (0, hour / 2), (1, TIP), (2, TIP))
        == "2 of 3 shards caught up, 60.0 MB in 600 records, 1.0 MB/s, about 30 s left"
    )


def test_the_last_line_of_catching_up_comes_at_once():
    run = a_run()
    assert run.wave(10, (0, timedelta(hours=1))) is not None
    assert run.wave(2, (0, timedelta(minutes=1))) is None
    assert run.wave(1, (0, TIP)) == "1 of 1 shard caught up, 30.0 MB in 300 records, 6.7 MB/s"


def test_a_shard_that_has_ended_has_caught_up():
    run = a_run()
    run.clock.pause(10)
    landed = _landed(0, timedelta(minutes=5), 100)
    ended = replace(landed, staged=replace(landed.staged, upto=Position(2, ended=True)))
    line = run.progress.waved(WaveReport(landed=(ended, _landed(1, timedelta(hours=1), 100)), snapshot=7))
    assert line == "1 of 2 shards caught up, 20.0 MB in 200 records, 2.0 MB/s"


def test_a_run_that_keeps_up_tells_one_line_a_minute_that_sums_up():
    run = a_run()
    assert run.wave(10, (0, TIP)) == "wave: 100 records of 1 shard landed"
    lines = [run.wave(10, (0, TIP)) for _ in range(12)]
    assert [line for line in lines if line] == [
        "600 records of 1 shard landed in 6 waves, 60.0 MB, in 60 s"
    ] * 2


def test_waves_without_a_record_tell_nothing_and_what_is_left_is_told_at_the_end():
    run = a_run()
    assert run.wave(10, (0, TIP), rows=0) is None
    run.wave(10, (0, TIP))
    run.wave(10, (0, TIP))
    assert run.progress.ended() == "100 records of 1 shard landed in 1 wave, 10.0 MB, in 10 s"
    assert a_run().progress.ended() is None


def test_a_wave_in_which_a_shard_fails_is_told_also_without_a_record():
    run = a_run()
    run.clock.pause(10)
    line = run.progress.waved(WaveReport(problems=(Problem(key(0), "access denied", fatal=True),)))
    assert line == f"wave: 0 records of 0 shards landed, 1 shard failed ({key(0)}: access denied)"


def tables_of(result: dg.ExecuteInProcessResult) -> list[dg.AssetObservation]:
    """The observations that tell of the run's shards. Another one tells what the run has used."""
    observations = (
        event.asset_observation_data.asset_observation for event in result.get_asset_observation_events()
    )
    return [observation for observation in observations if "shards of the run" in observation.metadata]


def test_a_run_leaves_a_table_of_its_shards(make_world: MakeWorld):
    world = make_world()
    world.settle()
    world.world.produce(0, 30)
    world.world.produce(1, 10)
    result = world.read()
    assert result.success
    (observed,) = tables_of(result)
    metadata = observed.metadata
    assert observed.partition is None
    assert metadata["run: records"].value == 40
    table = [record.data for record in metadata["shards of the run"].value.records]  # type: ignore[union-attr]
    assert [(row["shard"], row["records"], row["behind"]) for row in table] == [
        (key(0), 30, "caught up"),
        (key(1), 10, "caught up"),
    ]


def picture_of(run: ARun) -> str:
    value = run.progress.metadata()["shards and their parents"].value
    return b64decode(str(value).partition("base64,")[2].removesuffix(")")).decode()


def test_a_run_draws_its_shards_with_the_parents_and_children_that_it_did_not_read():
    run = a_run()
    landed = _landed(3, TIP, 100)
    ended = replace(
        landed, staged=replace(landed.staged, upto=Position(2, ended=True, children=(a_key(4).shard_id,)))
    )
    run.progress.waved(
        WaveReport(landed=(replace(ended, parents=(a_key(1).shard_id,)), _landed(9, TIP, 5)), snapshot=7)
    )
    picture = picture_of(run)
    assert "shard 3</text>" in picture
    assert "ended, 100 records" in picture
    assert picture.count("ended before this run") == picture.count("not read by this run") == 1
    assert picture.count("<path") == 2


def test_shards_without_relatives_are_in_the_table_alone():
    run = a_run()
    run.wave(10, (0, TIP), (1, TIP))
    assert "shards and their parents" not in run.progress.metadata()


def test_a_run_without_a_record_leaves_none(make_world: MakeWorld):
    world = make_world()
    world.settle()
    assert not tables_of(world.read())
