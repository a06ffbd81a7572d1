"""`headrace health`, as a person or a script calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.pipeline.app.wiring import wire
from headrace.pipeline.cli import main
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.file import read_settings

SETTINGS = """
application: {name}
streams: [{{name: {name}}}]
landing: {{home: {home}}}
aws: {{region: {region}, endpoint: "{endpoint}"}}
times: {{leader_tick: 1s, worker_tick: 1s}}
"""


def settings_file(aws: LocalAws, tmp_path: Path, name: str) -> Path:
    file = tmp_path / "headrace.yaml"
    file.write_text(
        SETTINGS.format(name=name, home=tmp_path / "lake", region=aws.region, endpoint=aws.endpoint)
    )
    return file


def test_an_application_without_tables_cannot_be_judged(
    aws: LocalAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = settings_file(aws, tmp_path, "health-without-tables")
    assert main(["health", "--config", str(file)]) == 2
    assert "health-without-tables can't be judged: " in capsys.readouterr().out


def test_a_dead_leader_is_not_well_and_the_json_has_each_check(
    aws: LocalAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lock of a leader that has made one tick and no more."""
    name = "health-dead-leader"
    aws.client("kinesis").create_stream(StreamName=name, ShardCount=1)
    file = settings_file(aws, tmp_path, name)
    wire(read_settings(file, {}).settings).leader_turn(None)
    assert main(["health", "--config", str(file), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["health"], told["application"]) == ("ill", name)
    assert {check["name"]: check["health"] for check in told["checks"]} == {
        "leader": "ill",
        "shards": "well",
        # No run has read the shard, so that nobody can tell how far behind it is.
        "lag": "unknown",
        "lake table": "well",
    }


def test_an_address_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["health", "--serve", "8080"])
    assert "127.0.0.1:8080" in capsys.readouterr().err
