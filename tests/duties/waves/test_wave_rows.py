"""Which rows a wave claims: those of shards that are due, that just had records, or where a probe finds a record.
Other rows cost no write and no time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.app.wiring import Hints
from headrace.pipeline.beside_kcl.kept_claims import keeps_nothing
from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.waves import wave_rows
from headrace.pipeline.duties.waves.attempt import Attempt
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.duties.waves.run import Run
from headrace.pipeline.errors import Throttled, Unreachable
from tests.duties.reading import an_attempt
from tests.duties.world import World
from tests.memory.clock import MemoryClock
from tests.memory.leases import MemoryLeaseStore
from tests.memory.source import MemorySource

SECOND = timedelta(seconds=1)


class CountingLeases(MemoryLeaseStore):
    """Counts the writes of each row, and loses the answers to those that a test names."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: Counter[str] = Counter()
        """The number of writes, by lease key."""
        self.lost: dict[str, bool] = {}
        """Keys whose next write gets no answer; the value says whether the write is applied."""

    def apply(self, change: Change) -> Applied | Refused:
        self.writes[change.key] += 1
        if change.key in self.lost:
            if self.lost.pop(change.key):
                super().apply(change)
            raise Unreachable("no answer")
        return super().apply(change)


class ProbedSource(MemorySource):
    """Records which shards each probe looks at, and can throttle probes."""

    def __init__(self, clock: MemoryClock) -> None:
        super().__init__(clock)
        self.probes: list[frozenset[str]] = []
        self.throttled = False

    def has_news(self, keys: Mapping[ShardKey, Start | int]) -> frozenset[ShardKey]:
        if self.throttled:
            raise Throttled("GetRecords of a probe is throttled")
        self.probes.append(frozenset(key.shard_id for key in keys))
        return super().has_news(keys)


class CountingWorld(World):
    """A world that counts writes and probes."""

    leases: CountingLeases
    source: ProbedSource

    def __post_init__(self) -> None:
        super().__post_init__()
        self.leases = CountingLeases()
        self.source = ProbedSource(self.clock)
        self.stream = self.source.create_stream("orders", self.shards)
        self.stage = type(self.stage)(self.source, self.clock)

    def key(self, shard: int) -> str:
        return self.shard(shard).shard_id

    def at_rest(self) -> Attempt:
        """Let every shard be read and found empty, and begin a new run."""
        self.settle()
        self.wave(run="first")
        return self.begun()

    def begun(self, *due: int) -> Attempt:
        self.runs.launch("run", "w1")
        self.runs.start("run")
        hints = Hints(due=frozenset(self.key(shard) for shard in due))
        run = an_attempt(self, "run", hints=hints, on_step=self._on_step)
        self.leases.writes.clear()
        self.source.probes.clear()
        return run

    def next_wave(self) -> None:
        self.clock.advance(self.settings.wave.every)


def test_a_wave_writes_only_to_the_rows_of_shards_with_records() -> None:
    world = CountingWorld(shards=50)
    run = world.at_rest()
    world.produce(7)
    report = run.wave()
    assert (report.claimed, report.rows) == (1, 10)
    assert world.leases.writes == {world.key(7): 1}, "a claim, which the run keeps"
    world.next_wave()
    world.leases.writes.clear()
    run.wave()
    world.next_wave()
    assert run.wave().claimed == 0
    assert world.leases.writes == {world.key(7): 1}, (
        "the shard was read once more, found quiet, released with its checkpoint, and then left alone"
    )
    world.check()


def test_shards_that_were_never_read_are_read_by_the_first_wave_without_a_probe() -> None:
    world = CountingWorld(shards=3)
    world.settle()
    run = world.begun()
    assert run.wave().claimed == 3
    assert world.source.probes in ([], [frozenset()])


def test_shards_that_the_sensor_named_are_read_without_another_probe() -> None:
    world = CountingWorld(shards=3)
    world.at_rest()
    run = world.begun(1)
    assert run.wave().claimed == 1
    assert all(world.key(1) not in probed for probed in world.source.probes)


def test_a_busy_shard_at_its_tip_is_read_by_every_wave_of_a_run() -> None:
    world = CountingWorld(shards=3)
    run = world.at_rest()
    for _ in range(10):
        world.produce(0, 1)
        report = run.wave()
        assert (report.claimed, report.rows) == (1, 1)
        row = world.leases.get(world.key(0))
        assert row is not None
        assert row.behind_ms == 0
        world.next_wave()
    assert all(world.key(0) not in probed for probed in world.source.probes[1:])
    world.check()


def test_a_record_in_a_quiet_shard_is_read_by_the_next_wave_of_a_run() -> None:
    """With the default times no wave may miss a probe, or the record would be read one wave later."""
    world = CountingWorld(shards=5)
    run = world.at_rest()
    for turn in range(8):
        world.produce(turn % 5, 1)
        assert run.wave().rows == 1
        world.next_wave()
    world.check()


def test_waves_in_quick_succession_dont_probe_more_often_than_the_settings_say() -> None:
    world = CountingWorld(shards=3)
    run = world.at_rest()
    seconds = 60
    for _ in range(seconds):
        world.produce(0, 1)
        run.wave()
        world.clock.advance(SECOND - timedelta(milliseconds=10))
    least = world.settings.times.probe - world.settings.wave.every
    assert 3 <= len(world.source.probes) <= seconds * SECOND / least + 1


def test_of_many_quiet_shards_each_wave_probes_some_and_all_are_probed_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wave_rows, "PROBES_A_WAVE", 4)
    world = CountingWorld(shards=10)
    run = world.at_rest()
    for _ in range(5):
        run.wave()
        world.next_wave()
    assert max(len(probed) for probed in world.source.probes) == 4
    assert frozenset().union(*world.source.probes) == {world.key(n) for n in range(10)}


def test_short_runs_dont_all_probe_the_same_quiet_shards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wave_rows, "PROBES_A_WAVE", 4)
    world = CountingWorld(shards=40)
    world.at_rest()
    world.source.probes.clear()
    for n in range(60):
        world.runs.launch(f"short{n}", "w1")
        world.runs.start(f"short{n}")
        world.a_run(run=f"short{n}").wave()
        world.runs.end(f"short{n}")
    assert frozenset().union(*world.source.probes) == {world.key(n) for n in range(40)}


def test_a_slow_probe_is_stopped_before_the_run_counts_as_hung() -> None:
    world = CountingWorld(shards=250)
    run = world.at_rest()
    world.source.probes.clear()
    ask = world.source.has_news

    def probe_slowly(keys: Mapping[ShardKey, Start | int]) -> frozenset[ShardKey]:
        world.clock.advance(world.settings.hung_after - SECOND)
        return ask(keys)

    world.source.has_news = probe_slowly  # type: ignore[method-assign]
    beats: list[bool] = []
    run.on_step = lambda _arrow, _keys: beats.append(run.beat())
    world.produce(249, 1)
    world.clock.advance(world.settings.times.probe)
    for _ in range(3):
        run.wave()
    assert [len(probed) for probed in world.source.probes] == [100, 100, 50]
    assert beats
    assert all(beats)


def test_after_a_shard_has_ended_the_next_wave_of_the_run_reads_its_children() -> None:
    world = CountingWorld(shards=1)
    run = world.at_rest()
    world.produce(0)
    world.source.split(world.shard(0))
    world.produce(1)
    world.produce(2)
    rows = [run.wave().rows for _ in range(2)]
    assert rows == [10, 20]
    world.check()


def test_a_shard_whose_range_was_refused_is_read_again_by_the_next_wave() -> None:
    world = CountingWorld(shards=2)
    run = world.at_rest()
    world.produce(0)
    stage = world.stage.stage

    def let_another_run_take_over(*args: Sequence[object]) -> object:
        manifest = stage(*args)  # type: ignore[arg-type]
        world.stage.stage = stage  # type: ignore[method-assign]
        world.runs.end("run")
        assert world.wave(run="faster").rows == 10
        world.runs.launch("run", "w1")
        return manifest

    world.stage.stage = let_another_run_take_over  # type: ignore[method-assign,assignment]
    assert run.wave().rows == 0
    world.source.throttled = True
    assert run.wave().claimed == 1
    world.check()


@pytest.mark.parametrize("arrived", [False, True])
def test_a_claim_without_an_answer_stops_no_other_claim_and_is_made_again(*, arrived: bool) -> None:
    world = CountingWorld(shards=3)
    run = world.at_rest()
    for shard in range(3):
        world.produce(shard)
    world.leases.lost[world.key(1)] = arrived
    report = run.wave()
    assert report.rows == 20
    assert [(p.lease_key, p.fatal) for p in report.problems] == [(world.key(1), False)]
    assert run.wave().rows == 10
    world.check()


def test_if_no_claim_has_an_answer_the_wave_fails_as_a_whole() -> None:
    world = CountingWorld(shards=2)
    run = world.at_rest()
    world.produce(0)
    world.produce(1)
    world.leases.lost = dict.fromkeys((world.key(0), world.key(1)), False)
    with pytest.raises(Unreachable):
        run.wave()


def test_the_next_wave_writes_a_checkpoint_that_had_no_answer_where_no_claim_is_kept() -> None:
    world = CountingWorld(shards=2)
    run = world.at_rest()
    run.policy = replace(run.policy, may_keep=keeps_nothing)
    for shard in range(2):
        world.produce(shard)
    commit = world.table.commit

    def commit_and_lose_the_checkpoint(proposal: object) -> object:
        world.leases.lost[world.key(0)] = False
        return commit(proposal)  # type: ignore[arg-type]

    world.table.commit = commit_and_lose_the_checkpoint  # type: ignore[method-assign,assignment]
    report = run.wave()
    world.table.commit = commit  # type: ignore[method-assign]
    assert report.rows == 20
    assert "the next wave repairs the row" in report.problems[0].why
    run.wave()
    row = world.leases.get(world.key(0))
    stands = world.table.load().positions.of(world.shard(0))
    assert row is not None
    assert stands is not None
    assert row.checkpoint == stands.checkpoint
    world.check()


def test_a_shard_whose_row_couldnt_be_repaired_is_read_only_after_the_repair() -> None:
    world = CountingWorld(shards=1)
    world.at_rest()
    world.produce(0)
    world.killed_run(WaveStep.COMMITTED)
    world.runs.end("killed")
    world.produce(0)
    run = world.begun()

    def lose_the_repair(step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is WaveStep.CLAIMED:
            world.leases.lost[world.key(0)] = False

    run.on_step = lose_the_repair
    report = run.wave()
    assert (report.rows, report.landed) == (0, ())
    run.on_step = lambda *_: None
    assert run.wave().rows == 10
    world.check()


def test_a_throttled_probe_doesnt_keep_the_wave_from_reading_due_shards() -> None:
    world = CountingWorld(shards=3)
    world.at_rest()
    world.produce(0)
    world.produce(2)
    run = world.begun(0)
    world.source.throttled = True
    assert run.wave().rows == 10
    world.source.throttled = False
    assert run.wave().rows == 10, "the next wave probes again"
    world.check()


def waits_of_records(every: float, *, shards: int, seconds: int) -> list[float]:
    """How long records of a quiet shard wait, if one comes every so many seconds while another shard keeps the run
    at work."""
    world = CountingWorld(shards=shards)
    run = world.at_rest()
    began = world.clock.monotonic()
    waiting: list[float] = []
    found: list[float] = []
    told = 0

    def pause(left: float) -> None:
        nonlocal told
        until = world.clock.monotonic() + left
        while world.clock.monotonic() < until:
            world.clock.advance(SECOND / 2)
            at = world.clock.monotonic() - began
            world.produce(0, 1)
            if at // every > told:
                told = int(at // every)
                world.produce(1, 1)
                waiting.append(at)

    def note_landings(report: object) -> None:
        at = world.clock.monotonic() - began
        landed = {each.lease_key: each.staged.rows for each in report.landed}  # type: ignore[attr-defined]
        if landed.get(world.key(1)):
            found.extend(at - since for since in waiting)
            waiting.clear()

    world.clock.pause = pause  # type: ignore[method-assign,assignment] # records arrive while the run waits
    Run(
        attempt=run,
        settings=world.settings,
        clock=world.clock,
        on_wave=note_landings,
        is_stopping=lambda: world.clock.monotonic() - began > seconds,
    ).all_that_is_due()
    world.runs.end("run")
    world.wave(run="the rest")
    world.check()
    return found


@pytest.mark.parametrize("every", [3.0, 17.0, 45.0])
def test_no_record_of_a_quiet_shard_waits_longer_than_for_the_next_wave(every: float) -> None:
    found = waits_of_records(every, shards=20, seconds=250)
    assert len(found) >= 5
    assert max(found) <= 10.5
