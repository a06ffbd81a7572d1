"""Which events tell what a command or a job has changed."""

from dataclasses import replace

import dagster as dg

from headrace.assets.changes import by_parsing, by_redoing, by_redriving, by_upkeep
from headrace.assets.names import quarantine_key, upkeep_key
from headrace.pipeline.core.ledger.live_files import LiveFile
from headrace.pipeline.errors import Throttled
from headrace.pipeline.settings.model import Settings, StreamSettings
from headrace.pipeline.typed.done_wave import Does, Wave
from headrace.pipeline.upkeep.upkeep import UpkeepReport
from headrace.pipeline.windows.window import ReplayWindow, WindowRange
from tests.lake.samples import NOON, a_key, at
from tests.typed.parsings import SETTINGS as ORDERS

APPLICATION = Settings(application="app", streams=(StreamSettings(name="orders"),), parse=(ORDERS,))
PARSED, RECORDS = dg.AssetKey(["app", "lake", "orders"]), dg.AssetKey(["app", "records"])
WINDOW = ReplayWindow(
    id="4f0c2a91",
    application="app",
    made=NOON,
    by="a test",
    how="what snapshot 7 landed",
    ranges=tuple(WindowRange(a_key(number), None, at(5)) for number in range(2)),
)


def test_waves_without_a_commit_leave_no_event():
    assert list(by_parsing(APPLICATION, ORDERS, [Wave(Does.PARSE)])) == []
    assert list(by_redriving(APPLICATION, ORDERS, [Wave(Does.REDRIVE, 5, 2)])) == [], "a dry run"
    replaces = replace(WINDOW, target="orders")
    assert list(by_redoing(APPLICATION, replaces, "lake.orders", [Wave(Does.REPLACE)])) == []


def test_what_was_set_aside_is_told_with_its_reasons_the_most_frequent_one_first():
    cast = "the payload has values that don't fit their columns: pieces (int)"
    waves = [
        Wave(Does.PARSE, 5, 2, snapshot=7, reasons=(("no JSON", 2), (cast, 1))),
        Wave(Does.PARSE, 4, 0, snapshot=8, reasons=((cast, 4),)),
    ]
    _, aside = by_parsing(APPLICATION, ORDERS, waves)
    assert aside.asset_key == quarantine_key(APPLICATION, ORDERS)
    assert aside.metadata["rows"].value == 7
    table = aside.metadata["reasons"]
    assert isinstance(table, dg.TableMetadataValue)
    assert [record.data for record in table.records] == [
        {"reason": cast, "rows": 5},
        {"reason": "no JSON", "rows": 2},
    ]


def test_reasons_that_may_quote_a_record_are_asked_of_the_quarantine_table():
    _, aside = by_parsing(APPLICATION, ORDERS, [Wave(Does.PARSE, 5, 2, snapshot=7)])
    assert aside.metadata["reasons"].value == f"the reasons are in the column `reason` of {ORDERS.quarantine}"


def test_a_redrive_that_mends_nothing_is_an_observation_because_the_typed_table_is_as_before():
    event, aside = by_redriving(APPLICATION, ORDERS, [Wave(Does.REDRIVE, 5, 0, {"filter": 2}, snapshot=7)])
    assert isinstance(event, dg.AssetObservation)
    assert event.asset_key == PARSED
    assert event.metadata["left quarantine"].value == 2
    assert isinstance(aside, dg.AssetMaterialization)
    assert aside.asset_key == quarantine_key(APPLICATION, ORDERS)
    event, _ = by_redriving(APPLICATION, ORDERS, [Wave(Does.REDRIVE, 5, 1, {"filter": 2}, snapshot=7)])
    assert isinstance(event, dg.AssetMaterialization)
    assert {name: value.value for name, value in event.metadata.items()} == {
        "parsed again": 5,
        "mended": 1,
        "left quarantine": 3,
        "still set aside": 2,
        "portions": 1,
    }


def test_a_window_that_replaces_rows_is_an_event_on_its_target_with_rows_and_range():
    wave = Wave(Does.REPLACE, rows=9, landed=9, snapshot=3)
    (event,) = by_redoing(APPLICATION, replace(WINDOW, target="orders"), "lake.orders", [wave])
    assert isinstance(event, dg.AssetMaterialization)
    assert event.asset_key == PARSED
    assert (event.metadata["rows"].value, event.metadata["range"].value) == (9, "what snapshot 7 landed")


def test_a_window_that_takes_aggregates_apart_is_an_event_on_the_partition_of_each_of_its_shards():
    wave = Wave(Does.UNPACK, rows=2, landed=20, snapshot=3)
    unpacks = replace(WINDOW, unpack=True)
    made = list(by_redoing(APPLICATION, unpacks, "lake.records", [wave]))
    assert [(event.asset_key, event.partition) for event in made] == [
        (RECORDS, a_key(number).shard_id) for number in range(2)
    ]


def test_a_window_that_is_copied_into_a_table_of_its_own_leaves_no_event():
    assert (
        list(by_redoing(APPLICATION, WINDOW, "lake.records_window", [Wave(Does.COPY, 9, 9, snapshot=3)]))
        == []
    )


def test_an_upkeep_that_drops_days_is_an_observation_with_the_rows():
    report = UpkeepReport(dropped=(LiveFile("a", "2026-01-31", rows=7, size=9),))
    own, event = by_upkeep(APPLICATION, report)
    assert isinstance(own, dg.AssetMaterialization)
    assert own.asset_key == upkeep_key(APPLICATION)
    assert isinstance(event, dg.AssetObservation)
    assert event.asset_key == RECORDS
    assert event.metadata["rows dropped by retention"].value == 7


def test_an_upkeep_of_which_a_part_failed_is_an_observation_on_its_own_asset():
    (own,) = by_upkeep(APPLICATION, UpkeepReport(troubles=(Throttled("the catalog throttles"),)))
    assert isinstance(own, dg.AssetObservation)
    assert own.asset_key == upkeep_key(APPLICATION)
