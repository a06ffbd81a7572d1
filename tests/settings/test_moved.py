"""A settings file with earlier names can still be read. Each earlier name works, is reported once, and conflicts
with the current name."""

from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.cli import main
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.choices import Heartbeat, Layout, Mode
from headrace.pipeline.settings.file import Loaded, parse_settings
from headrace.pipeline.settings.kcl_block import KclSettings
from headrace.pipeline.settings.model import AssignmentSettings, Settings, TimeSettings
from headrace.pipeline.settings.moved import GONE, MOVED
from headrace.pipeline.settings.names import variable_for
from headrace.pipeline.settings.problems import ValueSource
from headrace.pipeline.settings.values import allowed, knobs

HEAD = "application: my-app\nstreams: [{name: my-stream}]\n"
HINTS = {key: hint for key, _, hint in knobs(Settings)}
FILE_WITH_EARLIER_NAMES = (
    HEAD
    + """\
coordination:
  mode: 2.x
  create: never
  heartbeat: lease
  kcl_failover: 40s
  allow_foreign_checkpoints: true
  layout: M
  steal_at_most: 2
  very_old_first: false
  scan_segments: 4
assignment: {graceful: false, balance_every: 5, max_throughput_kbps: 9.5, dampening: 0.5, overshoot: false, ema_alpha: 0.25}
metrics:
  cpu: false
  max_utilisation: 80
  network_mbps: 50
aws: {wire: cbor}
times:
  lease_duration: 40s
  hung_after: 3m
  leader_deadline: 30s
  leader_lock: 20s
  completed_cleanup: 2m
  garbage_cleanup: 1h
"""
)


def parse(text: str, **environ: str) -> Loaded:
    return parse_settings(text, environ, name="h.yaml")


def refusal(text: str, **environ: str) -> str:
    with pytest.raises(BadSetting) as caught:
        parse(text, **environ)
    return str(caught.value)


def value_for(key: str) -> str:
    """A value that is allowed for the current setting."""
    rule = allowed(HINTS[key])
    samples = {"a number": "0.5", "true | false": "false"}
    if "duration" in rule:
        return "45s"
    return samples.get(rule) or ("7" if "whole" in rule else rule.split(" | ")[-1])


def test_a_file_with_earlier_names_gives_the_same_settings() -> None:
    settings = parse(FILE_WITH_EARLIER_NAMES).settings
    assert settings.kcl == KclSettings(
        mode=Mode.KCL_2,
        failover=timedelta(seconds=40),
        heartbeat=Heartbeat.LEASE,
        allow_foreign_checkpoints=True,
        layout=Layout.M,
        steal_at_most=2,
        very_old_first=False,
        balance_every=5,
        max_throughput_kbps=9.5,
        max_utilisation=80,
        network_mbps=50,
        dampening=0.5,
        overshoot=False,
        ema_alpha=0.25,
    )
    assert settings.assignment == AssignmentSettings(graceful=False, cpu=False)
    assert settings.times == TimeSettings(lease_duration=timedelta(seconds=40), cleanup=timedelta(minutes=2))
    assert settings.is_shared


def test_each_earlier_name_is_reported_in_one_sentence_with_its_line() -> None:
    loaded = parse(FILE_WITH_EARLIER_NAMES)
    told = [note.partition(":")[2].split()[1] for note in loaded.notes]
    assert set(told) == {*MOVED, *GONE} - {"discovery.every"}
    assert len(told) == len(set(told))
    assert loaded.notes[0] == (
        "h.yaml:4: coordination.mode is now called kcl.mode: rename it. Until then its value counts"
    )
    assert (
        "h.yaml:21: times.hung_after has no effect any more: a run counts as hung when a wave takes longer than twice "
        "wave.seconds, and longer than two minutes. Remove times.hung_after"
    ) in loaded.notes
    assert str(loaded.origins["kcl.mode"]) == "h.yaml:4"


def test_a_file_with_current_names_causes_no_report() -> None:
    assert parse(f"{HEAD}kcl: {{layout: S}}\ntimes: {{cleanup: 1m}}\n").notes == ()


@pytest.mark.parametrize("old", MOVED)
def test_each_variable_with_an_earlier_name_works_and_is_reported(old: str) -> None:
    new = MOVED[old]
    environ = {variable_for(old): value_for(new)}
    if new in {"kcl.mode", "kcl.failover", "kcl.allow_foreign_checkpoints"}:
        environ["HEADRACE__KCL__HEARTBEAT"] = "lease"
    if new in {"kcl.failover", "kcl.allow_foreign_checkpoints"}:
        environ["HEADRACE__TIMES__LEASE_DURATION"] = "45s"
        environ[
            variable_for("kcl.failover" if new != "kcl.failover" else "kcl.allow_foreign_checkpoints")
        ] = "45s" if new != "kcl.failover" else "true"
        environ[variable_for(old)] = "true" if new != "kcl.failover" else "45s"
    loaded = parse(HEAD, **environ)
    assert loaded.origins[new] == ValueSource(variable_for(old))
    assert loaded.notes == (
        f"{variable_for(old)} is now called {variable_for(new)}: rename it. Until then its value counts",
    )


@pytest.mark.parametrize("old", GONE)
def test_each_removed_variable_has_no_effect_and_is_reported(old: str) -> None:
    loaded = parse(HEAD, **{variable_for(old): "whatever"})
    assert loaded.settings == parse(HEAD).settings
    (note,) = loaded.notes
    assert note.startswith(f"{variable_for(old)} has no effect any more: ")


def test_a_variable_overrides_the_file_if_both_use_the_earlier_name() -> None:
    loaded = parse(f"{HEAD}coordination: {{layout: M}}", HEADRACE__COORDINATION__LAYOUT="S")
    assert loaded.settings.kcl.layout is Layout.S
    assert len(loaded.notes) == 2


def test_an_empty_variable_with_an_earlier_name_means_the_default_and_causes_no_conflict() -> None:
    loaded = parse(HEAD, HEADRACE__COORDINATION__LAYOUT=" ", HEADRACE__KCL__LAYOUT="S")
    assert loaded.settings.kcl.layout is Layout.S
    assert (
        parse(f"{HEAD}coordination: {{layout: S}}", HEADRACE__COORDINATION__LAYOUT="").settings
        == parse(HEAD).settings
    )


BOTH_NAMES = [
    ("coordination: {layout: M}\nkcl: {layout: M}", {}, ["h.yaml:3: ", "(h.yaml:4)"]),
    ("kcl: {layout: M}\ncoordination: {layout: M}", {}, ["h.yaml:4: ", "(h.yaml:3)"]),
    ("coordination: {layout: M}", {"HEADRACE__KCL__LAYOUT": "S"}, ["h.yaml:3: ", "(HEADRACE__KCL__LAYOUT)"]),
    (
        "kcl: {layout: M}",
        {"HEADRACE__COORDINATION__LAYOUT": "S"},
        ["HEADRACE__COORDINATION__LAYOUT: ", "(h.yaml:3)"],
    ),
    (
        "",
        {"HEADRACE__KCL__LAYOUT": "S", "HEADRACE__COORDINATION__LAYOUT": "S"},
        ["HEADRACE__COORDINATION__LAYOUT: ", "(HEADRACE__KCL__LAYOUT)"],
    ),
]


@pytest.mark.parametrize(("text", "environ", "places"), BOTH_NAMES)
def test_both_names_of_one_setting_are_an_error_that_names_both(
    text: str, environ: dict[str, str], places: list[str]
) -> None:
    message = refusal(HEAD + text, **environ)
    assert message.startswith(places[0])
    assert "coordination.layout and kcl.layout" in message
    assert places[1] in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("coordination: {layout: Q}", "h.yaml:3: kcl.layout is 'Q'; allowed: auto | M | S"),
        ("coordination: {layout: [M]}", "h.yaml:3: kcl.layout is a list"),
        ("coordination: {layout: M, layout: S}", "h.yaml:3: kcl.layout is given twice"),
        ("coordination: {layout: M}\nkcl: text", "h.yaml:4: kcl is a single value"),
        ("coordination: text", "h.yaml:3: coordination is a single value"),
        ("metrics: {cpus: true}", "h.yaml:3: unknown key 'metrics' in the top level"),
        ("coordination: &a {layout: M}\nwave: *a", "h.yaml:3: unknown key 'layout' in wave"),
        ("nothing:", "h.yaml:3: unknown key 'nothing' in the top level"),
        ("aws: {wire: AKIAIOSFODNN7EXAMPLE}", "h.yaml:3: aws.wire looks like a secret"),
    ],
)
def test_a_mistake_under_an_earlier_name_is_reported_with_its_line(text: str, expected: str) -> None:
    message = refusal(HEAD + text)
    assert message.startswith(expected)
    assert "AKIA" not in message


@pytest.mark.parametrize(
    "text", ["metrics:\n", "metrics: {}\n", "metrics: {cpu: }\nkcl:\ncoordination: {layout: }\n"]
)
def test_an_empty_section_of_earlier_names_means_the_defaults(text: str) -> None:
    assert parse(HEAD + text).settings == parse(HEAD).settings


def test_earlier_and_current_names_differ() -> None:
    current = set(HINTS)
    assert set(MOVED.values()) <= current
    assert {*MOVED, *GONE} & current == set()
    assert len(set(MOVED.values())) == len(MOVED)


def test_the_document_lists_every_earlier_name() -> None:
    text = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")
    for old, new in MOVED.items():
        assert f"| `{old}` | `{new}` |" in text
    for old, why in GONE.items():
        assert f"| `{old}` | none: {why} |" in text


def test_a_command_reports_an_earlier_name_once_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "h.yaml"
    file.write_text(f"{HEAD}coordination: {{layout: M}}\n", encoding="utf-8")
    assert main(["config", "--config", str(file)]) == 0
    out, err = capsys.readouterr()
    assert err == (
        f"headrace: {file}:3: coordination.layout is now called kcl.layout: rename it. Until then its value counts\n"
    )
    assert "is now called" not in out
