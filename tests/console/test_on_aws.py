"""A console of a KCL application on the stand-in: rows as KCL writes them, Kinesis's lists and lags, and AWS's refusals."""

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.console.server import Console
from headrace.pipeline.console.values import LagKind, Picture, Severity
from headrace.pipeline.console.wiring import ShownApplication, console_of
from headrace.pipeline.inspect.read import TableNames
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from tests.cli.kcl_tables import KclTables, a_lease, a_lock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient


class App:
    """A KCL application with two workers on a stream that was split once."""

    def __init__(self, aws: LocalAws, dynamodb: "DynamoDBClient", kinesis: "KinesisClient") -> None:
        self.aws = aws
        self.kinesis = kinesis
        self.stream = f"s-{uuid.uuid4().hex[:12]}"
        kinesis.create_stream(StreamName=self.stream, ShardCount=1)
        self.first = self.put("a")
        kinesis.split_shard(
            StreamName=self.stream, ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**127)
        )
        self.tables = KclTables(dynamodb)
        self.tables.put(
            [
                a_lease(
                    "shardId-000000000000",
                    owner="east-1",
                    checkpoint={"S": "SHARD_END"},
                    childShardIds={"SS": ["shardId-000000000001", "shardId-000000000002"]},
                ),
                a_lease("shardId-000000000001", n=0, of=2, owner="east-1", checkpoint={"S": "TRIM_HORIZON"}),
                a_lease("shardId-000000000002", n=1, of=2, owner="east-2", checkpoint={"S": "LATEST"}),
            ]
        )

    def put(self, key: str) -> str:
        return self.kinesis.put_record(StreamName=self.stream, Data=b"secret payload", PartitionKey=key)[
            "SequenceNumber"
        ]

    def console(self, **more: Any) -> Console:
        fields: dict[str, Any] = {
            "application": self.tables.lease_table,
            "tables": TableNames.of(self.tables.lease_table),
            "aws": AwsSettings(region=self.aws.region, endpoint=self.aws.endpoint),
            "stream": self.stream,
        }
        return console_of(ShownApplication(**fields | more))

    def picture(self, **more: Any) -> Picture:
        report = self.console(**more).watch.report()
        assert report.trouble is None
        assert report.picture is not None
        return report.picture


@pytest.fixture
def app(aws: LocalAws, dynamodb: "DynamoDBClient", kinesis: "KinesisClient") -> App:
    return App(aws, dynamodb, kinesis)


def test_rows_of_kcl_and_the_list_of_kinesis_make_one_family(app: App):
    picture = app.picture()
    kin = {shard.kin.shard_id[-1]: shard.kin for shard in picture.shards}
    assert [kin[n].generation for n in "012"] == [0, 1, 1]
    assert kin["1"].parents == ("shardId-000000000000",)
    assert kin["0"].closed_at == kin["1"].born is not None
    assert [shard.state for shard in picture.shards] == ["ended", "assigned", "assigned"]
    (stream,) = picture.streams
    assert stream.retention is not None
    assert stream.retention.total_seconds() == 86_400


def test_without_the_streams_name_the_page_says_what_is_unknown(app: App):
    picture = app.picture(stream=None)
    assert len(picture.shards) == 3
    assert picture.shards[1].kin.parents == ("shardId-000000000000",), "rows name the children"
    (problem,) = [problem for problem in picture.problems if problem.code == "stream-unknown"]
    assert "--stream" in problem.sentence


def test_a_peek_tells_the_lag_and_keeps_no_payload(app: App):
    app.kinesis.put_record(
        StreamName=app.stream, Data=b"secret payload", PartitionKey="b", ExplicitHashKey="5"
    )
    assert app.picture().by_key()["shardId-000000000001"].lag.kind is LagKind.UNKNOWN
    console = app.console(peek=5)
    report = console.watch.report()
    assert report.picture is not None
    lag = report.picture.by_key()["shardId-000000000001"].lag
    assert lag.kind is LagKind.MEASURED
    assert lag.behind is not None
    assert 0 <= lag.behind.total_seconds() < 120
    told = str(console.look("", 0)) + str(console.shard("shardId-000000000001"))
    assert "secret" not in told
    # LATEST: which record is the next one isn't known, so nothing is asked.
    assert report.picture.by_key()["shardId-000000000002"].lag.kind is LagKind.UNKNOWN


def test_a_peek_that_aws_refuses_is_told_and_leaves_the_lag_unknown(app: App):
    app.aws.inject(
        "error",
        operation="GetShardIterator",
        resource=app.stream,
        code="AccessDeniedException",
        status=400,
        count=5,
    )
    picture = app.picture(peek=5)
    assert picture.by_key()["shardId-000000000001"].lag.kind is LagKind.UNKNOWN
    assert any("couldn't be asked" in problem.sentence for problem in picture.problems)


def test_rows_of_kcl_1_without_hash_keys_are_shown(app: App):
    plain = ("leaseKey", "leaseOwner", "leaseCounter", "checkpoint", "ownerSwitchesSinceCheckpoint")
    old = KclTables(app.tables.client)
    rows = [a_lease(f"shardId-00000000000{n}", owner="east-1") for n in range(3)]
    old.put([{name: row[name] for name in plain} for row in rows])
    picture = app.picture(tables=TableNames.of(old.lease_table))
    assert [shard.owner for shard in picture.shards] == ["east-1"] * 3
    assert all(shard.kin.hashes is not None for shard in picture.shards), "by Kinesis's list"
    alone = app.picture(tables=TableNames.of(old.lease_table), stream=None)
    assert all(shard.kin.hashes is None for shard in alone.shards)
    assert alone.layout == "only leases, as KCL 1.x and 2.x"


def test_a_checkpoint_at_the_tip_has_no_lag(app: App):
    number = app.kinesis.put_record(StreamName=app.stream, Data=b"x", PartitionKey="b", ExplicitHashKey="5")
    app.tables.put(
        [
            a_lease(
                "shardId-000000000001",
                n=0,
                of=2,
                owner="east-1",
                checkpoint={"S": number["SequenceNumber"]},
            )
        ]
    )
    lag = app.picture(peek=5).by_key()["shardId-000000000001"].lag
    assert (lag.kind, lag.behind) == (LagKind.MEASURED, timedelta(0))
    bound = app.picture().by_key()["shardId-000000000001"].lag
    assert bound.kind is LagKind.AT_MOST


def test_what_a_look_asked_is_counted(app: App):
    report = app.console().watch.report()
    # DescribeTable and Scan of the lease table; DescribeTable of the two tables that don't exist.
    assert report.cost.scans == 4
    assert report.cost.kinesis == 2
    assert report.cost.units > 0
    assert report.cost.provisioned == 0


def test_a_list_that_is_a_minute_young_is_not_asked_for_again(app: App):
    console = app.console()
    console.watch.report()
    assert console.watch.report(at_once=True).cost.kinesis == 0


def test_a_stuck_lock_of_kcl_is_shown_with_its_owner(app: App):
    app.tables.put([a_lock("east-1", key="leaseKey")])
    assert app.picture().leader.worker == "east-1"


def test_a_table_that_is_missing_is_a_sentence_and_the_page_recovers(app: App):
    console = app.console(tables=TableNames.of("no-such-table"))
    report = console.watch.report()
    assert report.picture is None
    assert report.trouble is not None
    assert "there is no table no-such-table" in report.trouble.sentence


def test_missing_credentials_are_a_sentence(app: App, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    report = app.console().watch.report()
    assert report.trouble is not None
    assert "no AWS credentials were found" in report.trouble.sentence


def test_a_stream_that_is_missing_leaves_the_leases_to_be_seen(app: App):
    picture = app.picture(stream="no-such-stream")
    assert len(picture.shards) == 3
    (problem,) = [problem for problem in picture.problems if problem.code == "stream-unknown"]
    assert problem.level is Severity.WARN
    assert "no-such-stream" in problem.sentence


def test_the_console_writes_nothing(app: App):
    before = app.tables.everything()
    app.picture(peek=5)
    assert app.tables.everything() == before
