"""The dashboard and the alarms in deploy/ name series that are sent, with all their dimensions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.metrics import kcl_series, own_series
from headrace.pipeline.metrics.series import Dimension, Instrument, Level

_DEPLOY = Path(__file__).parents[2] / "deploy"
_SENT = {(series.operation, series.name): series for series in (*kcl_series.ALL, *own_series.ALL)}
_STATISTICS = {"Average", "Maximum", "Minimum", "SampleCount", "Sum"}

Query = tuple[str, str, str, frozenset[str]]
"""Operation, name, statistic and the other dimensions."""


def _panels() -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = json.loads((_DEPLOY / "grafana/headrace.json").read_text())["panels"]
    return panels


def _alarms() -> dict[str, dict[str, Any]]:
    """The alarms as the template makes them where a person gives no parameter that has a default."""
    template = json.loads((_DEPLOY / "cloudwatch/alarms.json").read_text())
    defaults = {name: parameter.get("Default") for name, parameter in template["Parameters"].items()}
    alarms = {name: resource["Properties"] for name, resource in template["Resources"].items()}
    for alarm in alarms.values():
        missing = alarm["TreatMissingData"]
        alarm["TreatMissingData"] = defaults[missing["Ref"]] if isinstance(missing, dict) else missing
    return alarms


def _queries() -> Iterator[Query]:
    for panel in _panels():
        for target in panel["targets"]:
            (operation,) = target["dimensions"]["Operation"]
            others = frozenset(target["dimensions"]) - {"Operation"}
            yield operation, target["metricName"], target["statistic"], others
    for alarm in _alarms().values():
        values = {dimension["Name"]: dimension["Value"] for dimension in alarm["Dimensions"]}
        yield values.pop("Operation"), alarm["MetricName"], alarm["Statistic"], frozenset(values)


@pytest.mark.parametrize("query", list(_queries()), ids=lambda query: f"{query[0]} {query[1]} {query[2]}")
def test_each_metric_that_is_named_is_sent_at_the_default_level(query: Query) -> None:
    operation, name, statistic, dimensions = query
    series = _SENT[operation, name]
    # CloudWatch finds a series by exactly its dimensions. StreamId comes in applications with several streams only.
    assert dimensions == {dimension.value for dimension in series.dimensions} - {Dimension.STREAM.value}
    assert series.level is Level.SUMMARY
    assert statistic in _STATISTICS
    assert not (series.kind is Instrument.GAUGE and statistic == "Sum"), (
        "the sum of a gauge counts how often it was looked at"
    )


def test_panels_do_not_overlap_and_each_says_what_it_shows() -> None:
    places = {(p["gridPos"]["x"], p["gridPos"]["y"]) for p in _panels()}
    assert len(places) == len({panel["id"] for panel in _panels()}) == len(_panels())
    assert all(len(panel["description"]) > 10 and panel["title"] for panel in _panels())


def test_each_panel_has_its_own_letters_for_its_queries() -> None:
    for panel in _panels():
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)


def test_alarms_use_parameters_that_the_template_declares_and_each_parameter_is_used() -> None:
    template = json.loads((_DEPLOY / "cloudwatch/alarms.json").read_text())
    text = json.dumps(template["Resources"])
    used = set(re.findall(r'"Ref": "(\w+)"', text)) | set(re.findall(r"\$\{(\w+)\}", text))
    assert used == template["Parameters"].keys()


def test_each_alarm_tells_what_to_do_and_what_missing_data_means() -> None:
    for alarm in _alarms().values():
        assert alarm["AlarmDescription"].endswith(".")
        assert alarm["TreatMissingData"] in {"breaching", "notBreaching"}
        assert alarm["DatapointsToAlarm"] <= alarm["EvaluationPeriods"]


_SILENT_ONLY_WHERE_DEAD = {
    kcl_series.NUM_WORKERS,
    kcl_series.ASSIGN_SUCCESS,
    own_series.LAG,
    own_series.SHARDS_DUE,
}
"""Series that a living deployment sends all the time. The others are silent where there is nothing to tell, or are told together with one of
these."""


def test_no_alarm_stays_silent_because_the_deployment_is_dead() -> None:
    beats = {(series.operation, series.name) for series in _SILENT_ONLY_WHERE_DEAD}
    for name, alarm in _alarms().items():
        (operation,) = (value["Value"] for value in alarm["Dimensions"] if value["Name"] == "Operation")
        is_a_beat = (operation, alarm["MetricName"]) in beats
        assert (alarm["TreatMissingData"] == "breaching") is is_a_beat, name
