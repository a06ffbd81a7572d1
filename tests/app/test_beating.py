"""The loop of `headrace beat` for one worker."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.pipeline.app.beating import Beating
from headrace.pipeline.errors import Unreachable
from tests.duties.beating import EVERY, BeatenWorld
from tests.duties.reading import wiring_of
from tests.memory.clock import MemoryClock


class AfterTurns:
    """The end of the process, after so many turns. A wait moves the clock."""

    def __init__(self, clock: MemoryClock, turns: int) -> None:
        self.clock, self.left, self.waits = clock, turns, list[float]()
        self.asked_before_a_turn = True

    def wait(self, timeout: float) -> bool:
        is_over = self.left <= 0
        if self.asked_before_a_turn:
            self.asked_before_a_turn = False
            return is_over
        self.asked_before_a_turn = True
        self.left -= 1
        self.waits.append(timeout)
        self.clock.advance(timedelta(seconds=timeout))
        return self.left <= 0


def test_turns_come_at_a_fixed_rate_and_a_frozen_process_doesn_t_make_up_for_what_it_missed():
    world = BeatenWorld().world
    over, said = AfterTurns(world.clock, 6), list[str]()
    get = world.rows.get

    def slow(worker_id: str) -> object:
        world.clock.advance(timedelta(seconds=30 if over.left == 4 else 1))
        return get(worker_id)

    world.rows.get = slow  # type: ignore[method-assign,assignment]
    Beating(wiring_of(world), "w1", said.append).until(over.wait)
    period = EVERY.total_seconds()
    assert over.waits == pytest.approx([period - 1, period - 1, 0.0, period - 1, period - 1, period - 1])
    assert said == ["worker w1: beats between its ticks"]


def test_a_failed_turn_is_told_once_and_the_next_ones_go_on():
    world = BeatenWorld().world
    said: list[str] = []
    get, failures = world.rows.get, iter([True, True, False, False])

    def failing(worker_id: str) -> object:
        if next(failures):
            raise Unreachable("DynamoDB didn't answer")
        return get(worker_id)

    world.rows.get = failing  # type: ignore[method-assign,assignment]
    Beating(wiring_of(world), "w1", said.append).until(AfterTurns(world.clock, 4).wait)
    assert said == [
        "worker w1: missed a beat, and tries the next one: DynamoDB didn't answer",
        "worker w1: beats between its ticks",
    ]
