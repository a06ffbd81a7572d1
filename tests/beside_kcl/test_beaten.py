"""What `status` and `doctor` tell of `headrace beat`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from headrace.pipeline.beside_kcl.beaten import workers_without_beater
from headrace.pipeline.doctor.beating import a_process_beats
from headrace.pipeline.doctor.diagnosis import Health
from tests.duties.beating import BeatenWorld
from tests.duties.reading import PortsOf


class Live:
    def __init__(self, beaten: BeatenWorld) -> None:
        self.settings = beaten.world.settings
        self.ports: Any = PortsOf(beaten.world)


def test_a_worker_that_ticks_and_that_no_process_beats_for_is_named_with_the_remedy():
    beaten = BeatenWorld()
    found = list(a_process_beats(Live(beaten)))  # type: ignore[arg-type]
    assert [diagnosis.health for diagnosis in found] == [Health.ILL]
    assert "no process has beaten for w1 within the last minute" in found[0].sentence
    assert "`headrace beat`" in found[0].advice
    beaten.turn()
    found = list(a_process_beats(Live(beaten)))  # type: ignore[arg-type]
    assert [diagnosis.health for diagnosis in found] == [Health.WELL]


def test_a_process_that_has_beaten_a_minute_ago_or_by_a_clock_that_is_ahead_counts_as_silent():
    beaten = BeatenWorld()
    beaten.turn()
    world = beaten.world
    rows, now = world.rows.listing().workers, world.clock.now()
    for shift, silent in (
        (timedelta(seconds=50), ()),
        (timedelta(seconds=70), ("w1",)),
        (-timedelta(hours=1), ("w1",)),
    ):
        assert workers_without_beater(world.settings, rows, now + shift) == silent


def test_a_worker_that_stops_or_never_ticked_needs_no_process():
    beaten = BeatenWorld()
    beaten.world.rows.set_stopping("w1", stopping=True)
    rows, now = beaten.world.rows.listing().workers, beaten.world.clock.now()
    assert workers_without_beater(beaten.world.settings, rows, now) == ()
    assert workers_without_beater(beaten.world.settings, (), now) == ()
