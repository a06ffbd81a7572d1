"""The settings `metrics`: off unless they are asked for, and wrong ones refused with what is allowed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.app.wiring import wire
from headrace.pipeline.errors import WrongSettings
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.metrics import own_series as own
from headrace.pipeline.metrics.metering import Metering, NoMetering
from headrace.pipeline.settings.blocks.metrics import dimensions_in
from headrace.pipeline.settings.file import read_settings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.rules import metrics as metrics_rules

_LEAST = "application: app\nstreams: [{name: orders}]\n"


def settings_with(tmp_path: Path, block: str) -> Settings:
    file = tmp_path / "headrace.yaml"
    file.write_text(f"{_LEAST}{block}", encoding="utf-8")
    return read_settings(file, {}).settings


def test_metrics_are_off_by_default(tmp_path: Path) -> None:
    assert isinstance(wire(settings_with(tmp_path, "")).metering, NoMetering)
    off = settings_with(tmp_path, "metrics: {to: cloudwatch, level: NONE}")
    assert isinstance(wire(off).metering, NoMetering)


def test_metrics_that_are_asked_for_are_wired(tmp_path: Path) -> None:
    settings = settings_with(
        tmp_path, "metrics: {to: cloudwatch, dimensions: 'ShardId, StreamName', every: 10s}"
    )
    assert dimensions_in(settings.metrics.dimensions) == {"ShardId", "StreamName"}
    assert settings.metrics.every == timedelta(seconds=10)
    wired = wire(settings)
    assert isinstance(wired.metering, Metering)


def test_what_the_applications_clients_ask_is_sent_with_its_metrics(tmp_path: Path, aws: LocalAws) -> None:
    place = f"aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}"
    wired = wire(settings_with(tmp_path, f"metrics: {{to: cloudwatch, level: DETAILED}}\n{place}"))
    wired.ports.dynamodb().list_tables()  # type: ignore[attr-defined]
    wired.ports.kinesis().list_streams()  # type: ignore[attr-defined]
    assert isinstance(wired.metering, Metering)
    data = wired.metering.publishing._take()
    calls = {datum.dimensions[1:]: datum.statistics.total for datum in data if datum.series is own.CALLS}
    assert calls == {(("Call", "dynamodb:ListTables"),): 1, (("Call", "kinesis:ListStreams"),): 1}


@pytest.mark.parametrize(
    ("block", "key", "said"),
    [
        ("metrics: {to: datadog}", "metrics.to", "none | cloudwatch | otel"),
        ("metrics: {namespace: AWS/Kinesis}", "metrics.namespace", "not beginning"),
        ("metrics: {dimensions: 'ShardId, Colour'}", "metrics.dimensions", "'Colour'"),
        ("metrics: {every: 1h}", "metrics.every", "5m"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(
    tmp_path: Path, block: str, key: str, said: str
) -> None:
    with pytest.raises(WrongSettings) as refused:
        settings_with(tmp_path, block)
    assert [mistake.key for mistake in refused.value.mistakes] == [key]
    assert said in str(refused.value)


def test_a_missing_extra_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_rules, "find_spec", lambda _name: None)
    with pytest.raises(WrongSettings, match="extra `otel` brings: install it from where this Headrace"):
        settings_with(tmp_path, "metrics: {to: otel}")


def test_the_extra_that_is_installed_here_is_found(tmp_path: Path) -> None:
    assert settings_with(tmp_path, "metrics: {to: otel}").metrics.is_on
