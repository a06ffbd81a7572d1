"""`headrace plan` prints what the leader would do, each change with its reason, and writes nothing."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from headrace.pipeline.app.wiring import wire
from headrace.pipeline.cli import main
from headrace.pipeline.cli.plan import (
    _start,
    change_word,
    default_period,
    lines,
    lines_before,
    plan_document,
    watch_plan,
)
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END, TRIM_HORIZON
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.duties.fleet.preview import preview
from headrace.pipeline.errors import OriginUnsafe
from headrace.pipeline.kcl.migration import ClientVersion
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.choices import InitialPosition, Strategy
from headrace.pipeline.settings.file import read_settings
from tests.beside_kcl.test_beside_kcl import kcl_writes
from tests.beside_kcl.test_uninvited import owned_by_kcl, stamp
from tests.duties.moves import shared
from tests.duties.world import STREAM, World
from tests.memory.table import MemoryTable
from tests.stand_in import table_names

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient

UNOWNED = Lease("shardId-0", 4)
OWNED = Lease("shardId-1", 4, owner="w1")
IN_HANDOVER = Lease("shardId-2", 4, owner="w2", checkpoint_owner="w1")


@pytest.mark.parametrize(
    ("planned", "kind", "before", "after"),
    [
        (change.create(UNOWNED, "new"), "create", None, None),
        (change.assign(UNOWNED, "w2", "unowned"), "assign", None, "w2"),
        (change.assign(OWNED, "w2", "its holder died"), "move", "w1", "w2"),
        (change.initiate_handover(OWNED, "w2", "too much"), "hand over", "w1", "w2"),
        (change.redirect_handover(IN_HANDOVER, "w3", "w2 died"), "redirect", "w1", "w3"),
        (change.assign(IN_HANDOVER, "w3", "w1 died"), "move", "w1", "w3"),
        (change.complete_handover(IN_HANDOVER, "overdue"), "end handover", "w1", "w2"),
        (change.delete_ended(Lease("e", 1, SHARD_END), "past"), "delete", None, None),
        (change.retire(Lease("e", 1, stream_epoch=3), "an earlier stream"), "delete", None, None),
        (change.replace_retired(Lease("e"), Lease("e"), "a later stream"), "replace", None, None),
        (change.note_children(OWNED, frozenset({"c"})), "change", None, None),
    ],
    ids=lambda each: each.why if isinstance(each, Change) else "",
)
def test_each_change_is_printed_with_what_happens_to_the_lease(
    planned: Change, kind: str, before: str | None, after: str | None
):
    assert change_word(planned) == kind
    said = plan_document([planned])["changes"]
    assert said == [
        {
            "kind": kind,
            "lease": planned.key,
            "name": planned.key,
            "from": before,
            "to": after,
            "why": planned.why,
        }
    ]


def test_each_line_has_its_reason_and_the_last_line_the_sum():
    changes = [change.assign(UNOWNED, "w2", "unowned"), change.initiate_handover(OWNED, "w2", "too much")]
    assert lines(changes) == [
        "assign     shardId-0  -> w2     unowned",
        "hand over  shardId-1  w1 -> w2  too much",
        "the leader would make 2 changes: 1 assign, 1 hand over",
    ]
    assert lines(changes[:1])[-1] == "the leader would make 1 change: 1 assign"
    assert plan_document(changes)["counts"] == {"assign": 1, "hand over": 1}


def test_an_empty_plan_says_so():
    assert lines([]) == ["the leader would change nothing now"]
    assert plan_document([]) == {"changes": [], "counts": {}}


def test_the_leader_then_does_what_the_plan_said_and_the_command_writes_nothing():
    world = World(workers=("w1", "w2"), shards=4)
    world.lead()
    rows = world.leases.scan().leases

    seen = watch_plan(
        world.a_leader(), timedelta(seconds=10), every=timedelta(seconds=5), pause=ticking(world)
    )
    planned = seen.changes
    assert lines_before(seen, "app") == []
    assert {change_word(each) for each in planned} == {"assign"}
    assert world.leases.scan().leases == rows, "the command wrote nothing"
    assert len(planned) == 4
    for each in planned:
        world.leases.apply(each)
    owners = [row.owner for row in world.leases.scan().leases]
    assert sorted(owners, key=str) == ["w1", "w1", "w2", "w2"]


def ticking(world: World) -> Callable[[float], None]:
    """A pause in which the sensors of all workers tick."""

    def pause(seconds: float) -> None:
        world.clock.advance(timedelta(seconds=seconds))
        for worker in world.workers:
            world.work(worker)

    return pause


@pytest.mark.parametrize("strategy", Strategy)
def test_with_each_strategy_the_moves_are_shown_with_their_reasons(strategy: Strategy):
    """KCL's two strategies balance in every third pass of a leader. The plan shows a pass that balances."""
    world = World(workers=("w1",), shards=6)
    assignment = replace(world.settings.assignment, strategy=strategy)
    world.settings = replace(world.settings, assignment=assignment)
    world.settle()
    for shard in range(6):
        world.produce(shard)
    world.wave()
    world.workers = ("w1", "w2")
    seen = watch_plan(
        world.a_leader(), timedelta(seconds=10), every=timedelta(seconds=5), pause=ticking(world)
    )
    assert seen.changes
    assert {(change_word(each), each.put["owner"]) for each in seen.changes} == {("move", "w2")}
    assert all(each.why.startswith("w1 ") for each in seen.changes)


def test_if_kcls_client_version_contradicts_the_mode_only_the_reason_is_shown():
    world = shared(World(workers=("w1", "w2"), shards=4))
    world.lead()
    world.tables.version = ClientVersion.UPGRADE_FROM_2X
    seen = watch_plan(
        world.a_leader(), timedelta(seconds=10), every=timedelta(seconds=5), pause=ticking(world)
    )
    assert seen.changes == ()
    (told,) = lines_before(seen, "app")
    assert "KCL's workers are at CLIENT_VERSION_UPGRADE_FROM_2X" in told
    assert told in world.lead().sentence


@pytest.mark.parametrize("stamped", [True, False], ids=["3.x", "2.x"])
def test_beside_kcl_workers_that_the_settings_dont_join_the_plan_says_so_as_the_leader_does(*, stamped: bool):
    world = owned_by_kcl(World(shards=4))
    if stamped:
        stamp(world)

    def renew_while_pausing(seconds: float) -> None:
        world.clock.advance(timedelta(seconds=seconds))
        for shard in range(4):
            kcl_writes(world, shard)

    period = default_period(world.settings)
    duty = world.a_leader()
    seen = watch_plan(duty, period, every=world.settings.times.leader_tick, pause=renew_while_pausing)
    assert (seen.changes, seen.has_started) == ((), True)
    (told,) = lines_before(seen, "app")
    assert "(kcl-1)" in told
    assert "kcl.failover" in told
    assert _start(seen)["why_not"] == told


def test_the_plan_says_so_before_a_first_start_too_if_kcls_workers_have_read_nothing_yet():
    world = World(shards=1)
    row = Lease("shardId-000000000000", 1, checkpoint=TRIM_HORIZON, owner="kcl-1")
    world.leases.apply(change.create(row, "KCL"))

    def renew_while_pausing(seconds: float) -> None:
        world.clock.advance(timedelta(seconds=seconds))
        kcl_writes(world, 0)

    period = default_period(world.settings)
    seen = watch_plan(
        world.a_leader(), period, every=world.settings.times.leader_tick, pause=renew_while_pausing
    )
    why_not, then, *_ = lines_before(seen, "app")
    assert "(kcl-1)" in why_not
    assert then == "application app hasn't started yet: the leader would first take these steps:"


def test_the_command_watches_for_as_long_as_its_option_says(capsys: pytest.CaptureFixture[str]):
    world = World()
    world.lead()
    pauses: list[float] = []
    watch_plan(world.a_leader(), timedelta(seconds=12), every=timedelta(seconds=5), pause=pauses.append)
    assert pauses == [5, 5, 2]
    assert capsys.readouterr().err.splitlines()[-1] == "watching the workers for 2 s"


@pytest.fixture
def file(tmp_path: Path, aws: LocalAws, kinesis: "KinesisClient") -> Path:
    """The settings of an application that was never started, and its stream of two shards."""
    name = f"plan-{uuid4().hex[:8]}"
    kinesis.create_stream(StreamName=name, ShardCount=2)
    file = tmp_path / "headrace.yaml"
    file.write_text(
        f"application: {name}\nstreams: [{{name: {name}}}]\nlanding: {{home: {tmp_path / 'lake'}}}\n"
        f"aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}\n",
        encoding="utf-8",
    )
    return file


def application_of(file: Path) -> str:
    return read_settings(str(file), {}).settings.application


def planned(file: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["plan", "--config", str(file), "--for", "1ms", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["format"] == 1
    return found


def test_before_a_first_start_the_plan_says_what_the_leader_would_do_and_makes_no_table(
    file: Path, dynamodb: "DynamoDBClient", capsys: pytest.CaptureFixture[str]
):
    name = application_of(file)
    tables = table_names(dynamodb)
    assert main(["plan", "--config", str(file)]) == 0
    shown = capsys.readouterr()
    assert shown.err == "", "no worker beats yet, so there is nothing to watch"
    assert shown.out.splitlines() == [
        f"application {name} hasn't started yet: the leader would first take these steps:",
        "  make the coordination tables, which aren't there",
        "  make the lake table lake.records, which isn't there",
        f"  commit the origin of stream {name} to the lake table: TRIM_HORIZON",
        "and then",
        "create  shardId-000000000000    no parent of this shard is left to read",
        "create  shardId-000000000001    no parent of this shard is left to read",
        "the leader would make 2 changes: 2 create",
    ]
    said = planned(file, capsys)
    assert (said["started"], len(said["first"]), said["counts"]) == (False, 3, {"create": 2})
    assert table_names(dynamodb) == tables


def test_missing_tables_that_the_settings_dont_let_be_made_are_an_error_that_names_the_command(
    file: Path, capsys: pytest.CaptureFixture[str]
):
    with file.open("a", encoding="utf-8") as settings:
        settings.write("coordination: {create: never}\n")
    assert main(["plan", "--config", str(file)]) != 0
    assert "create them by `headrace tables create`" in capsys.readouterr().err


def test_steps_of_a_first_start_that_are_done_are_not_listed(file: Path, capsys: pytest.CaptureFixture[str]):
    duty = wire(read_settings(str(file), {}).settings).leader()
    duty.tables.ensure()
    assert [each.split()[0] for each in planned(file, capsys)["first"]] == ["make", "commit"]
    duty.table.ensure(create=True)
    assert [each.split()[0] for each in planned(file, capsys)["first"]] == ["commit"]
    duty.tick(LeaderMemory())
    said = planned(file, capsys)
    assert (said["started"], said["first"], said["changes"]) == (True, [], [])


def test_deleted_tables_dont_count_as_a_first_start_and_rows_come_from_the_lake_tables_positions(
    file: Path, dynamodb: "DynamoDBClient", capsys: pytest.CaptureFixture[str]
):
    settings = read_settings(str(file), {}).settings
    wire(settings).leader().tick(LeaderMemory())
    for table in (settings.lease_table, settings.worker_table, settings.state_table):
        dynamodb.delete_table(TableName=table)
    said = planned(file, capsys)
    assert (said["started"], said["first"]) == (True, ["make the coordination tables, which aren't there"])
    assert said["counts"] == {"create": 2}


def test_a_dropped_lake_table_under_rows_with_checkpoints_is_the_leaders_error():
    world = World(shards=1)
    world.settle()
    world.produce(0, 3)
    world.wave()
    empty = MemoryTable(world.clock)
    with pytest.raises(OriginUnsafe, match=r"1 lease row \(.*\) shows that Headrace has landed records"):
        preview(replace(world.a_leader(), table=empty), LeaderMemory())
    world.table.drop()
    with pytest.raises(OriginUnsafe, match="renamed or dropped"):
        preview(world.a_leader(), LeaderMemory())


def test_a_stream_without_an_origin_shows_its_start_and_its_rows_beside_one_that_has_begun():
    world = World(shards=1, more_streams=("late",), position=InitialPosition.LATEST)
    streams = world.settings.streams
    world.settings = replace(world.settings, streams=streams[:1])
    world.settle()
    world.settings = replace(world.settings, streams=streams)
    seen = preview(world.a_leader(), LeaderMemory())
    assert seen.has_started
    assert seen.first_steps == (
        "commit the origin of stream late to the lake table: LATEST, which means the time on Kinesis's clock at that moment",
    )
    assert lines_before(seen, "app")[0] == "the leader would first take these steps:"
    assert [(change_word(each), ":late:" in each.key) for each in seen.changes] == [("create", True)]
    assert {stream.name for stream in world.table.load().positions.origins} == {STREAM}


def test_the_command_shows_a_missing_lease_and_makes_none(
    file: Path, dynamodb: "DynamoDBClient", capsys: pytest.CaptureFixture[str]
):
    name = application_of(file)
    wire(read_settings(str(file), {}).settings).leader().tick(LeaderMemory())
    gone = {"leaseKey": {"S": "shardId-000000000001"}}
    dynamodb.delete_item(TableName=name, Key=gone)
    before = dynamodb.scan(TableName=name)["Items"]
    said = planned(file, capsys)
    assert [(each["kind"], each["lease"]) for each in said["changes"]] == [("create", "shardId-000000000001")]
    assert said["changes"][0]["why"]
    assert dynamodb.scan(TableName=name)["Items"] == before
    assert main(["plan", "--config", str(file), "--for", "1ms"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "the leader would make 1 change: 1 create"
