"""Dagster's graph of an application reads as a person would draw it."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster._core.definitions.assets.graph.asset_graph import AssetGraph

from headrace.assets.names import records_key
from headrace.assets.observations import observations
from headrace.assets.record_columns import RECORD_COLUMNS
from headrace.pipeline.building import build_definitions
from headrace.pipeline.lake.table.schema import RECORDS
from headrace.pipeline.settings.blocks.dagster import BackfillSettings, DagsterSettings, FreshnessSettings
from headrace.pipeline.settings.blocks.parse import ParseSettings, UniqueSettings
from headrace.pipeline.settings.choices import Period
from headrace.pipeline.settings.model import LandingSettings, Settings, StreamSettings
from tests.checking.looks import healthy

TARGET = ParseSettings(name="sold", table="lake.sold", schema="id BIGINT", filter="record IS NOT NULL")
SETTINGS = Settings(
    application="shop",
    streams=(StreamSettings(name="orders"),),
    landing=LandingSettings(table="lake.orders"),
    parse=(TARGET,),
    dagster=DagsterSettings(
        owners=("team:data",),
        tags={"domain": "sales"},
        freshness=FreshnessSettings(warn=timedelta(minutes=15), fail=timedelta(hours=1)),
        complete_from=datetime(2026, 1, 31, tzinfo=UTC),
    ),
)


def graph_of(settings: Settings) -> AssetGraph:
    return build_definitions(settings).resolve_asset_graph()


def edges(graph: AssetGraph) -> set[tuple[str, str]]:
    return {
        (parent.to_user_string(), key.to_user_string())
        for key in graph.get_all_asset_keys()
        for parent in graph.get(key).parent_keys
    }


def test_the_arrows_go_from_the_stream_by_records_and_tables_to_upkeep_and_proof():
    tables = ("shop/lake/sold", "shop/lake/sold_quarantine")
    assert edges(graph_of(SETTINGS)) == {
        ("kinesis/orders", "shop/leases"),
        ("shop/workers", "shop/leases"),
        ("shop/leader", "shop/leases"),
        ("kinesis/orders", "shop/records"),
        ("shop/leases", "shop/records"),
        *(("shop/records", name) for name in (*tables, "shop/lineage", "shop/complete_hours")),
        *((name, end) for name in ("shop/records", *tables) for end in ("shop/upkeep", "shop/proof")),
        ("shop/lineage", "shop/proof"),
    }


def test_no_two_nodes_of_the_graph_have_one_name():
    shown = [key.path[-1] for key in graph_of(SETTINGS).get_all_asset_keys()]
    assert sorted(shown) == sorted(set(shown))


def test_each_layer_is_a_group_of_the_application_and_streams_belong_to_all():
    graph = graph_of(SETTINGS)
    groups = {key.path[-1]: graph.get(key).group_name for key in graph.get_all_asset_keys()}
    assert groups == {
        "orders": "kinesis",
        **dict.fromkeys(("leases", "workers", "leader"), "shop_coordination"),
        **dict.fromkeys(("records", "lineage", "complete_hours"), "shop_landing"),
        **dict.fromkeys(("sold", "sold_quarantine"), "shop_typed"),
        **dict.fromkeys(("upkeep", "proof"), "shop_upkeep"),
    }


def test_owners_tags_and_freshness_are_those_of_the_settings():
    graph = graph_of(SETTINGS)
    own = [key for key in graph.get_all_asset_keys() if key.path[0] == "shop"]
    assert all(graph.get(key).owners == ["team:data"] for key in own)
    assert all(graph.get(key).tags.get("domain") == "sales" for key in own)
    fresh = {
        key.path[-1] for key in own if graph.get(key).metadata.get("dagster/internal_freshness_policy")
    } | {key.path[-1] for key in own if graph.get(key).freshness_policy}
    assert fresh == {"records", "sold"}


def test_descriptions_name_tables_and_streams_and_no_placeholder():
    graph = graph_of(SETTINGS)
    told = {key.path[-1]: graph.get(key).description or "" for key in graph.get_all_asset_keys()}
    assert all(told.values())
    assert not [name for name, text in told.items() if "<application>" in text or "target" in text.lower()]
    assert "`lake.orders`" in told["records"]
    assert "`orders`" in told["records"]
    for part in ("`lake.sold`", "`json`", "`record IS NOT NULL`", "`lake.sold_quarantine`"):
        assert part in told["sold"]


def test_what_makes_a_table_has_a_code_version_that_the_version_of_the_target_changes():
    def versions(target: ParseSettings) -> set[str | None]:
        graph = graph_of(Settings(application="shop", streams=SETTINGS.streams, parse=(target,)))
        return {graph.get(key).code_version for key in graph.materializable_asset_keys}

    raised = ParseSettings(name="sold", table="lake.sold", schema="id BIGINT", version="2")
    assert None not in versions(TARGET)
    assert versions(TARGET) != versions(raised)


def test_the_columns_that_dagster_shows_are_those_of_the_lake_table():
    assert [(c.name, c.kind, c.about) for c in RECORD_COLUMNS] == [
        (name, str(kind), doc) for name, kind, doc in RECORDS.columns
    ]
    records = graph_of(SETTINGS).get(records_key(SETTINGS)).metadata
    assert records["dagster/table_name"] == records["dagster/relation_identifier"] == "lake.orders"
    assert [c.name for c in records["dagster/column_schema"].columns] == [c.name for c in RECORD_COLUMNS]


def test_two_applications_may_read_one_stream_from_different_places():
    one = Settings(application="one", streams=(StreamSettings(name="orders"),))
    arn = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
    two = Settings(application="two", streams=(StreamSettings(name=arn),))
    keys = dg.Definitions.merge(build_definitions(one), build_definitions(two)).resolve_all_asset_keys()
    assert dg.AssetKey(["kinesis", "orders"]) in keys


def test_the_stream_of_a_table_is_an_asset_with_the_name_that_the_lake_table_has_for_it():
    arn = "arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/2026-11-27T05:00:00.000"
    of_table = replace(SETTINGS, streams=(StreamSettings(name=arn),))
    graph = graph_of(of_table)
    key = dg.AssetKey(["dynamodb", "orders.stream.2026-11-27T05_00_00.000"])
    assert graph.get(key).kinds == {"dynamodb"}
    assert graph.get(key).group_name == "dynamodb"
    assert graph.get(key).description == (
        "The changes of the DynamoDB table `orders`, by its stream that was switched on at 2026-11-27T05:00:00.000. "
        "Its observations tell lag, rate and shards, for each application that reads it."
    )
    assert key in graph.get(records_key(of_table)).parent_keys
    assert graph.get(records_key(of_table)).kinds == {"dynamodb", "pyspark", "iceberg"}


def test_what_the_watch_observes_of_a_table_is_told_to_the_asset_of_its_stream():
    arn = "arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/2026-11-27T05:00:00.000"
    of_table = replace(SETTINGS, streams=(StreamSettings(name=arn),))
    told = {observation.asset_key for observation in observations(of_table, healthy())}
    assert told <= graph_of(of_table).get_all_asset_keys()
    assert dg.AssetKey(["dynamodb", "orders.stream.2026-11-27T05_00_00.000"]) in told


def test_a_stream_without_an_open_shard_is_observed_too():
    all_ended = tuple(row for row in healthy().leases if row.has_ended)
    (of_stream, *_) = observations(SETTINGS, replace(healthy(), leases=all_ended))
    assert of_stream.metadata["shop: rate (KB/s)"] == dg.MetadataValue.float(0.0)
    assert of_stream.metadata["shop: open shards"] == dg.MetadataValue.int(0)


def test_an_application_may_read_tables_and_kinesis_beside_each_other():
    arn = "arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/2026-11-27T05:00:00.000"
    both = replace(SETTINGS, streams=(*SETTINGS.streams, StreamSettings(name=arn)))
    graph = graph_of(both)
    assert dg.AssetKey(["dynamodb", "orders.stream.2026-11-27T05_00_00.000"]) in graph.get_all_asset_keys()
    assert graph.get(records_key(both)).kinds == {"kinesis", "pyspark", "iceberg"}


def test_backfills_are_assets_of_their_own_group_for_each_target_whose_rows_can_be_replaced():
    unique = replace(
        TARGET, name="once", table="lake.once", unique=UniqueSettings(by="id", within=timedelta(hours=1))
    )
    backfill = BackfillSettings(by=Period.DAY, since=datetime(2026, 1, 31, 7, tzinfo=UTC), copies=True)
    asked = replace(SETTINGS, parse=(TARGET, unique), dagster=DagsterSettings(backfill=backfill))
    graph = graph_of(asked)
    own = {key for key in graph.get_all_asset_keys() if graph.get(key).group_name == "shop_backfill"}
    assert {key.to_user_string() for key in own} == {"shop/lake/sold_again", "shop/copies"}
    for key in own:
        partitions = graph.get(key).partitions_def
        assert isinstance(partitions, dg.TimeWindowPartitionsDefinition)
        assert partitions.get_first_partition_key() == "2026-01-31"
    assert graph_of(SETTINGS).get_all_asset_keys() == graph.get_all_asset_keys() - own - {
        key for key in graph.get_all_asset_keys() if "once" in key.path[-1]
    } | {dg.AssetKey(["shop", "complete_hours"])}


_INNER_WORDS = re.compile(r"<application>|compare-and-swap|\bop\b|\bplan_|`spark`")


def test_jobs_and_sensors_are_described_in_sentences_without_a_placeholder_or_an_inner_word():
    definitions = build_definitions(SETTINGS)
    described: list[dg.JobDefinition | dg.SensorDefinition] = [
        *definitions.resolve_all_job_defs(),
        *definitions.get_repository_def().sensor_defs,
    ]
    told = {one.name: one.description or "" for one in described if not one.name.startswith("__")}
    assert not [name for name, text in told.items() if not re.fullmatch(r"[A-Z].*\.", text, re.DOTALL)]
    assert not [name for name, text in told.items() if _INNER_WORDS.search(text)]
