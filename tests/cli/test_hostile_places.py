"""Places that can't be: each command says so in a sentence, and exits with 2, or with 75 where trying again may help."""

import errno
import os
from pathlib import Path

import pytest

from headrace.pipeline.cli import STOPPED, main
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake.files.private_files import make_named_folder

COMMANDS = [
    ("upkeep",),
    ("window", "create", "--from", "2026-01-31"),
    ("plan", "--for", "1s"),
    ("parse",),
    ("redrive",),
    ("repair", "--why", "x"),
    ("adopt",),
]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "MAX_ATTEMPTS": "1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    return tmp_path / "headrace.yaml"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("home", ["/proc/nowhere", "/dev/null/lake", "/proc"])
def test_a_home_of_the_lake_that_cant_be_made_is_told_by_each_command(
    settings: Path, capsys: pytest.CaptureFixture[str], home: str, command: tuple[str, ...]
):
    settings.write_text(
        "application: app\nstreams: [{name: orders}]\naws: {region: eu-west-1, endpoint: 'http://127.0.0.1:9'}\n"
        f"landing: {{home: {home}}}\nparse: [{{name: t, table: lake.t, schema: 'id BIGINT'}}]\n"
    )
    assert main([*command, "--config", str(settings)]) == STOPPED
    said = capsys.readouterr().err
    assert f"headrace: landing.home: the folder {home}/warehouse can't be made (" in said
    assert "allowed: a folder in which this user may write. Nothing was written" in said


@pytest.mark.parametrize("home", ["/proc/nowhere", "/dev/null/dagster", "/proc"])
def test_a_dagster_home_that_cant_be_made_is_told(
    settings: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: str
):
    settings.write_text("{application: app, streams: [{name: orders}]}")
    monkeypatch.setenv("DAGSTER_HOME", home)
    assert main(["dev", "--config", str(settings)]) == STOPPED
    said = capsys.readouterr().err
    assert said.startswith("headrace: DAGSTER_HOME: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("port", ["0", "65536", "99999999", "http", "-1"])
@pytest.mark.parametrize("command", ["dev", "demo"])
def test_what_is_no_port_is_refused(capsys: pytest.CaptureFixture[str], command: str, port: str):
    with pytest.raises(SystemExit) as stopped:
        main([command, f"--port={port}"])
    assert stopped.value.code == STOPPED
    assert "isn't a port; allowed: 1 to 65535" in capsys.readouterr().err


def test_a_full_disk_may_have_room_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(
        Unreachable, match=r"landing\.home: the folder .* can't be made \(No space left on device\)"
    ):
        make_named_folder(tmp_path / "a" / "b", private=True, name="landing.home")


@pytest.mark.parametrize(
    "command",
    [
        ("config", "--doc", "/nowhere/settings"),
        ("config", "--doc", "/tmp"),
        ("config", "--doc", "/dev/null"),
        ("demo", "--home", "/proc/nowhere"),
        ("demo", "--check", "--home", "/nowhere"),
    ],
    ids=" ".join,
)
def test_a_file_or_folder_that_an_argument_names_and_that_cant_be_is_told(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
):
    assert main(list(command)) == STOPPED
    said = capsys.readouterr()
    assert said.err.startswith("headrace: ")
    assert (said.out, said.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("option", ["--table", "--worker-table", "--state-table"])
@pytest.mark.parametrize("name", ["", "ab", "a b", "x" * 256, "orders;"])
def test_what_is_no_name_of_a_table_is_refused(capsys: pytest.CaptureFixture[str], option: str, name: str):
    with pytest.raises(SystemExit) as stopped:
        main(["status", "--table", "orders", f"{option}={name}"])
    assert stopped.value.code == STOPPED
    assert "isn't the name of a DynamoDB table" in capsys.readouterr().err
