"""What `headrace status` tells of an application of Headrace: shards that fail, its own tables, streams and processors."""

import csv
import io
import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.cli import main
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import Terminal
from headrace.pipeline.lake.spark.server.users import leave, use
from headrace.pipeline.lake.spark.session import DISCOVERY, own_folder
from headrace.pipeline.local.endpoint import LocalAws
from tests.aws.kcl_reader import read_as_kcl
from tests.cli.asking_status import Say, json_of
from tests.cli.kcl_tables import KclTables, a_worker, leases_of
from tests.duties.world import World
from tests.spark_servers import a_running_server

# --- shards that fail ---------------------------------------------------------------------------------------


def a_deployment(kcl: KclTables) -> World:
    """The real duties run on the stand-in's lease table."""
    world = World()
    world.leases = DynamoLeaseStore(kcl.client, kcl.lease_table)  # type: ignore[assignment]
    for shard in (0, 1):
        world.produce(shard)
    world.settle()
    return world


def deny(world: World, shard: int, why: str) -> None:
    denied = world.shard(shard)

    def fault(key: ShardKey) -> None:
        if key == denied:
            raise Terminal(why)

    world.stage.fault = fault


def test_a_failing_shard_needs_a_person_until_it_is_read_again(kcl: KclTables, say: Say):
    world = a_deployment(kcl)
    world.wave(run="r0")
    assert say("--strict")[0] == 0
    began = world.clock.now()
    for minute in range(4):
        deny(world, 1, f"AccessDeniedException, minute {minute}")
        world.wave(run=f"r{minute + 1}", keys=["shardId-000000000001"])
        world.clock.advance(timedelta(minutes=1))

    code, out, _ = say("--strict")
    assert code == 1
    assert out.splitlines()[-1] == f"{kcl.lease_table}: one thing needs a person: shards-failing"
    seen = json_of(say("--json"))
    assert seen["failing"] == [
        {
            "lease": "shardId-000000000001",
            "worker": "w1",
            "since": began.isoformat(timespec="milliseconds"),
            "why": "AccessDeniedException, minute 3",
        }
    ]
    rows = list(csv.DictReader(io.StringIO(say("--csv")[1])))
    assert [(row["failingSince"], row["failure"]) for row in rows] == [
        ("", ""),
        (began.isoformat(timespec="milliseconds"), "AccessDeniedException, minute 3"),
    ]

    world.stage.fault = lambda _: None
    world.wave(run="again")
    code, out, _ = say("--strict")
    assert (code, "failing" in out) == (0, False)
    assert json_of(say("--json"))["failing"] == []
    for item in kcl.client.scan(TableName=kcl.lease_table)["Items"]:
        assert not {"failure", "failingSince"} & item.keys()


def test_kcl_can_read_the_row_of_a_failing_shard(kcl: KclTables):
    world = a_deployment(kcl)
    deny(world, 1, "AccessDeniedException")
    world.wave()
    items = kcl.client.scan(TableName=kcl.lease_table)["Items"]
    assert [item["failure"] for item in items if "failure" in item] == [{"S": "AccessDeniedException"}]
    for item in items:
        read_as_kcl(item)


Status = Callable[..., tuple[int, str]]


@pytest.fixture
def status_with(kcl: KclTables, aws: LocalAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Status:
    """Run `headrace status` on this test's table with settings that have this `landing`."""

    def run(landing: str, *words: str) -> tuple[int, str]:
        file = tmp_path / "headrace.yaml"
        file.write_text(
            f"{{application: orders, coordination: {{lease_table: {kcl.lease_table}}}, streams: [{{name: s}}], "
            f"landing: {landing}, aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}}}",
            encoding="utf-8",
        )
        return main(["status", "--config", str(file), *words]), capsys.readouterr().out

    return run


def test_a_lake_table_that_isnt_made_yet_is_nothing_wrong(
    kcl: KclTables, status_with: Status, tmp_path: Path
):
    kcl.put(leases_of("a-1"))
    _, out = status_with(f"{{home: '{tmp_path}/lake'}}")
    assert "lake table lake.records: isn't in its catalog" in out.splitlines()
    assert "lake-table" not in out.splitlines()[-1]
    assert not (tmp_path / "lake").exists(), "the command only looks"


def test_a_lake_table_that_is_gone_needs_a_person(kcl: KclTables, status_with: Status, tmp_path: Path):
    a_deployment(kcl).wave(run="first")
    code, out = status_with(f"{{home: '{tmp_path}/lake'}}", "--strict")
    assert code == 1
    assert "the lake table lake.records isn't in the catalog, but 2 lease rows" in out
    assert "lake-table-gone" in out.splitlines()[-1]


def test_a_lake_table_that_cant_be_looked_at_is_told_and_the_leases_are_told_all_the_same(
    kcl: KclTables, status_with: Status, tmp_path: Path
):
    a_deployment(kcl).wave(run="first")
    away = (
        f"{{catalog: {{type: sql, uri: 'sqlite:///{tmp_path}/no/such/folder.db', warehouse: '{tmp_path}'}}, "
        f"state: '{tmp_path}/state'}}"
    )
    code, out = status_with(away)
    assert code == 0
    assert "the lake table lake.records couldn't be looked at: " in out
    told = json.loads(status_with(away, "--json")[1])
    assert (told["lake_table"]["table"], told["lake_table"]["is_there"]) == ("lake.records", None)
    assert "No such file or directory" in told["lake_table"]["why"]
    assert "lake-table-unseen" in [finding["code"] for finding in told["findings"]]
    assert told["leases"]["open"] == 2


# --- Headrace's own tables ----------------------------------------------------------------------------------


def test_with_settings_the_applications_tables_are_read(
    kcl: KclTables, aws: LocalAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    kcl.put(leases_of("a", "b"))
    workers = kcl.make_table("workers-of-ours", "wid", [a_worker("a", key="wid"), a_worker("b", key="wid")])
    file = tmp_path / "headrace.yaml"
    file.write_text(
        "application: orders\nstreams: [{name: s}]\n"
        f"coordination: {{lease_table: {kcl.lease_table}, worker_table: {workers}}}\n"
        f"aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}\n",
        encoding="utf-8",
    )
    assert main(["status", "--config", str(file), "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert [(w["worker"], w["has_row"]) for w in seen["workers"]] == [("a", True), ("b", True)]


def test_the_local_spark_server_of_the_project_is_told_before_the_conclusion_and_in_the_json(
    kcl: KclTables,
    aws: LocalAws,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delenv(DISCOVERY, raising=False)
    kcl.put(leases_of("a"))
    file = tmp_path / "headrace.yaml"
    file.write_text(
        f"{{application: orders, streams: [{{name: s}}], coordination: {{lease_table: {kcl.lease_table}}}, "
        f"aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}}}",
        encoding="utf-8",
    )
    assert main(["status", "--config", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["spark_servers"] == []

    folder = own_folder(settings=file)
    use(folder, "headrace dev")
    with a_running_server(folder) as pid:
        assert main(["status", "--config", str(file), "--json"]) == 0
        [server] = json.loads(capsys.readouterr().out)["spark_servers"]
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")  # a shell with another environment
        assert main(["status", "--config", str(file)]) == 0
        *_, told, blank, _ = capsys.readouterr().out.splitlines()
    leave(folder)
    assert (server["pid"], server["ends"], server["is_watched"]) == (pid, None, True)
    assert server["users"] == [{"name": "headrace dev", "pid": os.getpid()}]
    assert server["memory_bytes"] > 1_000_000
    assert told.startswith(f"local Spark server: process {pid}, since ")
    assert blank == ""


def test_status_names_how_each_stream_is_read_and_by_which_consumer(
    kcl: KclTables, aws: LocalAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    kcl.put(leases_of("a-1"))
    file = tmp_path / "headrace.yaml"
    file.write_text(
        f"{{application: orders, streams_mode: multi, coordination: {{lease_table: {kcl.lease_table}}}, "
        "streams: [{name: clicks}, {name: orders, retrieval: fanout, consumer: shop}], "
        f"discovery: {{prefix: x, retrieval: fanout}}, aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}}}",
        encoding="utf-8",
    )
    main(["status", "--config", str(file)])
    lines = capsys.readouterr().out.splitlines()
    assert "stream clicks: polling" in lines
    assert "stream orders: fanout by the consumer shop" in lines
    assert "stream others: fanout by the consumer orders" in lines
    main(["status", "--config", str(file), "--json"])
    reading = json.loads(capsys.readouterr().out)["reading"]
    assert reading[1] == {"stream": "orders", "retrieval": "fanout", "consumer": "shop"}


def test_status_calls_the_stream_of_a_table_as_the_lake_table_does(
    kcl: KclTables, aws: LocalAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    kcl.put(leases_of("a-1"))
    file = tmp_path / "headrace.yaml"
    arn = f"arn:aws:dynamodb:{aws.region}:123456789012:table/orders/stream/2026-11-27T05:00:00.000"
    file.write_text(
        f"{{application: orders, coordination: {{lease_table: {kcl.lease_table}}}, streams: [{{name: '{arn}'}}], "
        f"aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}}}",
        encoding="utf-8",
    )
    main(["status", "--config", str(file)])
    assert "stream orders.stream.2026-11-27T05_00_00.000: polling" in capsys.readouterr().out.splitlines()


def test_status_tells_where_each_processor_stands(
    kcl: KclTables, aws: LocalAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    kcl.put(leases_of("a-1"))
    file = tmp_path / "headrace.yaml"
    file.write_text(
        f"{{application: orders, coordination: {{lease_table: {kcl.lease_table}}}, streams: [{{name: clicks}}], "
        f"landing: {{home: '{tmp_path / 'lake'}'}}, aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}, "
        "processors: [{name: totals, callable: 'totals:rows', table: lake.totals, schema: total BIGINT}]}",
        encoding="utf-8",
    )
    main(["status", "--config", str(file)])
    assert "processor totals: its table can't be read" in capsys.readouterr().out
    (tmp_path / "lake").mkdir()
    main(["status", "--config", str(file)])
    said = capsys.readouterr().out.splitlines()
    assert "processor totals: lake.totals, 0 shards, 0 of them behind the lake table" in said
    main(["status", "--config", str(file), "--json"])
    (processor,) = json.loads(capsys.readouterr().out)["processors"]
    assert (processor["processor"], processor["shards"]) == ("totals", [])
