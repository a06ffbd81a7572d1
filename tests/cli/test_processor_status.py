"""A stopped shard of a processor that is an application of its own is told by `headrace processor status` and the doctor."""

import json
import uuid
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.pipeline.cli import main
from headrace.pipeline.doctor.case import Case, LiveCase
from headrace.pipeline.doctor.diagnosis import Health
from headrace.pipeline.doctor.processors import processors_keep_up
from headrace.pipeline.local.endpoint import LocalAws
from tests.cli.kcl_tables import Item, a_lease
from tests.stand_in import a_table

STOPPED: Item = {"failingSince": {"N": "1795000000000"}, "failure": {"S": "no such word"}}
SHARDS = ("shardId-000000000000", "shardId-000000000001")


@pytest.fixture
def application(aws: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a processor's application with a lease table, whose second shard has stopped."""
    for variable, value in aws.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    name = f"totals-{uuid.uuid4().hex[:8]}"
    (tmp_path / "headrace.yaml").write_text(
        f"application: {name}-lake\nstreams: [{{name: orders}}]\nlanding: {{home: lake}}\n"
        f"aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}\n"
        f"processors: [{{name: totals, mode: application, application: {name}, callable: 'a:b'}}]\n"
    )
    dynamodb: Any = aws.client("dynamodb")
    a_table(dynamodb, "leaseKey", name=name)
    for n, shard in enumerate(SHARDS):
        dynamodb.put_item(TableName=name, Item=a_lease(shard, n=n, of=2, **(STOPPED if n else {})))
    return name


def go_on(aws: LocalAws, application: str) -> None:
    dynamodb: Any = aws.client("dynamodb")
    dynamodb.put_item(TableName=application, Item=a_lease(SHARDS[1], n=1, of=2))


def status(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = main(["processor", "status", "--json"])
    (answer,) = json.loads(capsys.readouterr().out)["processors"]
    return code, answer


def test_the_status_of_a_processor_with_a_stopped_shard_is_an_exit_code_that_a_script_sees(
    aws: LocalAws, application: str, capsys: pytest.CaptureFixture[str]
):
    code, answer = status(capsys)
    assert (code, answer["stopped"]) == (1, {SHARDS[1]: "no such word"})
    assert [shard["stopped"] for shard in answer["shards"]] == [None, "no such word"]
    go_on(aws, application)
    code, answer = status(capsys)
    assert (code, answer["stopped"]) == (0, {})


def test_what_headrace_has_seen_of_a_shard_isnt_told_of_one_that_kcl_has_read_on(
    aws: LocalAws, application: str, capsys: pytest.CaptureFixture[str]
):
    """The worker of KCL may be far behind, and its row doesn't tell."""
    read: Item = {"landedCheckpoint": {"S": "49"}, "lookedAt": {"N": "1795000000000"}, "behindMs": {"N": "0"}}
    dynamodb: Any = aws.client("dynamodb")
    for n, checkpoint in enumerate(("49", "50")):
        item = a_lease(SHARDS[n], n=n, of=2, owner="kcl-1", checkpoint={"S": checkpoint}, **read)
        dynamodb.put_item(TableName=application, Item=item)
    _, answer = status(capsys)
    assert [shard["behind_ms"] for shard in answer["shards"]] == [0, None]
    main(["processor", "status"])
    assert (
        f"{SHARDS[1]}: checkpoint 50, held by kcl-1, read on by a worker of KCL since"
        in capsys.readouterr().out
    )


def test_the_doctor_names_a_stopped_shard_of_an_application(aws: LocalAws, application: str, tmp_path: Path):
    case = Case.of(str(tmp_path / "headrace.yaml"), {})
    assert case.settings is not None
    live = LiveCase(case, case.settings, cast("Any", None))
    stop, standing = processors_keep_up(live)
    assert stop.health is Health.ILL
    assert f"totals has stopped at 1 shard: {SHARDS[1]}: no such word" in stop.sentence
    assert f"totals (application {application}): 2 shards" in standing.sentence
    go_on(aws, application)
    (standing,) = processors_keep_up(live)
    assert standing.health is Health.WELL


def test_lease_rows_that_cant_be_read_are_an_exit_code_too_and_no_comfort_about_checkpoints(
    aws: LocalAws, application: str, capsys: pytest.CaptureFixture[str]
):
    cast("Any", aws.client("dynamodb")).delete_table(TableName=application)
    code, answer = status(capsys)
    assert (code, answer["can_try_again"]) == (2, False)
    # Checkpoints of such a processor were in this table alone.
    assert "no record is lost" not in answer["error"]
    assert "has its checkpoints in its lease table alone" in answer["error"]
