"""A local Spark server is joined by processes of its own project and environment only."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import headrace
from headrace.pipeline.cli.beside.services import environment
from headrace.pipeline.lake.spark.server.key import ServerKey, key_of, read, write

ENVIRONMENT = {
    "HOME": "/home/ann",
    "AWS_ACCESS_KEY_ID": "AKIA",
    "AWS_SECRET_ACCESS_KEY": "a-secret-of-ann",
    "AWS_REGION": "eu-west-1",
    "TERM": "xterm",
}
ENGINE = "headrace-1"


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    file = tmp_path / "headrace.yaml"
    file.write_text("application: a")
    return file


def a_key(settings: Path, environ: Mapping[str, str] = ENVIRONMENT, **more: Path) -> ServerKey:
    return key_of(environ, ENGINE, settings=settings, **more)


@pytest.mark.parametrize(
    "change",
    [
        {"AWS_ACCESS_KEY_ID": "AKIB"},
        {"AWS_SECRET_ACCESS_KEY": "corrected"},
        {"AWS_SESSION_TOKEN": "of another hour"},
        {"AWS_PROFILE": "staging"},
        {"AWS_ENDPOINT_URL": "http://127.0.0.1:4567"},
        {"AWS_ENDPOINT_URL_KINESIS": "http://127.0.0.1:4567"},
        {"AWS_REGION": "us-east-1"},
        {"AWS_CONFIG_FILE": "/etc/aws"},
        {"HOME": "/home/ben"},
        {"HTTPS_PROXY": "http://proxy"},
        {"PYTHONPATH": "/code/of/mine"},
        {"PYSPARK_PYTHON": "/usr/bin/python3.12"},
        {"SPARK_HOME": "/opt/spark"},
        {"DAGSTER_HOME": "/other/dagster"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_process_with_another_identity_or_environment_joins_no_server_of_this_one(
    settings: Path, change: dict[str, str]
):
    assert a_key(settings, ENVIRONMENT | change).name != a_key(settings).name


def test_a_process_without_a_variable_of_aws_that_the_server_has_doesnt_join_it(settings: Path):
    less = {name: value for name, value in ENVIRONMENT.items() if name != "AWS_REGION"}
    assert a_key(settings, less).name != a_key(settings).name


def test_another_settings_file_and_another_engine_have_another_server(settings: Path):
    other = settings.with_name("other.yaml")
    other.write_text("application: b")
    assert a_key(other).name != a_key(settings).name
    assert key_of(ENVIRONMENT, "headrace-2", settings=settings).name != a_key(settings).name


def test_another_python_and_other_packages_have_another_server(settings: Path):
    key = a_key(settings)
    names = {key.name, replace(key, python="other").name, replace(key, packages="other").name}
    assert len(names) == 3


def test_another_name_of_the_same_python_keeps_the_server(settings: Path, monkeypatch: pytest.MonkeyPatch):
    """pip's scripts begin with `python3.11`, and a person types `python -m`."""
    key = a_key(settings)
    monkeypatch.setattr("sys.executable", f"{sys.executable}-by-another-name")
    assert a_key(settings) == key
    monkeypatch.setattr("sys.prefix", "/another/environment")
    assert a_key(settings) != key


def test_variables_that_change_nothing_for_the_server_keep_it(settings: Path):
    assert a_key(settings, ENVIRONMENT | {"TERM": "vt100", "PWD": "/elsewhere"}) == a_key(settings)


def test_a_command_in_a_shell_joins_the_server_of_its_headrace_dev_and_of_its_dagster_dev(
    settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """`headrace dev` sets DAGSTER_HOME and its own folder on the Python path for its processes."""
    of_dev = environment(ENVIRONMENT, settings, tmp_path / ".dagster")
    assert str(Path(headrace.__file__).parents[1]) in of_dev["PYTHONPATH"].split(os.pathsep)
    command = a_key(settings)
    assert key_of(of_dev, ENGINE) == command
    assert key_of(ENVIRONMENT | {"HEADRACE_CONFIG": str(settings)}, ENGINE) == command
    monkeypatch.chdir(tmp_path)
    assert key_of(ENVIRONMENT, ENGINE) == command
    assert a_key(Path("headrace.yaml"), dagster_home=tmp_path / ".dagster") == command


def test_the_key_as_it_is_written_has_no_value_of_a_variable(settings: Path, tmp_path: Path):
    key = a_key(settings)
    write(key, tmp_path)
    assert read(tmp_path) == key
    text = json.dumps(asdict(key))
    assert "AWS_SECRET_ACCESS_KEY" in text
    assert not any(value in text for value in ENVIRONMENT.values())


def test_a_difference_is_told_by_the_name_of_its_variable(settings: Path):
    key, other = a_key(settings), a_key(settings, ENVIRONMENT | {"AWS_PROFILE": "staging"})
    assert key.is_of_project(other)
    assert key.differences(other) == ("AWS_PROFILE",)
    assert key.differences(key_of(ENVIRONMENT, "headrace-2", settings=settings)) == ("Headrace's version",)
    assert not key.is_of_project(a_key(settings, ENVIRONMENT | {"DAGSTER_HOME": "/other"}))
