"""What a run has used is counted, kept in Dagster, priced, and summed up by day."""

import json
import os
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from headrace.pipeline.aws.clients.clients import dynamodb_client, kinesis_client
from headrace.pipeline.aws.clients.meter import Meter, _Adding
from headrace.pipeline.cli import main
from headrace.pipeline.cost.days import bounds_of, day_of
from headrace.pipeline.cost.prices import SHIPPED, prices_of
from headrace.pipeline.cost.sizing import Units, at_rest, scanned
from headrace.pipeline.cost.spent import Spent, cost_line, costs_of, spent_together
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.blocks.kcl import KclSettings
from headrace.pipeline.settings.choices import Beat, Heartbeat
from headrace.pipeline.settings.model import Settings
from headrace.resources.spent_events import KEY, spent_in
from tests.stand_in import a_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

RUN = Spent({"dynamodb:UpdateItem": 3}, 2.0, 3.0, bytes=10**9, files=2, commits=1, cpu_seconds=36.0)


def test_requests_and_the_units_that_dynamodb_states_are_counted(aws: LocalAws, dynamodb: "DynamoDBClient"):
    table = a_table(dynamodb, "key")
    settings, meter = AwsSettings(region=aws.region, endpoint=aws.endpoint), Meter()
    client, kinesis = dynamodb_client(settings, meter), kinesis_client(settings, meter)
    spent = meter.spending()
    client.put_item(TableName=table, Item={"key": {"S": "a"}})
    client.get_item(TableName=table, Key={"key": {"S": "a"}})
    with pytest.raises(client.exceptions.ConditionalCheckFailedException):
        client.put_item(
            TableName=table, Item={"key": {"S": "a"}}, ConditionExpression="attribute_not_exists(#k)",
            ExpressionAttributeNames={"#k": "key"},
        )  # fmt: skip
    kinesis.list_streams()
    used = spent()
    assert used.calls == {"dynamodb:GetItem": 1, "dynamodb:PutItem": 2, "kinesis:ListStreams": 1}
    assert used.write_units >= 1, "a refused write is charged"
    assert used.read_units > 0
    assert used.cpu_seconds > 0


def test_units_are_asked_for_only_where_somebody_tells_a_cost(aws: LocalAws, dynamodb: "DynamoDBClient"):
    table, meter = a_table(dynamodb, "key"), Meter()
    client = dynamodb_client(AwsSettings(region=aws.region, endpoint=aws.endpoint), meter)
    assert "ConsumedCapacity" not in client.put_item(TableName=table, Item={"key": {"S": "a"}})
    assert "ConsumedCapacity" not in client.scan(TableName=table)
    assert meter.usage().calls == {"dynamodb:PutItem": 1, "dynamodb:Scan": 1}
    spent = meter.spending()
    assert client.scan(TableName=table)["ConsumedCapacity"]["CapacityUnits"] == spent().read_units > 0
    assert spent().calls == {"dynamodb:Scan": 1}


def test_a_client_is_counted_by_its_own_meter_alone(aws: LocalAws):
    mine, other = Meter(), Meter()
    settings = AwsSettings(region=aws.region, endpoint=aws.endpoint)
    client, kinesis = dynamodb_client(settings, mine), kinesis_client(settings, mine)
    dynamodb_client(settings, other).list_tables()
    client.list_tables()
    kinesis.list_streams()
    assert (mine.usage().of("dynamodb"), mine.usage().of("kinesis")) == (1, 1)
    assert other.usage().calls == {"dynamodb:ListTables": 1}


def test_a_fork_counts_on_also_where_its_parent_was_counting_at_that_moment():
    with _Adding.lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if Meter().usage().cpu_seconds >= 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_row_is_still_parsed_whole_where_units_are_asked_for(aws: LocalAws, dynamodb: "DynamoDBClient"):
    table = a_table(dynamodb, "key")
    meter = Meter()
    meter.spending()
    client = dynamodb_client(AwsSettings(region=aws.region, endpoint=aws.endpoint), meter)
    client.put_item(TableName=table, Item={"key": {"S": "a"}, "n": {"N": "7"}})
    assert client.scan(TableName=table)["Items"] == [{"key": {"S": "a"}, "n": {"N": "7"}}]


def test_the_cost_of_a_run_is_the_price_of_its_parts():
    prices = prices_of(None)
    costs = costs_of(RUN, prices)
    assert costs["DynamoDB"] == pytest.approx(3 * 0.625e-6 + 2 * 0.125e-6)
    assert costs["Kinesis"] == pytest.approx(0.04)
    assert costs["S3"] == pytest.approx(9 * 5e-6)
    assert costs["CPU"] == pytest.approx(0.01 * 0.04)
    assert cost_line(RUN, prices).startswith("about 0.04045 USD (DynamoDB 0.00000, Kinesis 0.04000")


def test_bytes_that_came_by_enhanced_fan_out_have_a_price_of_their_own():
    half = Spent(bytes=2 * 10**9, fan_out_bytes=10**9)
    assert costs_of(half, prices_of(None))["Kinesis"] == pytest.approx(0.04 + 0.013)
    assert spent_together([half, half]).fan_out_bytes == 2 * 10**9


def test_what_the_sum_lacks_is_named(home: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["cost"]) == 0
    assert "not in the sum" not in capsys.readouterr().out
    table = "arn:aws:dynamodb:us-east-1:123456789012:table/items/stream/2026-11-27T05:00:00.000"
    (home / "headrace.yaml").write_text(
        "{application: shop, streams_mode: multi, aws: {region: us-east-1}, "
        f'streams: [{{name: orders, retrieval: fanout}}, {{name: "{table}"}}]}}'
    )
    assert main(["cost"]) == 0
    printed = capsys.readouterr().out
    assert "0.015 USD an hour for each shard of a consumer of enhanced fan-out (shop)" in printed
    assert "reads of the streams of DynamoDB tables" in printed


def test_a_users_own_prices_count_and_a_mistake_in_them_is_named(tmp_path: Path):
    mine = tmp_path / "mine.toml"
    mine.write_text(SHIPPED.read_text().replace("read_gb = 0.04", "read_gb = 1").replace('"USD"', '"EUR"'))
    assert cost_line(RUN, prices_of(str(mine))).startswith("about 1.0")
    assert "EUR" in cost_line(RUN, prices_of(str(mine)))
    mine.write_text(SHIPPED.read_text().replace("write_units = 0.625", "write_units = -1"))
    with pytest.raises(BadSetting, match=r"dynamodb.write_units has to be a number from 0 on"):
        prices_of(str(mine))
    with pytest.raises(BadSetting, match="can't be read"):
        prices_of(str(tmp_path / "none.toml"))


def test_a_users_prices_from_before_a_price_was_added_go_on(tmp_path: Path):
    text = "".join(
        line
        for line in SHIPPED.read_text().splitlines(keepends=True)
        if not line.startswith(("fan_out_gb", "consumer_shard_hour"))
    )
    mine = tmp_path / "mine.toml"
    mine.write_text(text)
    prices = prices_of(str(mine))
    half = Spent(bytes=2_000_000_000, fan_out_bytes=1_000_000_000)
    assert costs_of(half, prices)["Kinesis"] == pytest.approx(0.08)
    assert prices.consumer_shard_hour is None
    mine.write_text(text.replace("[kinesis]", "[kinesis]\nfan_out_gb = -1"))
    with pytest.raises(BadSetting, match=r"kinesis\.fan_out_gb has to be a number from 0 on"):
        prices_of(str(mine))


def test_runs_are_summed_and_the_ticks_of_today_count_up_to_now():
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    day = day_of(noon.date(), [RUN, RUN], Units(reads=2.0, writes=1.0), now=noon)
    assert day.runs == spent_together([RUN, RUN])
    assert (day.runs.runs, day.runs.calls, day.runs.bytes) == (2, {"dynamodb:UpdateItem": 6}, 2 * 10**9)
    assert day.ticks.write_units == 12 * 3600
    assert (
        day_of(noon.date(), [], Units(2.0, 1.0), now=noon + timedelta(days=9)).ticks.write_units == 24 * 3600
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Dagster with two runs of today, and one observation that is about something else."""
    (tmp_path / "headrace.yaml").write_text("{application: shop, streams: [{name: orders}]}")
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        for metadata in ({KEY: dg.MetadataValue.json(RUN.to_json())}, {"why": "denied"}) * 2:
            instance.report_runless_asset_event(dg.AssetObservation(["shop", "records"], metadata=metadata))
    return tmp_path


def test_dagsters_storage_gives_what_the_runs_of_a_day_have_used(home: Path):
    today = datetime.now(UTC).date()
    key = dg.AssetKey(["shop", "records"])
    assert list(spent_in(home, key, *bounds_of(today))) == [RUN, RUN]
    assert list(spent_in(home, key, *bounds_of(date(2020, 1, 1)))) == []


def test_headrace_cost_sums_a_day(home: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["cost", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["runs"]["runs"], told["costs"]["Kinesis"]) == (2, pytest.approx(0.08))
    assert told["together"] == pytest.approx(sum(told["costs"].values()))
    assert main(["cost"]) == 0
    assert "2 runs, as far as Dagster still has them" in capsys.readouterr().out


def test_without_a_dagster_the_sentence_says_which_folder_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "headrace.yaml").write_text("{application: shop, streams: [{name: orders}]}")
    assert main(["cost"]) == 2
    assert "set DAGSTER_HOME" in capsys.readouterr().err


def test_the_page_tells_what_the_row_of_an_ended_shard_costs() -> None:
    settings = Settings(application="app")
    day = scanned(settings, rows=1) * 24 * 3600
    page = (Path(__file__).parents[2] / "docs/why/kcl-parts.md").read_text(encoding="utf-8")
    assert f"about {day:,.0f} read units a day" in page


def test_a_process_that_beats_adds_to_each_lease_and_to_each_worker() -> None:
    kcl = KclSettings(
        failover=timedelta(seconds=10), heartbeat=Heartbeat.LEASE, allow_foreign_checkpoints=True
    )
    ticks_alone = Settings(application="app", kcl=kcl)
    with_process = replace(ticks_alone, kcl=replace(kcl, beat=Beat.PROCESS))
    fewer, more = (
        at_rest(settings, shards=100, workers=2, deployments=1) for settings in (ticks_alone, with_process)
    )
    turns = 1 / (10 / 3 - 0.025)
    assert more.writes - fewer.writes == pytest.approx(102 * turns)
    assert more.reads - fewer.reads == pytest.approx(2 * 1.5 * turns)
