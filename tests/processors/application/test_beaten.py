"""`headrace beat` beats for the applications of processors, too, so that one joins a fleet at KCL's default failover time."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import yaml

from headrace.pipeline.app.application_wiring import wire_application
from headrace.pipeline.app.beating import beaten_wirings
from headrace.pipeline.app.wiring import NoDagster, Wiring
from headrace.pipeline.cli.beside.beater_beside import beater_beside
from headrace.pipeline.doctor.beating import a_process_beats
from headrace.pipeline.doctor.diagnosis import Health
from headrace.pipeline.duties.fleet.beater import BeaterMemory
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.file import parse_settings
from headrace.pipeline.settings.model import Settings

PROCESSOR = {"name": "words", "callable": "recording:Recording", "mode": "application", "failover": "10s"}


def settings_on(aws: LocalAws, **processor: Any) -> Settings:
    name = f"app-{uuid.uuid4().hex[:8]}"
    aws.client("kinesis").create_stream(StreamName=name, ShardCount=2)
    written = {
        "application": name,
        "streams": [{"name": name}],
        "workers": [{"id": "w1"}],
        "aws": {"region": aws.region, "endpoint": aws.endpoint},
        "processors": [{**PROCESSOR, "application": f"{name}-words", **processor}],
    }
    return parse_settings(yaml.safe_dump(written), {}, name="headrace.yaml").settings


@pytest.fixture
def settings(aws: LocalAws) -> Settings:
    return settings_on(aws, beat="process")


def ticked(settings: Settings) -> Wiring:
    """The application of the processor after its first ticks, which give both leases to w1."""
    own = wire_application(settings, settings.processors[0])
    led = worked = None
    for _ in range(3):
        led = own.leader_turn(led).cursor
        worked = own.worker_turn("w1", worked, instance="dagster", runs=NoDagster()).cursor
    assert {row.holder for row in own.leases().scan().leases} == {"w1"}
    return own


def counters(own: Wiring) -> list[int]:
    return [row.counter for row in own.leases().scan().leases]


def test_each_turn_moves_the_counters_of_the_processors_leases(settings: Settings) -> None:
    own = ticked(settings)
    before = counters(own)
    (beaten,) = beaten_wirings(settings)
    assert beaten.settings.application == own.settings.application
    memory = beaten.beater("w1").turn(BeaterMemory()).memory
    memory = beaten.beater("w1").turn(memory).memory
    assert beaten.beater("w1").turn(memory).beaten == 2
    assert all(after > count for count, after in zip(before, counters(own), strict=True))


def test_the_doctor_and_the_workers_tick_tell_where_no_process_beats_for_a_processor(
    settings: Settings,
) -> None:
    ticked(settings)
    (beaten,) = beaten_wirings(settings)

    class Live:
        def __init__(self) -> None:
            self.settings, self.ports = settings, beaten.ports

    (silent,) = a_process_beats(Live())  # type: ignore[arg-type]
    assert silent.health is Health.ILL
    assert (
        f"beat: process for {beaten.settings.application}, but no process has beaten for w1"
        in silent.sentence
    )
    beaten.beater("w1").turn(BeaterMemory())
    (well,) = a_process_beats(Live())  # type: ignore[arg-type]
    assert well.health is Health.WELL


def test_nothing_beats_for_a_processor_whose_ticks_do(aws: LocalAws, tmp_path) -> None:
    assert beaten_wirings(settings_on(aws, failover="20s")) == ()


def test_dev_starts_the_process_for_a_processor_alone(settings: Settings, tmp_path, monkeypatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(
        "headrace.pipeline.cli.beside.beater_beside.keep_beating",
        lambda command, *_: started.append(command),
    )
    with beater_beside(settings, tmp_path / "headrace.yaml", env={}, say=print):
        pass
    assert started[0][3] == "beat"
