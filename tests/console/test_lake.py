"""A shard's page of an application of Headrace: what has landed, by run and file, and what was parsed of it."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.console.details import details_of
from headrace.pipeline.console.lake import MOST_RANGES, LakeOfApplication, row_changes
from headrace.pipeline.console.ports import LandedOfShard
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.settings.file import read_settings
from tests.console.scenes import a_scene
from tests.lake.samples import NOON, ORIGIN, a_file, a_key, a_range
from tests.lake.tables import IcebergLake


class Shop:
    def __init__(self, folder: Path) -> None:
        self.lake = IcebergLake(folder)
        self.table = self.lake.iceberg
        self.table.commit(ORIGIN)
        config = folder / "headrace.yaml"
        catalog = {name: self.table.catalog.properties[name] for name in ("type", "uri", "warehouse")}
        config.write_text(
            "application: shop\nstreams: [{name: orders}]\naws: {region: eu-west-1}\n"
            f"landing: {{table: {self.table.identifier}, state: {folder / 'state'}, catalog: {catalog}}}\n"
        )
        self.of = LakeOfApplication(Adapters(read_settings(str(config), {}).settings)).of

    def land(self, after: int | None, numbers: Iterable[int], *, shard: int = 0) -> None:
        numbers = list(numbers)
        key = a_key(shard)
        file = a_file(self.table.staging_spec(), {key: numbers}, arrival=NOON, staged_at=self.lake.clock.at)
        landed = a_range(key, after, numbers[-1], rows=len(numbers), files=[file])
        landed = replace(landed, first_arrival=NOON, last_arrival=NOON + timedelta(minutes=1))
        assert not self.table.commit(Proposal((landed,), (file,))).landing.refused


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_a_shards_page_has_its_ranges_with_files_and_runs_and_not_those_of_others(shop: Shop):
    shop.land(None, [1, 2])
    shop.land(None, [7], shard=1)
    shop.land(2, [3])
    landed = shop.of(Lease(a_key(0).shard_id))
    assert (landed.rows, landed.left_out) == (3, 0)
    assert [(found.rows, found.upto, len(found.files)) for found in landed.ranges] == [
        (1, "3", 1),
        (2, "2", 1),
    ]
    assert landed.position == "3"
    assert all(found.run for found in landed.ranges)


def test_old_ranges_are_counted_and_not_listed(shop: Shop):
    for number in range(1, MOST_RANGES + 4):
        shop.land(number - 1 or None, [number])
    landed = shop.of(Lease(a_key(0).shard_id))
    assert (len(landed.ranges), landed.left_out, landed.rows) == (MOST_RANGES, 3, MOST_RANGES + 3)


def test_a_shard_without_a_record_has_an_empty_page(shop: Shop):
    landed = shop.of(Lease(a_key(5).shard_id))
    assert (landed.ranges, landed.position, landed.rows) == ((), None, 0)


def test_a_lake_table_that_cannot_be_read_is_a_sentence_on_the_page():
    from headrace.pipeline.errors import Unreachable

    def gone(_lease: Lease) -> LandedOfShard:
        raise Unreachable("the catalog doesn't answer")

    console = a_scene(4).console()
    details = details_of(console.watch.report(), "shardId-000000000004", gone)
    assert details is not None
    assert details["landed_trouble"] == "the catalog doesn't answer"
    assert details["facts"]


@pytest.mark.parametrize(
    ("kind", "account", "changes"),
    [
        (Kind.PARSED, Accounting(10, 7, 2, {"filter": 1}), (7, 2)),
        (Kind.REDRIVEN, Accounting(2, 1, 1), (1, -1)),
        (Kind.REPLAY, Accounting(10, 8, 2, window="w", removed=(7, 2)), (1, 0)),
        (Kind.GENERATION, Accounting(10, 8, 2), (0, 0)),
        (Kind.LANDED, Accounting(10, 8, 2), (0, 0)),
    ],
    ids=str,
)
def test_rows_of_a_typed_table_and_its_quarantine_table_are_counted_by_the_accounts(kind, account, changes):
    recorded = replace(a_range(a_key(0), None, 1), kind=kind, account=account.text())
    assert row_changes(recorded) == changes
