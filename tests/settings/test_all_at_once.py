"""One error lists all mistakes in the settings, in the file's order, and no mere consequences of them."""

from pathlib import Path

import pytest

from headrace.pipeline.cli import main
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.file import parse_settings, read_settings

WRONG = """\
application: a b
streams:
  - initial_position: AT_TIMESTAMP
  - name: orders
workers:
  - id: w/1
  - spark: {remote: yarn}
wave: {records: many, recrods: 5}
unknown: 1
times:
  worker_tick: 15s
  linger: 5q
landing:
  table: records
  catalog: [a]
coordination: {billing: cheap}
password: x
"""


def lines(text: str, **environ: str) -> list[str]:
    """The lines of the one error."""
    with pytest.raises(BadSetting) as caught:
        parse_settings(text, environ, name="h.yaml")
    return str(caught.value).splitlines()


def test_all_mistakes_are_listed_in_the_files_order_and_then_those_of_the_environment() -> None:
    told = lines(
        WRONG, HEADRACE__AWS__REGIO="x", HEADRACE__WAVE__BYTES="0", HEADRACE__AWS__ENDPOINT="localhost"
    )
    expected = [
        "h.yaml:1: application is 'a b'",
        "h.yaml:2: streams has 2 entries",
        "h.yaml:3: streams.0.name is missing",
        "h.yaml:3: streams.0.timestamp is missing",
        "h.yaml:6: workers.0.id is 'w/1'",
        "h.yaml:7: workers.1.id is missing",
        "h.yaml:7: workers.1.spark.remote is 'yarn'",
        "h.yaml:8: unknown key 'recrods' in wave: did you mean 'records'?",
        "h.yaml:8: wave.records is 'many'",
        "h.yaml:9: unknown key 'unknown'",
        "h.yaml:10: times.lease_duration is 20s; allowed: at least two worker ticks (30s)",
        "h.yaml:12: times.linger is '5q'",
        "h.yaml:14: landing.table is 'records'",
        "h.yaml:15: landing.catalog is a list",
        "h.yaml:16: coordination.billing is 'cheap'",
        "h.yaml:17: password looks like a secret",
        "HEADRACE__AWS__REGIO stands for no setting",
        "HEADRACE__WAVE__BYTES: wave.bytes is '0'",
        "HEADRACE__AWS__ENDPOINT: aws.endpoint is 'localhost'",
    ]
    assert [line[: len(start)] for line, start in zip(told, expected, strict=True)] == expected


@pytest.mark.parametrize(
    ("text", "only"),
    [
        # A rule isn't applied to a value that could not be read, nor to one that is compared with such a value.
        ("times: {lease_duration: 9x, worker_tick: 15s}", "times.lease_duration is '9x'"),
        ("times: {lease_duration: 9s, worker_tick: 5x}", "times.worker_tick is '5x'"),
        ("times: {lease_duratoin: 60s, worker_tick: 15s}", "unknown key 'lease_duratoin' in times"),
        ("times: 5", "times is a single value"),
        ("aws: {region: [us-east-1]}", "aws.region is a list"),
        ("landing: {catalog: {uri: 'postgresql://me:pw@db/x'}}", "landing.catalog.uri looks like a secret"),
        (
            "coordination: {lease_table: same, worker_table: same}",
            "coordination.lease_table is 'same', and so is",
        ),
        (
            "kcl: {failover: soon, heartbeat: lease, allow_foreign_checkpoints: true}",
            "kcl.failover is 'soon'",
        ),
        ("kcl: {mode: 3.x}", "kcl.mode is '3.x'"),
        ("streams_mode: many\ndiscovery: {prefix: orders-}", "streams_mode is 'many'"),
        ("workers: [{id: w, spark: {remote: [a], master: yarn}}]", "workers.0.spark.remote is a list"),
    ],
)
def test_a_consequence_of_another_mistake_is_not_listed(text: str, only: str) -> None:
    (line,) = lines(f"application: app\nstreams: [{{name: s}}]\n{text}")
    assert only in line


def test_an_impossible_table_name_is_listed_once_and_not_for_each_table() -> None:
    (line,) = lines("application: a b c\nstreams: [{name: s}]")
    assert line.startswith("h.yaml:1: application is 'a b c'")


def test_the_command_prints_one_line_for_each_mistake_and_exits_with_the_same_code_as_for_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "h.yaml"
    file.write_text("application: app\nstreams: [{name: s}]\nzzz: 1\nwave: {records: x}\n", encoding="utf-8")
    assert main(["config", "--config", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split(" ")[:2] for line in err.splitlines()] == [
        ["headrace:", f"{file}:3:"],
        ["headrace:", f"{file}:4:"],
    ]


@pytest.mark.parametrize("home", ["taken", "taken/below/it"])
def test_a_home_that_is_a_file_is_listed_with_the_other_mistakes(home: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")
    file = tmp_path / "h.yaml"
    file.write_text(
        f"application: app\nstreams: [{{name: s}}]\nlanding: {{home: {home}}}\nzzz: 1\n", encoding="utf-8"
    )
    with pytest.raises(BadSetting) as caught:
        read_settings(file, {})
    first, second = str(caught.value).splitlines()
    assert first.startswith(
        f"{file}:3: landing.home is '{home}', but {tmp_path / 'taken'} is a file; allowed: a folder"
    )
    assert "unknown key 'zzz'" in second


def test_a_home_that_no_setting_uses_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "headrace-data").write_text("", encoding="utf-8")
    file = tmp_path / "h.yaml"
    text = "application: app\nstreams: [{name: s}]\nlanding: {catalog: {type: rest}, state: 's3://b/state'}\n"
    file.write_text(text, encoding="utf-8")
    assert read_settings(file, {}).settings.landing.catalog == {"type": "rest"}
