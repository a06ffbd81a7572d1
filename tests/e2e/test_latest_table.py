"""A table of the latest rows of AWS's DynamoDB Local: 10,000 items, random changes, deletes, items whose time to live is over, and
roll-overs, real Spark tasks, processes that die by SIGKILL in mid wave, and a rollback. The table is then what a scan finds."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.cli import main
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.lake_table import IcebergTable
from tests.e2e.test_table_stream import YAML, Shop
from tests.eventually import eventually

pytestmark = pytest.mark.slow

LATEST = (
    YAML
    + """
parse:
  - name: now
    table: lake.orders_now
    format: dynamodb
    into: latest
    schema: "eventName STRING, NewImage STRUCT<id: STRING, value: DECIMAL(38, 0)>"
"""
)
ITEMS = 10_000


class LatestShop(Shop):
    """A shop whose items are in a table of the latest rows, too."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        super().__init__(endpoint, folder, yaml=LATEST, items=ITEMS)

    def tables(self) -> tuple[IcebergTable, IcebergTable]:
        adapters, target = Adapters(self.settings), self.settings.parse[0]
        return adapters.typed(target, "test"), adapters.quarantine(target, "test")

    def parse(self) -> None:
        assert main(["parse", "now"]) == 0

    def kill_a_parse(self, after: int) -> None:
        """A process that parses dies by SIGKILL once it has staged so many files."""
        before = self._files()
        command = [sys.executable, "-m", "headrace.pipeline.cli", "parse", "now"]
        with subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as run:
            eventually(lambda: len(self._files() - before) >= after, "the wave has staged rows", every=0.01)
            run.send_signal(signal.SIGKILL)
        assert run.returncode == -signal.SIGKILL, "the wave was over before it was killed"

    def items(self) -> dict[str, int]:
        rows = read.rows(self.tables()[0], ("record_key", "NewImage")).to_pylist()
        assert len({row["record_key"] for row in rows}) == len(rows), "an item is there twice"
        return {row["NewImage"]["id"]: int(row["NewImage"]["value"]) for row in rows}

    def items_by_scan(self) -> dict[str, int]:
        return {key: int(item["value"]["N"]) for key, item in self.scanned().items()}


@pytest.fixture
def shop(dynamodb_local: str, tmp_path: Path) -> LatestShop:
    return LatestShop(dynamodb_local, tmp_path)


def test_the_latest_rows_are_what_a_scan_of_the_table_finds(
    shop: LatestShop, capfd: pytest.CaptureFixture[str]
):
    shop.fill()
    shop.change(4_000)
    shop.land()
    shop.parse()
    assert len(shop.items()) > 8_000
    assert shop.items() == shop.items_by_scan()
    snapshots = [table.load().snapshot for table in shop.tables()]

    # Killed once rows are staged, and once copies of files that lose rows are there.
    for after in (1, 2):
        shop.change(1_500)
        shop.roll_over()
        shop.change(1_500)
        shop.land()
        before = shop.items()
        shop.kill_a_parse(after)
        assert shop.items() in (before, shop.items_by_scan())
        shop.parse()
        assert shop.items() == shop.items_by_scan()

    for table, snapshot in zip(shop.tables(), snapshots, strict=True):
        table.open().manage_snapshots().set_current_snapshot(snapshot).commit()
    assert shop.items() != shop.items_by_scan()
    shop.parse()
    assert len(shop.items()) > 1_000
    assert shop.items() == shop.items_by_scan()

    for _ in range(2):
        capfd.readouterr()
        assert main(["prove"]) == 0, capfd.readouterr().out
        told = capfd.readouterr().out
        assert "the row of each key is that of its latest record, and no key lacks its row" in told
        # The next proof finds files that have lost rows since.
        shop.change(500)
        shop.land()
        shop.parse()
    assert shop.items() == shop.items_by_scan()
    assert shop.deletes_by_ttl() > 500
