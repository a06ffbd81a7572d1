"""Any settings can be written and read back unchanged. Any text gives settings or a BadSetting."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.blocks.coordination import CoordinationSettings
from headrace.pipeline.settings.choices import Billing, Create, InitialPosition, StreamsMode
from headrace.pipeline.settings.file import parse_settings
from headrace.pipeline.settings.model import (
    LandingSettings,
    Settings,
    SparkSettings,
    StreamSettings,
    TimeSettings,
    WaveSettings,
    WorkerSettings,
)
from headrace.pipeline.settings.names import variable_for
from headrace.pipeline.settings.problems import ValueSource
from headrace.pipeline.settings.secrets import holds_secret, names_secret
from headrace.pipeline.settings.values import is_mapping, knobs, leaves, read_value, settings_of, show

names = st.from_regex(r"[A-Za-z0-9_.-]{3,40}", fullmatch=True).filter(lambda name: "shardId-" not in name)
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(
    lambda text: text.strip() == text and not holds_secret(text)
)
keys = texts.filter(lambda text: not names_secret(text))
mappings = st.dictionaries(keys, texts, max_size=3)
counts = st.integers(1, 10**12)
durations = st.timedeltas(timedelta(microseconds=1), timedelta(days=366))
moments = st.datetimes(
    datetime(1971, 1, 1),  # noqa: DTZ001 -- hypothesis adds the zone
    datetime(9998, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))]),
)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


streams = st.one_of(
    st.builds(
        StreamSettings,
        name=names,
        initial_position=st.sampled_from([InitialPosition.LATEST, InitialPosition.TRIM_HORIZON]),
    ),
    st.builds(
        StreamSettings,
        name=names,
        initial_position=st.just(InitialPosition.AT_TIMESTAMP),
        timestamp=moments,
    ),
)
sparks = st.one_of(
    st.builds(SparkSettings, master=texts, conf=mappings, threads=counts, tasks=counts),
    st.builds(SparkSettings, remote=st.sampled_from(["local[4]", "sc://a:1"]), conf=mappings, threads=counts),
)
workers = st.lists(
    st.builds(WorkerSettings, id=names.map(lambda name: f"w-{name}"), spark=sparks),
    min_size=1,
    max_size=3,
    unique_by=lambda worker: worker.id,
)
coordination = st.builds(
    CoordinationSettings,
    lease_table=maybe(names.map(lambda name: f"{name}-l")),
    worker_table=maybe(names.map(lambda name: f"{name}-w")),
    state_table=maybe(names.map(lambda name: f"{name}-s")),
    create=st.sampled_from(Create),
    billing=st.sampled_from(Billing),
    read_capacity=counts,
    point_in_time_recovery=st.booleans(),
    tags=mappings,
)
short = st.timedeltas(timedelta(microseconds=1), timedelta(seconds=10) - timedelta(microseconds=1))
long = st.timedeltas(timedelta(seconds=20), timedelta(days=366))
settings_ = st.builds(
    Settings,
    application=names.map(lambda name: f"{name}-a"),
    streams=st.tuples(streams),
    streams_mode=st.sampled_from(StreamsMode),
    workers=workers.map(tuple),
    coordination=coordination,
    landing=st.builds(LandingSettings, table=st.just("a.b.c"), catalog=mappings, state=names),
    aws=st.builds(AwsSettings, region=maybe(texts), profile=maybe(texts)),
    wave=st.builds(WaveSettings, records=counts, bytes=counts, seconds=short, every=short),
    times=st.builds(
        TimeSettings,
        worker_tick=short,
        leader_tick=short,
        lease_duration=long,
        linger=long,
        launch_grace=durations,
        shard_sync=durations,
        probe=durations,
    ),
)


def plain(value: Any, unit: str = "") -> Any:
    """Write the settings as YAML as a person would."""
    if is_dataclass(value):
        return {
            spec.name: plain(getattr(value, spec.name), spec.metadata.get("unit", ""))
            for spec in settings_of(type(value))
        }
    if isinstance(value, tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return dict(value)
    return None if value is None else show(value, unit=unit)


@given(settings=settings_, flow=st.booleans())
def test_settings_written_as_yaml_are_read_as_they_were(settings: Settings, *, flow: bool):
    text = yaml.safe_dump(plain(settings), default_flow_style=flow, allow_unicode=True, sort_keys=flow)
    loaded = parse_settings(text, {}, name="h.yaml")
    assert loaded.settings == settings
    assert set(loaded.origins) == {key for key, *_ in leaves(settings)}


@given(settings_)
def test_settings_written_as_variables_are_read_as_they_were(settings: Settings):
    environ = _environ(settings)
    loaded = parse_settings("{aws: }", environ, name="h.yaml")
    assert loaded.settings == settings
    assert {str(source) for source in loaded.origins.values()} <= {*environ, "default"}


def _environ(settings: Settings) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, spec, hint in [
        knob for n in range(len(settings.workers)) for knob in knobs(Settings, index=str(n))
    ]:
        value = _at(settings, key)
        if value is not None:
            text = (
                json.dumps(value, ensure_ascii=False)
                if is_mapping(hint)
                else show(value, unit=spec.metadata.get("unit", ""))
            )
            found[variable_for(key)] = text
    return found


def _at(value: Any, key: str) -> Any:
    """The value of a dotted key; None if a list is shorter."""
    for name in key.split("."):
        if isinstance(value, tuple):
            value = value[int(name)] if int(name) < len(value) else None
        elif value is not None:
            value = getattr(value, name)
    return value


@given(durations)
def test_a_duration_is_read_as_it_was_shown(duration: timedelta):
    assert read_value(timedelta, show(duration)) == duration


@given(st.text() | st.lists(st.sampled_from(list("{}[]:,-*&!|>'\"\n\t #ab%@`\\"))).map("".join))
def test_any_text_gives_settings_or_an_error_with_a_sentence(text: str):
    with pytest.raises(BadSetting) as caught:
        parse_settings(text, {}, name="h.yaml")
    assert "h.yaml" in str(caught.value)


SECTIONS = [(key, spec.name) for key, spec, _ in knobs(Settings) if "." in key and not key[-1].isdigit()]


@given(st.sampled_from(SECTIONS), st.data())
def test_the_error_for_a_mistyped_key_names_the_right_key(knob: tuple[str, str], data: st.DataObject):
    key, name = knob
    at = data.draw(st.integers(0, len(name)))
    slipped = name[:at] + data.draw(st.sampled_from("qjx")) + name[at:]
    section = key.rpartition(".")[0].split(".")
    tree: Any = {slipped: "1"}
    for part in reversed(section):
        tree = [tree if slipped in tree else {"id": "w", **tree}] if part.isdigit() else {part: tree}
    with pytest.raises(BadSetting) as caught:
        parse_settings(
            yaml.safe_dump({"application": "app", "streams": [{"name": "s"}], **tree}), {}, name="h"
        )
    assert f"did you mean {name!r}?" in str(caught.value)


@dataclass(frozen=True, slots=True)
class _Odd:
    """Types that no present setting has."""

    ratio: float = 0.5


@pytest.mark.parametrize(("text", "value"), [("1", 1.0), ("0.25", 0.25), ("-1e3", -1000.0)])
def test_a_number_may_have_a_fraction(text: str, value: float):
    assert read_value(float, text) == value
    assert [hint for _, _, hint in knobs(_Odd)] == [float]


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "x", ""])
def test_a_number_is_finite(text: str):
    with pytest.raises(ValueError, match=text or "could not"):
        read_value(float, text)


def test_a_source_is_shown_as_file_and_line_or_variable():
    assert [str(ValueSource()), str(ValueSource("a.yaml", 7)), str(ValueSource("HEADRACE__X"))] == [
        "default",
        "a.yaml:7",
        "HEADRACE__X",
    ]
