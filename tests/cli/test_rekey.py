"""`headrace rekey` and the refusal of a changed `streams_mode`, on the stand-in's DynamoDB and with real landings."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from headrace.pipeline.app.wiring import wire
from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.aws.leases.tables import DynamoTables
from headrace.pipeline.cli import main
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.lease_form import is_of_form
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.file import read_settings
from headrace.pipeline.settings.model import Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient

SHARDS = 2


class App:
    """An application with tables of its own, whose leader ticks here. Its settings file names one stream or both."""

    def __init__(
        self, folder: Path, aws: LocalAws, dynamodb: "DynamoDBClient", kinesis: "KinesisClient"
    ) -> None:
        self.kinesis, self.aws, self.file = kinesis, aws, folder / "headrace.yaml"
        self.name = f"r-{uuid4().hex[:8]}"
        self.streams = (f"{self.name}-orders", f"{self.name}-returns")
        for stream in self.streams:
            kinesis.create_stream(StreamName=stream, ShardCount=SHARDS)
            kinesis.get_waiter("stream_exists").wait(StreamName=stream, WaiterConfig={"Delay": 1})
        self.start_as("single")
        DynamoTables(dynamodb, self.settings).create()
        self.leases = DynamoLeaseStore(dynamodb, self.name)

    def start_as(self, mode: str, **more: str) -> None:
        """Write the settings of the next start: with `multi` both streams, else the first one."""
        named = self.streams if mode == "multi" else self.streams[:1]
        lines = [
            f"application: {self.name}",
            f"streams: [{', '.join(f'{{name: {name}}}' for name in named)}]",
            f"streams_mode: {mode}",
            f"aws: {{region: {self.aws.region}, endpoint: '{self.aws.endpoint}'}}",
            *(f"{key}: {value}" for key, value in more.items()),
        ]
        self.file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    @property
    def settings(self) -> Settings:
        return read_settings(str(self.file), {}).settings

    def lead(self) -> str:
        """One tick of a leader that has just started, which stops again."""
        leader = wire(self.settings).leader()
        said = str(leader.tick(LeaderMemory()))
        leader.electing.release()
        return said

    def put(self, stream: int = 0, count: int = 5) -> None:
        for n in range(count):
            self.kinesis.put_record(StreamName=self.streams[stream], Data=b'{"id": 1}', PartitionKey=f"k{n}")

    @property
    def keys(self) -> list[str]:
        return sorted(row.key for row in self.leases.scan().leases)


@pytest.fixture
def app(
    aws: LocalAws,
    dynamodb: "DynamoDBClient",
    kinesis: "KinesisClient",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> App:
    for variable, value in aws.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_CONFIG", raising=False)
    monkeypatch.setattr("headrace.pipeline.cli.rekey.sleep", lambda _: None)
    return App(tmp_path, aws, dynamodb, kinesis)


@pytest.mark.parametrize(
    "command",
    [("plan", "--for", "1s"), ("consume", "--worker", "w1"), ("consume", "--shard", "shardId-000000000000")],
)
def test_a_changed_mode_is_refused_by_each_command_before_it_writes(
    app: App, command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headrace.pipeline.cli.beside.services.join_spark", lambda _: None)
    app.lead()
    wire(app.settings).readers().by_worker(("shardId-000000000000",))  # w1 gets a lease
    before = app.leases.scan()
    app.start_as("multi")
    assert main([*command]) == 2
    said = capsys.readouterr().err
    assert (
        "streams_mode is multi, but the application's 2 lease rows (shardId-000000000000, ...) have the form"
        in said
    )
    assert "`headrace rekey`" in said
    assert app.leases.scan() == before
    assert main(["status", "--json", "--strict"]) == 1
    found = {each["code"]: each["sentence"] for each in json.loads(capsys.readouterr().out)["findings"]}
    assert found["other-mode"].startswith("streams_mode is multi")


def test_without_yes_the_plan_is_shown_and_nothing_is_written(app: App, capsys: pytest.CaptureFixture[str]):
    app.lead()
    before = app.leases.scan()
    app.start_as("multi")
    assert main(["rekey"]) == 0
    told = capsys.readouterr()
    assert "2 lease rows to make, 2 lease rows to delete" in told.out
    assert told.out.count("streams_mode is multi: it takes the place of shardId-0000") == 2
    assert "nothing was changed: add --yes" in told.err
    assert main(["rekey", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["kind"] for each in document["changes"]] == ["create", "create", "delete", "delete"]
    assert app.leases.scan() == before


def test_the_rows_change_there_and_back_and_a_second_run_has_nothing_to_do(
    app: App, capsys: pytest.CaptureFixture[str]
):
    app.lead()
    app.start_as("multi")
    assert main(["rekey", "--yes"]) == 0
    assert "2 lease rows made, 2 lease rows deleted" in capsys.readouterr().out
    assert all(is_of_form(row, multi=True) for row in app.leases.scan().leases)
    assert main(["rekey", "--yes"]) == 0
    assert capsys.readouterr().out == "all lease rows have the form of streams_mode: multi\n"
    assert "2 shards added" in app.lead(), "those of the second stream"
    app.start_as("single")
    assert main(["rekey", "--yes"]) == 0
    assert "2 lease rows made, 4 lease rows deleted" in capsys.readouterr().out
    assert app.keys == [f"shardId-{n:012d}" for n in range(SHARDS)]
    assert "added" not in app.lead()


def test_a_stream_that_the_settings_name_no_more_is_named_in_status_and_needs_nobody(
    app: App, capsys: pytest.CaptureFixture[str]
):
    app.start_as("multi")
    app.lead()
    assert main(["status", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert "former-streams" not in {finding["code"] for finding in findings}
    app.file.write_text(app.file.read_text().replace(f", {{name: {app.streams[1]}}}", ""))
    assert main(["status", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    (former,) = [finding for finding in findings if finding["code"] == "former-streams"]
    assert (former["names"], former["needs_person"]) == ([app.streams[1]], False)


def test_rows_that_are_left_over_are_named_in_status_and_removed(
    app: App, capsys: pytest.CaptureFixture[str]
):
    app.lead()
    row = app.leases.get("shardId-000000000000")
    assert row is not None
    life = f"123456789012:{app.streams[0]}:{row.stream_epoch}"
    left = change.create(_named(row, life), "left over")
    app.leases.apply(left)
    assert main(["status", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    (found,) = [each for each in findings if each["code"] == "rows-left-over"]
    assert found["needs_person"]
    assert found["names"] == [left.key]
    assert "1 row not understood" in app.lead()
    assert main(["rekey", "--yes"]) == 0
    assert app.keys == [f"shardId-{n:012d}" for n in range(SHARDS)]


def _named(row: Lease, life: str) -> Lease:
    return replace(row, key=f"{life}:{row.key}", stream=life, shard=row.key)


def test_beside_kcl_the_command_refuses(app: App, capsys: pytest.CaptureFixture[str]):
    app.lead()
    before = app.leases.scan()
    app.start_as("multi", kcl="{failover: 20s, heartbeat: lease, allow_foreign_checkpoints: true}")
    assert main(["rekey", "--yes"]) == 2
    assert "kcl.failover is set" in capsys.readouterr().err
    assert app.leases.scan() == before


def _a_worker_beats(app: App) -> None:
    wire(app.settings).ports.workers().beat("w1", "dagster-1", found="dagster-1")


def _a_kcl_worker_renews(app: App) -> None:
    row = app.leases.get("shardId-000000000000")
    assert row is not None
    app.leases.apply(change.beat(row, "kcl-1"))


def _the_lock_beats(app: App) -> None:
    wire(app.settings).leader("other").tick(LeaderMemory())


@pytest.mark.parametrize("sign", [_a_worker_beats, _a_kcl_worker_renews, _the_lock_beats])
def test_while_anybody_is_at_work_nothing_is_written(
    app: App, sign: Callable[[App], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    app.lead()
    row = app.leases.get("shardId-000000000000")
    assert row is not None
    app.leases.apply(change.assign(row, "kcl-1", "for the test"))
    wire(app.settings).ports.workers().beat("w1", "dagster-1", found=None)
    single = app.file.read_text(encoding="utf-8")
    app.start_as("multi")
    multi = app.file.read_text(encoding="utf-8")

    def pause(_seconds: float) -> None:
        app.file.write_text(single, encoding="utf-8")
        sign(app)
        app.file.write_text(multi, encoding="utf-8")

    monkeypatch.setattr("headrace.pipeline.cli.rekey.sleep", pause)
    assert main(["rekey", "--yes"]) == 2
    said = capsys.readouterr().err
    assert "is at work. Nothing was changed. Stop all workers" in said
    assert all(is_of_form(row, multi=False) for row in app.leases.scan().leases)


def test_a_worker_that_is_stopping_keeps_nobody_from_it(app: App, monkeypatch: pytest.MonkeyPatch):
    app.lead()
    workers = wire(app.settings).ports.workers()
    workers.beat("w1", "dagster-1", found=None)
    workers.set_stopping("w1", stopping=True)
    monkeypatch.setattr("headrace.pipeline.cli.rekey.sleep", lambda _: _a_worker_beats(app))
    app.start_as("multi")
    assert main(["rekey", "--yes"]) == 0
    assert all(is_of_form(row, multi=True) for row in app.leases.scan().leases)


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.usefixtures("joined_spark")
def test_what_landed_in_one_mode_goes_on_in_the_other_with_typed_tables_windows_and_proof(
    app: App, capsys: pytest.CaptureFixture[str]
):
    """The lake's tables have no form: only the lease rows change."""
    parse = '[{name: ids, table: lake.ids, schema: "id BIGINT"}]'
    app.start_as("single", parse=parse)
    app.lead()
    app.put()
    assert main(["consume", "--shard", *app.keys]) == 0
    assert main(["parse"]) == 0
    assert main(["window", "create", "--shard", "shardId-000000000000"]) == 0
    window = capsys.readouterr().out.split("window ")[1].split(":")[0]
    before = wire(app.settings).ports.table("test").load()
    app.start_as("multi", parse=parse)
    assert main(["rekey", "--yes"]) == 0
    assert wire(app.settings).ports.table("test").load() == before
    app.lead()
    app.put()
    app.put(stream=1)
    assert main(["consume", "--shard", *app.keys]) == 0
    assert main(["parse"]) == 0
    assert main(["window", "run", window]) == 0
    capsys.readouterr()
    assert main(["prove"]) == 0
    assert "proved: 15 records of 4 shards" in capsys.readouterr().out
    app.start_as("single", parse=parse)
    assert main(["rekey", "--yes"]) == 2
    assert "there is no way back any more" in capsys.readouterr().err
