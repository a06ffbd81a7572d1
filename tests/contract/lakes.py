"""The lake tables that the contract suites run on: in memory, and Iceberg's with each catalog that is tested."""

from pathlib import Path
from uuid import uuid4

import pytest

from headrace.pipeline.core.ledger.ledger import Range
from headrace.pipeline.core.shards.stream import ShardKey
from tests.engines.servers import Postgres, Rest
from tests.lake.samples import a_landing
from tests.lake.tables import IcebergLake, Lake, MemoryLake

MEMORY = "memory"
LAKES = [
    MEMORY,
    "iceberg",  # with the embedded catalog on SQLite
    pytest.param("postgres", marks=pytest.mark.slow),
    pytest.param("rest", marks=pytest.mark.slow),
]


def a_lake(request: pytest.FixtureRequest, folder: Path) -> Lake:
    return MemoryLake(folder) if request.param == MEMORY else an_iceberg(request, folder)


def an_iceberg(request: pytest.FixtureRequest, folder: Path) -> IcebergLake:
    # Tests share one server, so each table has a namespace of its own.
    name = f"n{uuid4().hex[:12]}.records"
    if request.param == "postgres":
        postgres: Postgres = request.getfixturevalue("postgres")
        return IcebergLake(folder, postgres.catalog(folder), name=name)
    if request.param == "rest":
        rest: Rest = request.getfixturevalue("rest")
        return IcebergLake(folder, rest.catalog(), name=name)
    return IcebergLake(folder)


def land(lake: Lake, key: ShardKey, after: int | None, numbers: list[int]) -> bool:
    """Whether the range landed."""
    proposal = a_landing(lake.table.staging_spec(), key, after=after, numbers=numbers)
    return not lake.table.commit(proposal).landing.refused


def chain_of(lake: Lake, key: ShardKey) -> list[Range]:
    return [r for page in lake.pages() for r in page.ranges if r.key == key and r.moves]
