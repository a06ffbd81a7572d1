"""`headrace console`: one file, a port that is taken, and what is refused before anything starts."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.cli import STOPPED, main
from headrace.pipeline.console.serve import bound
from headrace.pipeline.local.endpoint import LocalAws
from tests.cli.kcl_tables import KclTables
from tests.ports import free_port

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient


def where(kcl: KclTables, aws: LocalAws) -> list[str]:
    return ["console", "--table", kcl.lease_table, "--endpoint", aws.endpoint, "--region", aws.region]


def stored(page: str) -> dict[str, object]:
    (data,) = re.findall(r'<script type="application/json" id="stored">(.*?)</script>', page)
    found: dict[str, object] = json.loads(data)
    return found


def test_once_writes_one_file_that_loads_nothing(
    kcl: KclTables, aws: LocalAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    kcl.fill_one_table("east-1", "east-2")
    out = tmp_path / "look.html"
    assert main([*where(kcl, aws), "--once", str(out)]) == 0
    page = out.read_text(encoding="utf-8")
    assert re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page) == []
    assert "default-src 'none'" in page
    data = stored(page)
    assert set(data["shards"]) == {"shardId-000000000000", "shardId-000000000001"}  # type: ignore[call-overload]
    assert f"written: {out}" in capsys.readouterr().out


def test_names_from_the_tables_cannot_leave_the_stored_data(kcl: KclTables, aws: LocalAws, tmp_path: Path):
    kcl.fill_one_table("</script><script>alert(1)//", "east-2")
    out = tmp_path / "look.html"
    assert main([*where(kcl, aws), "--once", str(out)]) == 0
    page = out.read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "</script><script>alert(1)//" in json.dumps(stored(page))


def test_once_with_two_looks_tells_who_is_alive(kcl: KclTables, aws: LocalAws, tmp_path: Path):
    kcl.fill_one_table("east-1", "east-2")
    out = tmp_path / "look.html"
    assert main([*where(kcl, aws), "--once", str(out), "--for", "2s"]) == 0
    look = stored(out.read_text(encoding="utf-8"))["look"]
    assert look["watched"] in (2, 3, 4, 5)  # type: ignore[index]


def test_the_application_of_the_settings_is_shown_with_its_stream_and_its_lake_table(
    kcl: KclTables, aws: LocalAws, kinesis: "KinesisClient", tmp_path: Path
):
    kinesis.create_stream(StreamName=kcl.lease_table, ShardCount=2)
    kcl.fill_one_table("east-1", "east-2")
    config, out = tmp_path / "headrace.yaml", tmp_path / "look.html"
    config.write_text(
        f"application: {kcl.lease_table}\nstreams: [{{name: {kcl.lease_table}}}]\nlanding: {{home: {tmp_path / 'data'}}}\n"
        f"aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}\n"
    )
    assert main(["console", "--config", str(config), "--once", str(out)]) == 0
    data = stored(out.read_text(encoding="utf-8"))
    assert data["look"]["application"] == kcl.lease_table  # type: ignore[index]
    (stream,) = data["look"]["streams"]  # type: ignore[index]
    assert (stream["name"], stream["is_listed"]) == (kcl.lease_table, True)
    page = data["shards"]["shardId-000000000000"]  # type: ignore[index]
    assert page["landed"]["ranges"] == [], "nothing has landed yet, and that is no trouble"


def test_a_port_that_is_taken_ends_with_2_and_a_sentence(
    kcl: KclTables, aws: LocalAws, capsys: pytest.CaptureFixture[str]
):
    with bound("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert main([*where(kcl, aws), "--port", str(port)]) == STOPPED
    assert f"port {port} of 127.0.0.1 is taken" in capsys.readouterr().err


def test_a_table_that_is_missing_writes_no_file(aws: LocalAws, tmp_path: Path, capsys):
    out = tmp_path / "look.html"
    words = ["--table", "no-such-table", "--endpoint", aws.endpoint, "--region", aws.region]
    assert main(["console", *words, "--once", str(out)]) != 0
    assert "there is no table no-such-table" in capsys.readouterr().err
    assert not out.exists()


def test_the_command_serves_until_it_is_interrupted_and_ends_with_0(kcl: KclTables, aws: LocalAws):
    kcl.fill_one_table("east-1", "east-2")
    command = [sys.executable, "-m", "headrace.pipeline.cli", *where(kcl, aws), "--port", str(free_port())]
    environment = {**os.environ, **aws.environment}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True
    ) as served:
        try:
            assert served.stdout is not None
            line = served.stdout.readline()
            (address,) = re.findall(r"http://127\.0\.0\.1:\d+", line)
            with urllib.request.urlopen(f"{address}/api/look", timeout=60) as answer:
                assert json.load(answer)["open"] == 2
            served.send_signal(signal.SIGINT)
            rest = served.stdout.read()
            assert (served.wait(), rest) == (0, "")
        finally:
            served.kill()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--table", "t-x", "--host", "0.0.0.0"], "no password"),
        (["--stream", "s"], "--stream goes with --table"),
        (["--table", "t-x", "--for", "30s"], "--for goes with --once"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: list[str], part: str, capsys: pytest.CaptureFixture[str]):
    assert main(["console", *words]) == STOPPED
    assert part in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--peek", "201"],
        ["--peek", "-1"],
        ["--every", "1s"],
        ["--dagster", "javascript:alert(1)"],
        ["--port", "0"],
    ],
)
def test_arguments_out_of_their_limits_are_refused(words: list[str]):
    with pytest.raises(SystemExit) as refused:
        main(["console", "--table", "t-x", *words])
    assert refused.value.code == STOPPED


def test_a_bound_port_is_of_this_machine_only():
    with bound("127.0.0.1", 0) as listener:
        assert listener.family is socket.AF_INET
        assert listener.getsockname()[0] == "127.0.0.1"
