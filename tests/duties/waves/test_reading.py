"""All that one run reads, worker by worker, and which shards it reports as failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.pipeline.duties.waves.readers import Readers
from headrace.pipeline.duties.waves.report import OnStep, WaveReport, WaveStep
from headrace.pipeline.duties.waves.run import Reading, Run, RunEnding
from headrace.pipeline.errors import HeadraceError, Terminal, Throttled
from headrace.pipeline.settings.values import show
from tests.duties.scripted_waves import MORE, NOTHING, SECOND, SOME, Scripted
from tests.duties.world import World


class Reader:
    """A run's reading, with a script of reports for each worker."""

    def __init__(self, world: World, **scripts: Scripted) -> None:
        self.world = world
        self.scripts = scripts
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.waves: list[WaveReport] = []
        self.steps: list[tuple[WaveStep, tuple[str, ...]]] = []
        self.told: list[str] = []
        self.is_stopping = True
        self.on_step: OnStep = lambda _arrow, _keys: None
        self.reading = Reading(
            open_run=self._open,
            readers=Readers(world.leases, tuple(scripts)),
            on_wave=self.waves.append,
            on_step=lambda step, keys: self.steps.append((step, keys)),
        )

    @contextmanager
    def _open(self, worker_id: str, on_wave: Any, on_step: OnStep) -> Iterator[Run]:
        self.opened.append(worker_id)
        self.on_step = on_step
        yield Run(
            attempt=self.scripts[worker_id],  # type: ignore[arg-type]
            settings=self.world.settings,
            clock=self.world.clock,
            on_wave=on_wave,
            is_stopping=lambda: self.is_stopping,
            tell=self.told.append,
        )
        self.closed.append(worker_id)


def owned(world: World, owner: str) -> str:
    return next(row.key for row in world.leases.scan().leases if row.owner == owner)


def two_workers() -> World:
    world = World(workers=("w1", "w2"), shards=2)
    world.settle()
    return world


def test_a_run_that_ends_normally_reports_the_shards_that_failed() -> None:
    world = two_workers()
    script = Scripted(world, SOME)
    script.failed["s"] = "denied"
    reader = Reader(world, w1=script)
    assert reader.reading.everything_due("w1") == RunEnding({"s": "denied"})
    assert (reader.opened, reader.closed) == (["w1"], ["w1"])
    assert script.waves[0][1] is None
    assert reader.waves == [SOME]


def test_only_a_run_that_a_person_waits_for_tells_that_it_waits_for_more() -> None:
    world = two_workers()
    reader = Reader(world, w1=Scripted(world, SOME), w2=Scripted(world, SOME))
    reader.is_stopping = False
    reader.reading.everything_due("w1")
    assert reader.told == []
    reader.reading.everything_due("w2", to_the_newest=True)
    idle = show(world.settings.times.idle)
    (sentence,) = reader.told
    assert sentence == (
        f"waiting for more records, until none has come for {idle} (times.idle); Ctrl-C ends it sooner, "
        "and what has landed stays"
    )


def test_a_run_goes_on_after_the_linger_time_only_where_a_person_waits_for_it() -> None:
    world = two_workers()
    scripts = Scripted(world, MORE), Scripted(world, *[MORE] * 400, NOTHING)
    reader = Reader(world, w1=scripts[0], w2=scripts[1])
    reader.is_stopping = False
    for script in scripts:
        script.takes = SECOND
    linger = int(world.settings.times.linger.total_seconds())
    reader.reading.everything_due("w1")
    reader.reading.everything_due("w2", to_the_newest=True)
    assert len(scripts[0].waves) == linger + 1
    assert len(scripts[1].waves) > 400


def test_shards_asked_for_by_name_are_read_worker_by_worker_and_each_failure_is_reported() -> None:
    world = two_workers()
    mine, theirs = owned(world, "w1"), owned(world, "w2")
    one, other = Scripted(world, NOTHING), Scripted(world, NOTHING)
    other.failed[theirs] = "denied"
    reader = Reader(world, w1=one, w2=other)
    ending = reader.reading.shards(iter((mine, theirs)))
    assert ending == RunEnding({mine: "its tip wasn't reached", theirs: "denied"})
    assert [script.waves[0][1] for script in (one, other)] == [(mine,), (theirs,)]


@pytest.mark.parametrize(("error", "passing"), [(Throttled("later"), True), (Terminal("denied"), False)])
def test_an_error_fails_the_shards_that_the_run_waits_for_those_it_claimed_and_those_of_the_next_workers(
    error: HeadraceError, *, passing: bool
) -> None:
    world = two_workers()
    mine, theirs = owned(world, "w1"), owned(world, "w2")
    script = Scripted(world, error)
    script.failed["s"] = "it failed before"
    reader = Reader(world, w1=script, w2=Scripted(world, NOTHING))
    wave = script.wave

    def claim_and_wave(keys: tuple[str, ...] | None = None) -> WaveReport:
        reader.on_step(WaveStep.CLAIMED, ("claimed",))
        reader.on_step(WaveStep.STAGED, ("staged",))
        return wave(keys)

    script.wave = claim_and_wave  # type: ignore[method-assign]
    ending = reader.reading.shards((mine, theirs))
    why = str(error)
    assert ending == RunEnding({mine: why, theirs: why, "claimed": why, "s": "it failed before"}, error)
    assert ending.is_passing is passing
    assert reader.steps == [(WaveStep.CLAIMED, ("claimed",)), (WaveStep.STAGED, ("staged",))]
    assert reader.opened == ["w1"]


def test_an_error_between_two_waves_doesnt_fail_the_shards_that_were_read() -> None:
    world = two_workers()
    error = Throttled("later")
    script = Scripted(world, MORE)
    reader = Reader(world, w1=script)
    wave = script.wave

    def claim_and_wave(keys: tuple[str, ...] | None = None) -> WaveReport:
        reader.on_step(WaveStep.CLAIMED, ("claimed",))
        return wave(keys)

    script.wave = claim_and_wave  # type: ignore[method-assign]

    def open_and_fail_at_the_end(worker_id: str, on_wave: Any, on_step: OnStep) -> Any:
        @contextmanager
        def opened() -> Iterator[Run]:
            with reader._open(worker_id, on_wave, on_step) as run:
                yield run
            raise error

        return opened()

    reader.reading.open_run = open_and_fail_at_the_end
    assert reader.reading.everything_due("w1") == RunEnding({}, error)
    assert reader.reading.everything_due("w1").is_passing
    assert not RunEnding({}).is_passing


def test_an_error_before_the_first_wave_fails_all_shards_that_were_asked_for() -> None:
    world = two_workers()
    reader = Reader(world, w1=Scripted(world, NOTHING))
    mine = owned(world, "w1")
    ending = reader.reading.shards(("no-such-shard", mine))
    why = str(ending.error)
    assert ending == RunEnding({"no-such-shard": why, mine: why}, ending.error, is_untried=True)
    assert ending.is_passing, "a request that can't be met doesn't delay a shard's next run for long"
    assert reader.opened == []


def test_the_shards_that_a_wave_has_to_read_are_known_once_a_run_is_open() -> None:
    world = two_workers()
    reader = Reader(world, w1=Scripted(world, NOTHING))
    assert reader.reading.expected() == ()
    reader.reading.everything_due("w1")
    assert reader.reading.expected() == ("expected",)
