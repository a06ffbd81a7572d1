"""`headrace plan` prints what the leader would do, each change with its reason, and does nothing."""

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from pipeline.cli import main
from pipeline.cli.plan import _duty, document, kind_of, lines, watch
from pipeline.core import change
from pipeline.core.change import Change
from pipeline.core.checkpoint import SHARD_END
from pipeline.core.lease import Lease
from pipeline.duties.leader_tick import LeaderMemory
from pipeline.local.endpoint import LocalAws
from pipeline.settings_file import read_settings
from tests.duties.world import World
from tests.stand_in import aws, dynamodb, kinesis

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient

__all__ = ["aws", "dynamodb", "kinesis"]

FREE = Lease("shardId-0", 4)
MINE = Lease("shardId-1", 4, owner="w1")
HANDING = Lease("shardId-2", 4, owner="w2", checkpoint_owner="w1")


@pytest.mark.parametrize(
    ("planned", "kind", "before", "after"),
    [
        (change.create(FREE, "new"), "create", None, None),
        (change.assign(FREE, "w2", "unowned"), "assign", None, "w2"),
        (change.assign(MINE, "w2", "its holder died"), "move", "w1", "w2"),
        (change.initiate_handover(MINE, "w2", "too much"), "hand over", "w1", "w2"),
        (change.redirect_handover(HANDING, "w3", "w2 died"), "redirect", "w1", "w3"),
        (change.assign(HANDING, "w3", "w1 died"), "move", "w1", "w3"),
        (change.complete_handover(HANDING, "overdue"), "end handover", "w1", "w2"),
        (change.delete_ended(Lease("e", 1, SHARD_END), "past"), "delete", None, None),
        (change.retire(Lease("e", 1, stream_epoch=3), "an earlier stream"), "delete", None, None),
        (change.note_children(MINE, frozenset({"c"})), "change", None, None),
    ],
    ids=lambda each: each.why if isinstance(each, Change) else "",
)
def test_a_change_is_told_by_what_becomes_of_the_lease(
    planned: Change, kind: str, before: str | None, after: str | None
):
    assert kind_of(planned) == kind
    said = document([planned])["changes"]
    assert said == [{"kind": kind, "lease": planned.key, "from": before, "to": after, "why": planned.why}]


def test_each_line_has_its_reason_and_the_last_one_the_sum():
    changes = [change.assign(FREE, "w2", "unowned"), change.initiate_handover(MINE, "w2", "too much")]
    assert lines(changes) == [
        "assign     shardId-0  -> w2     unowned",
        "hand over  shardId-1  w1 -> w2  too much",
        "the leader would make 2 changes: 1 assign, 1 hand over",
    ]
    assert lines(changes[:1])[-1] == "the leader would make 1 change: 1 assign"
    assert document(changes)["counts"] == {"assign": 1, "hand over": 1}


def test_an_empty_plan_says_so():
    assert lines([]) == ["the leader would change nothing now"]
    assert document([]) == {"format": 1, "changes": [], "counts": {}}


def test_the_plan_is_what_the_leader_then_does_and_nothing_is_written_before():
    world = World(workers=("w1", "w2"), shards=4)
    world.lead()
    rows = world.leases.scan().leases

    def pause(seconds: float) -> None:
        world.clock.advance(timedelta(seconds=seconds))
        for worker in world.workers:
            world.work(worker)

    planned = watch(world.a_leader(), timedelta(seconds=10), every=timedelta(seconds=5), pause=pause)
    assert {kind_of(each) for each in planned} == {"assign"}
    assert world.leases.scan().leases == rows, "nothing was written"
    assert len(planned) == 4
    for each in planned:
        world.leases.apply(each)
    owners = [row.owner for row in world.leases.scan().leases]
    assert sorted(owners, key=str) == ["w1", "w1", "w2", "w2"]


def test_it_watches_as_long_as_it_is_told(capsys: pytest.CaptureFixture[str]):
    world = World()
    world.lead()
    pauses: list[float] = []
    watch(world.a_leader(), timedelta(seconds=12), every=timedelta(seconds=5), pause=pauses.append)
    assert pauses == [5, 5, 2]
    assert capsys.readouterr().err.splitlines()[-1] == "watching the workers for 2 s"


def test_the_command_shows_a_lease_that_is_missing_and_makes_none(
    tmp_path: Path,
    aws: LocalAws,
    kinesis: "KinesisClient",
    dynamodb: "DynamoDBClient",
    capsys: pytest.CaptureFixture[str],
):
    name = f"plan-{uuid4().hex[:8]}"
    kinesis.create_stream(StreamName=name, ShardCount=2)
    file = tmp_path / "headrace.yaml"
    file.write_text(
        f"application: {name}\nstreams: [{{name: {name}}}]\nlanding: {{home: {tmp_path / 'lake'}}}\n"
        f"aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}\n",
        encoding="utf-8",
    )
    _duty(read_settings(str(file), {}).settings).tick(LeaderMemory())
    gone = {"leaseKey": {"S": "shardId-000000000001"}}
    dynamodb.delete_item(TableName=name, Key=gone)
    before = dynamodb.scan(TableName=name)["Items"]
    assert main(["plan", "--config", str(file), "--for", "1ms", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [(each["kind"], each["lease"]) for each in said["changes"]] == [("create", "shardId-000000000001")]
    assert said["changes"][0]["why"]
    assert dynamodb.scan(TableName=name)["Items"] == before
    assert main(["plan", "--config", str(file), "--for", "1ms"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "the leader would make 1 change: 1 create"
