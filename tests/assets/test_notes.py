"""What a wave reports to a person though no shard failed."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.cli.beside.pipes import PipesJob
from headrace.pipeline.cli.consume import _Output
from headrace.pipeline.duties.waves.attempt import Attempt
from headrace.pipeline.duties.waves.report import WaveReport
from headrace.pipeline.settings.choices import OnDataLoss
from tests.dagster.fixtures import MakeWorld
from tests.duties.life import Life

GAP = "orders/shardId-000000000000: records that arrived between 1 and 2 may be lost; the gap is recorded"


def test_lost_records_are_a_warning_in_the_log_of_the_run(make_world: MakeWorld):
    world = make_world(shards=1)
    world.settle()
    wave = Attempt.wave

    def noted(run: Attempt, keys: Iterable[str] | None = None) -> WaveReport:
        return replace(wave(run, keys), notes=(GAP,))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Attempt, "wave", noted)
        result = world.read()
    assert result.success
    told = [log for log in world.instance.all_logs(result.run_id) if GAP in log.user_message]
    assert told
    assert {log.level for log in told} == {logging.WARNING}


def test_headrace_consume_prints_each_note_on_a_line_of_its_own(capsys: pytest.CaptureFixture[str]):
    _Output(PipesJob(None)).show(WaveReport(notes=(GAP, "another")))
    assert capsys.readouterr().out.splitlines() == [
        "wave: 0 records of 0 shards landed",
        f"  {GAP}",
        "  another",
    ]


def test_the_waves_report_notes_a_recorded_gap():
    life = Life(on_data_loss=OnDataLoss.CONTINUE)
    life.sync()
    life.produce(0)
    life.wave()
    life.produce(0)
    life.later(timedelta(hours=25))
    life.produce(0)
    report = life.wave()
    assert ["may be lost" in note for note in report.notes] == [True]
