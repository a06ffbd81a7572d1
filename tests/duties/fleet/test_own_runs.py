"""What a worker's tick asks Dagster about the worker's runs, and in which order."""

from __future__ import annotations

from collections.abc import Callable

from headrace.pipeline.duties.fleet.own_runs import OwnRuns
from headrace.pipeline.settings.model import TimeSettings
from tests.duties.world import World
from tests.memory.clock import MemoryClock
from tests.memory.runs import MemoryRuns


class AskedRuns(MemoryRuns):
    """Notes the questions. `meanwhile` is called once the first one was answered."""

    def __init__(self) -> None:
        super().__init__(MemoryClock())
        self.asked: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def latest(self, worker_id: str) -> str | None:
        answer = super().latest(worker_id)
        self._note("latest")
        return answer

    def open_runs(self, worker_id: str) -> tuple[str, ...]:
        answer = super().open_runs(worker_id)
        self._note("open")
        return answer

    def _note(self, question: str) -> None:
        self.asked.append(question)
        if len(self.asked) == 1:
            self.meanwhile()


def own(runs: MemoryRuns, over: str | None = None) -> OwnRuns:
    return OwnRuns("w1", runs, TimeSettings(), over)


def ended(runs: MemoryRuns, run: str) -> None:
    runs.launch(run, "w1")
    runs.end(run)


def test_open_runs_arent_asked_for_while_the_latest_run_is_known_to_be_over() -> None:
    runs = AskedRuns()
    ended(runs, "first")
    assert own(runs, over="first").open == ()
    assert runs.asked == ["latest"]


def test_a_worker_that_never_had_a_run_has_no_open_run() -> None:
    runs = AskedRuns()
    assert own(runs).open == ()
    assert runs.asked == ["latest"]


def test_open_runs_are_asked_for_once_there_is_a_newer_run() -> None:
    runs = AskedRuns()
    ended(runs, "first")
    runs.launch("second", "w1")
    mine = own(runs, over="first")
    assert (mine.open, mine.open, mine.latest) == (("second",), ("second",), "second")
    assert runs.asked == ["latest", "open"]


def test_a_run_that_is_launched_between_the_two_questions_doesnt_look_as_if_it_were_over() -> None:
    runs = AskedRuns()
    ended(runs, "first")
    runs.meanwhile = lambda: runs.launch("second", "w1")
    mine = own(runs)
    assert (mine.open, mine.latest) == (("second",), "first")


def test_at_rest_a_tick_asks_dagster_which_run_is_the_latest_and_nothing_else() -> None:
    world = World()
    world.runs = runs = AskedRuns()
    world.settle()
    world.wave()
    world.tick(4)
    runs.asked.clear()
    world.tick(6)
    # Two of six ticks read the rows, and ask which runs are open.
    assert (runs.asked.count("latest"), runs.asked.count("open")) == (6, 2)


def test_a_run_that_is_still_open_is_waited_for_though_a_newer_run_is_over() -> None:
    world = World()
    world.settle()
    world.runs.launch("older", "w1")
    ended(world.runs, "newer")
    for _ in range(4):
        report = world.work()
        assert str(report) == "worker w1: run older is at work"
        assert not report.due
