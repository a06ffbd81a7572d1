"""A lake table in this process, and the expiry of its snapshots at a time when all of them are old."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from tests.lake.samples import a_key
from tests.lake.tables import IcebergLake, patch

A = a_key(0)
FEW = UpkeepSettings(keep_snapshots=5, keep_for=timedelta(minutes=1))


def commits(lake: IcebergLake, count: int) -> None:
    for _ in range(count):
        lake.iceberg.carry()


def an_expiring(lake: IcebergLake, settings: UpkeepSettings = FEW) -> Expiring:
    """Expiry at a time when all snapshots of now are old."""
    newest = max(each.at for each in lake.iceberg.retained().snapshots.values())
    later = replace(lake.clock, at=newest + timedelta(hours=2))
    return Expiring(
        table=lake.iceberg, lineage=lambda: IcebergLineage(lake.iceberg), settings=settings, clock=later
    )


def expire(lake: IcebergLake, settings: UpkeepSettings = FEW) -> str | None:
    return an_expiring(lake, settings).step(lake.iceberg.load().shape)


def known(lake: IcebergLake) -> set[int]:
    return set(lake.handle().retained().snapshots)


def rollback(lake: IcebergLake, to: int) -> None:
    lake.iceberg.open().manage_snapshots().set_current_snapshot(to).commit()


def sent(lake: IcebergLake) -> list[tuple[Any, ...]]:
    """The commit requests from now on."""
    commit, found = lake.iceberg.catalog.commit_table, list[tuple[Any, ...]]()

    def noted(*args: Any) -> Any:
        found.append(args)
        return commit(*args)

    patch(lake.iceberg.catalog, "commit_table", noted)
    return found
