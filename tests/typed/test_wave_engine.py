"""The engine of waves: in which order an operation is asked, when it goes on, and when it gives up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.landing.landing import Proposal, RangeRefused
from headrace.pipeline.errors import Overtaken, Unknown
from headrace.pipeline.typed.done_wave import Does, Wave, wave_of
from headrace.pipeline.typed.wave_engine import ReadyWave, Waves
from tests.lake.samples import ORIGIN, StandingClock, a_key, a_range
from tests.memory.table import MemoryTable

KEY = a_key(0)
LAST = 3
SECOND = timedelta(seconds=1)
IN_ORDER = ["begin", "plan", "planned", "stage", "staged", "wanted?", "committed", "follow"]


@dataclass
class Landing(Waves[int]):
    """An operation whose waves land the records 1 to 3, one in each wave."""

    clock: StandingClock = field(default_factory=StandingClock)
    others: int = 0
    """Waves in a row in which another run lands the same record first."""
    tries: int = 1
    takes: float = 0.0
    """Seconds that the staging of a wave takes."""
    cancelled_at: str = ""
    dry_run: bool = False
    steps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = MemoryTable(self.clock)
        self.table.commit(ORIGIN)

    def on_step(self, step: str) -> None:
        self.steps.append(step)
        if step == "staged" and self.others:
            self.others -= 1
            self.table.commit(self._proposal(self.landed() + 1, run="another"))

    def landed(self) -> int:
        position = self.table.load().positions.of(KEY)
        return 0 if position is None or position.sequence is None else position.sequence

    def _proposal(self, number: int, *, run: str) -> Proposal:
        return Proposal(
            (a_range(KEY, self.table.load().positions.of(KEY), number, rows=1, run=run),), whole=True
        )

    def begin(self) -> None:
        self.steps.append("begin")

    def plan(self) -> int | Wave:
        self.steps.append("plan")
        return self.landed() + 1 if self.landed() < LAST else Wave(Does.COPY)

    def stage(self, plan: int) -> ReadyWave:
        self.steps.append("stage")
        self.clock.pause(self.takes)
        proposal = None if self.dry_run else self._proposal(plan, run="ours")
        return ReadyWave(self.table, proposal, Wave(Does.COPY, 1, 1, is_last=plan == LAST), self._follow)

    def check_wanted(self) -> None:
        self.steps.append("wanted?")
        if self.cancelled_at == f"{self.landed() + 1}":
            raise Unknown("cancelled")

    def refusal(self, refused: Sequence[RangeRefused]) -> Overtaken:
        return Overtaken(f"{len(refused)} refused")

    def give_way(self, plan: int) -> None:
        self.steps.append(f"{plan} gives way")

    def _follow(self, wave: Wave) -> Wave:
        self.steps.append("follow")
        return replace(wave, notes=(f"followed {wave.snapshot is not None}",))

    def end(self, wave: Wave) -> Wave:
        self.clock.pause(1.0)
        return replace(wave, notes=(*wave.notes, "the end"))


def notes(operation: Landing, at_most: timedelta | None = None) -> list[tuple[str, ...]]:
    return [wave.notes for wave in operation.waves(at_most=at_most)]


def test_waves_go_on_until_the_last_one_which_has_the_notes_of_the_end():
    operation = Landing()
    assert notes(operation) == [("followed True",), ("followed True",), ("followed True", "the end")]
    assert operation.landed() == LAST
    assert operation.steps[: len(IN_ORDER)] == IN_ORDER
    assert operation.steps.count("begin") == 1


def test_where_nothing_is_left_the_only_wave_commits_nothing():
    operation = Landing()
    notes(operation)
    before, operation.steps = operation.table.load().snapshot, []
    (wave,) = operation.waves()
    assert (wave.snapshot, wave.notes, operation.steps) == (None, ("the end",), ["begin", "plan"])
    assert operation.table.load().snapshot == before


def test_the_first_wave_that_ends_late_is_the_last_one_of_the_process():
    operation = Landing(takes=0.6)
    assert notes(operation, SECOND) == [("followed True",), ("followed True", "the end")]
    assert operation.landed() == 2


def test_after_another_run_was_faster_the_next_wave_takes_what_is_left():
    operation = Landing(others=2, tries=3)
    assert notes(operation) == [("followed True", "the end")]
    assert [step for step in operation.steps if "gives way" in step] == ["1 gives way", "2 gives way"]
    assert operation.landed() == LAST


def test_an_operation_that_is_overtaken_each_time_gives_up():
    with pytest.raises(Overtaken, match="1 refused"):
        notes(Landing(others=2, tries=2))


def test_waves_that_land_begin_the_tries_anew():
    operation = Landing(tries=2)
    waves = operation.waves()
    operation.others = 1
    assert next(waves).notes
    operation.others = 1
    assert [wave.is_last for wave in waves] == [True]


def test_an_operation_that_was_cancelled_while_a_wave_was_staged_commits_no_more():
    operation = Landing(cancelled_at="2")
    with pytest.raises(Unknown, match="cancelled"):
        notes(operation)
    assert operation.landed() == 1


def test_a_wave_without_a_proposal_commits_nothing_and_is_followed_all_the_same():
    operation = Landing(dry_run=True)
    assert operation.wave().notes == ("followed False",)
    assert operation.landed() == 0
    assert "committed" not in operation.steps


@pytest.mark.parametrize(
    ("wave", "sentence"),
    [
        (Wave(Does.PARSE), "nothing new to parse"),
        (Wave(Does.PARSE, 9, 5, {"filter": 2, "duplicate": 1}, snapshot=1), "5 rows parsed, 1 set aside, 2 dropped by filter, 1 dropped by duplicate"),
        (Wave(Does.REDRIVE, 1, 1, snapshot=1), "1 row parsed again: 1 mended, 0 still set aside"),
        (Wave(Does.REDRIVE, 5, 3), "dry run, nothing was committed: 5 rows parsed again: 3 mended, 2 still set aside"),
        (Wave(Does.COPY), "nothing left to copy"),
        (Wave(Does.COPY, 1_000, 1_000, snapshot=1), "1,000 rows copied"),
        (Wave(Does.READ), "0 rows read from the stream"),
        (Wave(Does.REPLACE), "nothing left to replace"),
        (Wave(Does.REPLACE, 3, 2, removed=4, snapshot=1), "3 rows parsed again: 2 parsed, 1 set aside, in the place of 4 older rows"),
        (Wave(Does.UNPACK), "no aggregate found that is left to take apart"),
        (Wave(Does.UNPACK, 1, 7, snapshot=1), "1 aggregate taken apart: 7 rows in the place of 1"),
    ],
)  # fmt: skip
def test_a_wave_says_what_it_did(wave: Wave, sentence: str):
    assert f"{wave}" == sentence


def test_a_wave_without_accounts_did_nothing():
    assert wave_of(Does.REPLACE, 0, (), is_last=True) == Wave(Does.REPLACE)
