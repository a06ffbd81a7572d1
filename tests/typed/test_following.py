"""One run that follows several typed tables: whose turn it is, how long it goes on, and when it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from headrace.pipeline.errors import HeadraceError, WrongShape
from headrace.pipeline.typed.done_wave import Does, Wave
from headrace.pipeline.typed.following import Following
from tests.lake.samples import StandingClock

NOTHING = Wave(Does.PARSE)
SOME = Wave(Does.PARSE, rows=1, landed=1, snapshot=1)
MORE = replace(SOME, is_last=False)
EVERY = 30.0
LINGER = timedelta(minutes=5)


@dataclass
class Scripted:
    """A parsing whose waves are those of a script; the last one is repeated."""

    clock: StandingClock
    script: Sequence[Wave | HeadraceError]
    takes: float = 1.0
    began: list[float] = field(default_factory=list)

    def waves(self, *, at_most: timedelta) -> Iterator[Wave]:
        assert len(self.began) < 1_000, "the run doesn't end"
        self.began.append(self.clock.monotonic())
        self.clock.pause(self.takes)
        wave = self.script[min(len(self.began), len(self.script)) - 1]
        if isinstance(wave, HeadraceError):
            raise wave
        yield wave


class Place:
    def __init__(self, **scripts: Sequence[Wave | HeadraceError]) -> None:
        self.clock = StandingClock()
        self.zero = self.clock.monotonic()
        self.parsings = {name: Scripted(self.clock, script) for name, script in scripts.items()}
        self.heard: list[tuple[str, Wave]] = []
        self.following = Following(
            parsings=self.parsings,  # type: ignore[arg-type]
            clock=self.clock,
            on_wave=lambda name, wave: self.heard.append((name, wave)),
        )

    def follow(self) -> None:
        self.following.follow(LINGER)

    def elapsed(self) -> float:
        return self.clock.monotonic() - self.zero

    def began(self, name: str) -> list[float]:
        return [moment - self.zero for moment in self.parsings[name].began]


def test_one_run_follows_all_targets_while_records_come_and_looks_at_each_twice_a_minute() -> None:
    place = Place(a=[SOME], b=[SOME], c=[SOME])
    place.follow()
    assert LINGER.total_seconds() < place.elapsed() <= LINGER.total_seconds() + EVERY
    for number, name in enumerate("abc"):
        assert place.began(name) == [number + EVERY * turn for turn in range(11)]
    runs_an_hour = 3600 / (place.elapsed() + EVERY / 2)
    assert runs_an_hour <= 12


def test_a_target_that_is_far_behind_leaves_the_others_their_turn() -> None:
    place = Place(a=[MORE] * 9 + [SOME], b=[SOME])
    place.follow()
    assert place.began("a")[:10] == place.began("a")[:1] + [2.0 * turn for turn in range(1, 10)]
    assert place.began("b")[:10] == [1 + 2.0 * turn for turn in range(10)]


def test_a_run_ends_when_nothing_has_come_for_two_minutes() -> None:
    place = Place(a=[SOME, NOTHING], b=[NOTHING])
    place.follow()
    assert 120.0 <= place.elapsed() <= 120.0 + EVERY + 4
    place = Place(a=[SOME, NOTHING, NOTHING, SOME, NOTHING], b=[NOTHING])
    place.follow()
    assert place.elapsed() >= 3 * EVERY + 120.0


def test_a_target_that_fails_ends_the_run_after_the_turns_of_the_others() -> None:
    place = Place(a=[SOME, WrongShape("a hundred rows are bad")], b=[SOME], c=[SOME])
    place.follow()
    assert place.following.failed == {"a": "a hundred rows are bad"}
    assert [name for name, _ in place.heard] == ["a", "b", "c", "b", "c"]


def test_each_wave_is_told_of_with_its_target() -> None:
    place = Place(a=[MORE, SOME, NOTHING], b=[NOTHING])
    place.follow()
    assert place.heard[:4] == [("a", MORE), ("b", NOTHING), ("a", SOME), ("b", NOTHING)]
