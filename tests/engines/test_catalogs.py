"""What the contract suites don't ask of a catalog: its first start, its absence, a table that was renamed or dropped, and upkeep."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.pipeline.errors import CommitUnknown, Unknown, Unreachable
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from tests.contract.lakes import an_iceberg
from tests.engines.parts import or_skip
from tests.engines.servers import Postgres, Rest, postgres, private_postgres, rest
from tests.lake.samples import ORIGIN, StandingClock, a_key, a_landing, at
from tests.lake.tables import IcebergLake
from tests.lakehouse import land
from tests.upkeep.compactions import InProcess
from tests.upkeep.upkeeps import upkeep_of

__all__ = ["postgres", "rest"]

pytestmark = pytest.mark.slow

A = a_key(0)


@pytest.fixture(params=["iceberg", "postgres", "rest"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> IcebergLake:
    """A table with five landings of shard A."""
    made = an_iceberg(request, tmp_path)
    made.iceberg.commit(ORIGIN)
    for number in range(1, 6):
        land(made.iceberg, number)
    return made


def test_many_first_starts_at_once_make_one_table(request: pytest.FixtureRequest, tmp_path: Path):
    """The database doesn't have the catalog's own tables yet."""
    server: Postgres = request.getfixturevalue("postgres")
    for _ in range(3):
        properties = server.catalog(tmp_path, server.new_database())

        def start(number: int, properties: dict[str, str] = properties) -> str:
            lake = IcebergLake(tmp_path, properties)
            return str(lake.iceberg.open().metadata.table_uuid)

        with ThreadPoolExecutor(6) as starts:
            assert len(set(starts.map(start, range(6)))) == 1


def test_many_first_starts_at_once_make_one_table_by_rest(rest: Rest, tmp_path: Path):
    name = f"n{uuid4().hex[:12]}.records"

    def start(_: int) -> str | None:
        try:
            return str(IcebergLake(tmp_path, rest.catalog(), name=name).iceberg.open().metadata.table_uuid)
        except Unreachable:
            return None  # two of the server's requests made the namespace at the same moment; the next tick tries again

    with ThreadPoolExecutor(6) as starts:
        assert len({*starts.map(start, range(6))} - {None}) == 1
    assert start(0) is not None


def test_a_renamed_table_takes_nothing_until_its_name_is_back(lake: IcebergLake):
    staged = a_landing(lake.iceberg.staging_spec(), A, after=5, numbers=[6])
    away = f"{lake.name}_away"
    lake.iceberg.catalog.rename_table(lake.name, away)
    with pytest.raises(Unknown, match=r"isn't in the catalog.*rename it back"):
        lake.handle().ensure(create=False)
    with pytest.raises(Unknown, match="isn't in the catalog"):
        lake.handle().commit(staged)
    assert not lake.iceberg.exists()
    lake.iceberg.catalog.rename_table(away, lake.name)
    assert not lake.handle().commit(staged).landing.refused
    assert lake.numbers() == {A.shard_id: [1, 2, 3, 4, 5, 6]}


def test_a_commit_that_was_prepared_for_a_table_that_was_dropped_and_made_again_lands_nothing(
    lake: IcebergLake,
):
    """The new table has no snapshot, as the old one had at its first commit: only its UUID tells the two apart."""

    def make_again() -> None:
        lake.handle().catalog.drop_table(lake.name)
        lake.handle().ensure(create=True)

    lake.before_next_swap(make_again)
    staged = a_landing(lake.iceberg.staging_spec(), A, after=5, numbers=[6])
    assert lake.iceberg.commit(staged).landing.refused
    assert lake.numbers() == {}
    assert lake.handle().load().origin_allowed


def test_expiry_records_lineage_and_the_upkeep_job_compacts_and_deletes_only_what_nothing_names(
    lake: IcebergLake,
):
    settings = UpkeepSettings(keep_snapshots=2, keep_for=timedelta(minutes=1))
    orphan = a_landing(lake.iceberg.staging_spec(), A, after=5, numbers=[6]).files[0]
    for _ in range(40):
        lake.iceberg.carry()
    newest = max(each.at for each in lake.iceberg.retained().snapshots.values())
    clock = StandingClock(newest + timedelta(hours=2))
    upkeep = upkeep_of(lake.iceberg, settings, clock, rewriter=InProcess(lake.iceberg))
    deleted, compacted = list[str](), 0
    for _ in range(5):
        report = upkeep.run()
        assert report.troubles == ()
        deleted += [Path(each.path).name for each in report.deleted]
        compacted += len(report.compacted.before)
        clock.at += timedelta(days=1)
    assert len(lake.handle().retained().snapshots) <= 7
    assert Path(orphan.path).name in deleted
    assert compacted == 5
    assert IcebergLineage(lake.handle()).recorded().ranges == 5
    land(lake.iceberg, 6)
    assert lake.numbers() == {A.shard_id: [1, 2, 3, 4, 5, 6]}


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[tuple[Postgres, IcebergLake]]:
    """A Postgres that no other test needs, with a table of one landing."""
    with or_skip("Postgres"), private_postgres() as server:
        lake = IcebergLake(tmp_path, server.catalog(tmp_path))
        lake.iceberg.commit(ORIGIN)
        land(lake.iceberg, 1)
        yield server, lake


def test_while_postgres_is_away_nothing_lands_and_afterwards_landing_goes_on(
    alone: tuple[Postgres, IcebergLake],
):
    server, lake = alone
    staged = a_landing(lake.iceberg.staging_spec(), A, after=1, numbers=[2])
    server.stop()
    with pytest.raises(Unreachable, match="can't be reached now"):
        lake.iceberg.load()
    with pytest.raises(Unreachable, match="can't be reached now"):
        lake.iceberg.commit(staged)
    with pytest.raises(Unreachable, match="can't be reached now"):
        lake.handle().ensure(create=True)
    server.start()
    assert not lake.iceberg.commit(staged).landing.refused
    assert lake.numbers() == {A.shard_id: [1, 2]}


def test_postgres_that_starts_again_in_the_middle_of_a_commit_costs_nothing(
    alone: tuple[Postgres, IcebergLake],
):
    server, lake = alone

    def again() -> None:
        server.stop()
        server.start()

    lake.before_next_swap(again)
    land(lake.iceberg, 2)
    lake.after_next_swap(again)
    land(lake.iceberg, 3)
    assert lake.numbers() == {A.shard_id: [1, 2, 3]}


def test_postgres_that_goes_away_in_the_middle_of_a_commit_leaves_it_unknown_and_the_next_wave_goes_on(
    alone: tuple[Postgres, IcebergLake],
):
    server, lake = alone
    staged = a_landing(lake.iceberg.staging_spec(), A, after=1, numbers=[2])
    lake.after_next_swap(server.stop)
    committed = lake.iceberg.commit(staged)
    assert not committed.landing.refused
    server.start()
    staged = a_landing(lake.iceberg.staging_spec(), A, after=2, numbers=[3])
    lake.before_next_swap(server.stop)
    with pytest.raises(CommitUnknown, match="landed whole or not at all"):
        lake.iceberg.commit(staged)
    server.start()
    assert lake.handle().load().positions.of(A) == at(2)
    land(lake.iceberg, 3)
    assert lake.numbers() == {A.shard_id: [1, 2, 3]}
