"""`headrace doctor` says what is well, what to know, and what a person has to change; it changes nothing."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipeline.cli import main
from headrace.pipeline.lake.spark.server.process import CLASS, pid_of
from headrace.pipeline.lake.spark.server.users import leave, use
from headrace.pipeline.lake.spark.session import DISCOVERY, own_folder
from tests.spark_servers import a_running_server

MINIMAL = "{application: shop, streams: [{name: orders}]}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder, in which the command runs."""
    for name in (DISCOVERY, "DAGSTER_HOME", "HEADRACE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "headrace.yaml").write_text(MINIMAL)
    return tmp_path


@pytest.fixture
def folder(home: Path) -> Iterator[Path]:
    """The folder of the project's server, of which only the process and its watch are real."""
    made = own_folder(settings=home / "headrace.yaml")
    use(made, "the test")
    with a_running_server(made):
        yield made
    leave(made)


def a_java(folder: Path, version: str) -> None:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)


def diagnoses(capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, list[dict[str, str]]]:
    """What the command printed with --json, by check."""
    assert main(["doctor", "--offline", "--json"]) == code
    by_check: dict[str, list[dict[str, str]]] = {}
    answer = json.loads(capsys.readouterr().out)
    assert answer["format"] == 1
    for diagnosis in answer["checks"]:
        by_check.setdefault(diagnosis["check"], []).append(diagnosis)
    return by_check


def test_a_host_without_trouble_is_well_and_nothing_is_made(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    a_java(home / "jvm", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(home / "jvm"))
    monkeypatch.setattr("tempfile.tempdir", str(home))
    assert main(["doctor", "--offline"]) == 0
    told = capsys.readouterr().out
    assert "well       settings: headrace.yaml can be read; the application is shop" in told
    assert f"well       java: {home}/jvm/bin/java is Java 17" in told
    assert "well       local Spark server: none runs" in told
    assert list(home.glob("headrace-*/*")) == []


def test_each_mistake_in_the_settings_is_told_and_the_other_checks_go_on(
    home: Path, capsys: pytest.CaptureFixture[str]
):
    (home / "headrace.yaml").write_text("{application: shop, stream: [], wave: {every: never}}")
    seen = diagnoses(capsys, code=2)
    assert len(seen["settings"]) > 1
    assert {each["health"] for each in seen["settings"]} == {"needs you"}
    assert set(seen) == {
        "settings",
        "versions",
        "Dagster",
        "java",
        "local Spark server",
        "other Spark servers",
    }


@pytest.mark.parametrize(
    ("version", "told"), [("1.8.0_392", "is Java 8, and Spark needs 17"), ("?", "doesn't tell its version")]
)
def test_a_java_that_spark_cant_use_is_told_with_what_to_install(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, version: str, told: str
):
    a_java(home / "jvm", version)
    monkeypatch.setenv("JAVA_HOME", str(home / "jvm"))
    [java] = diagnoses(capsys, code=2)["java"]
    assert (java["health"], told in java["sentence"]) == ("needs you", True)
    assert "openjdk-17" in java["advice"]


def test_a_missing_java_is_told_only_where_a_worker_needs_one(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("JAVA_HOME", str(home / "nowhere"))
    [java] = diagnoses(capsys, code=2)["java"]
    assert "has no bin/java" in java["sentence"]
    (home / "headrace.yaml").write_text(
        "{application: shop, streams: [{name: orders}], workers: [{id: w1, spark: {remote: 'sc://spark.invalid:15002'}}]}"
    )
    seen = diagnoses(capsys, code=2)
    assert [(each["check"], each["health"]) for each in seen["Spark"]] == [("Spark", "needs you")]
    assert seen["java"][0]["sentence"].startswith("not needed")
    assert seen["local Spark server"][0]["sentence"].startswith("not used")


def test_the_projects_server_is_named_with_its_users_and_a_server_that_answers_nobody_with_its_end(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    [own] = diagnoses(capsys)["local Spark server"]
    assert own["health"] == "note"
    assert own["sentence"].startswith(f"process {pid_of(folder)}, since ")
    assert f"used by the test (process {os.getpid()})" in own["sentence"]
    assert f"`kill {pid_of(folder)}`" in own["advice"]


def test_a_server_of_another_project_and_one_of_another_environment_are_named_and_left_alone(
    folder: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_PROFILE", "staging")
    pid = pid_of(folder)
    told = [each["sentence"] for each in diagnoses(capsys)["other Spark servers"]]
    assert any(
        f"of this project in another environment (AWS_PROFILE differs): process {pid}," in line
        for line in told
    )
    monkeypatch.delenv("AWS_PROFILE")
    other = home / "other"
    other.mkdir()
    (other / "headrace.yaml").write_text(MINIMAL)
    monkeypatch.chdir(other)
    told = [each["sentence"] for each in diagnoses(capsys)["other Spark servers"]]
    assert any(f"of another project ({home}/headrace.yaml, " in line for line in told)
    assert pid is not None
    os.kill(pid, 0)


def test_a_spark_server_that_headrace_hasnt_started_is_named(home: Path, capsys: pytest.CaptureFixture[str]):
    program = "import signal; print('up', flush=True); signal.pause()"
    with subprocess.Popen(
        [sys.executable, "-c", program, "--class", CLASS], stdout=subprocess.PIPE
    ) as foreign:
        try:
            assert foreign.stdout is not None
            foreign.stdout.readline()
            told = diagnoses(capsys)["other Spark servers"]
        finally:
            foreign.send_signal(signal.SIGKILL)
    [line] = [each for each in told if f"process {foreign.pid}," in each["sentence"]]
    assert line["sentence"].startswith("a Spark server of no known project")
    assert f"`kill {foreign.pid}`" in line["advice"]
