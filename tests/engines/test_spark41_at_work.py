"""A real Spark works on a table into which Headrace lands, and which Headrace's upkeep keeps, at the same time.

Whatever Spark does, each record is in the table once, unless Spark itself deleted it. Landing and upkeep go on, or say why not and go on
after the cure that they name.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.landing.repair_plan import Repair, plan_repair
from headrace.pipeline.core.order.parents import a_family
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.catalog import embedded_catalog
from headrace.pipeline.lake.table.lake_table import IcebergTable
from tests.engines.landing import Landing, land_once, numbers_of
from tests.engines.parts import or_skip
from tests.engines.spark41 import Spark41, SparkRefused, spark41
from tests.eventually import eventually
from tests.lake.samples import ORIGIN, STREAM, a_key, numbers_in

pytestmark = pytest.mark.slow

A, B, C = (a_key(number).shard_id for number in range(3))
OTHERS_FIRST = ("CommitFailedException", "ValidationException")
"""Spark's errors where a landing came first. Spark's user runs the statement again."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def spark(home: Path) -> Iterator[Spark41]:
    with or_skip("Spark 4.1 with Iceberg's runtime"), spark41(home) as started:
        yield started


@dataclass
class Busy:
    """A table of its own for each test, into which three waves have landed."""

    home: Path
    spark: Spark41
    name: str = field(default_factory=lambda: f"lake.t{uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        table = self.handle()
        table.ensure(create=True)
        table.commit(ORIGIN)
        for _ in range(3):
            assert land_once(table) == 3

    def handle(self) -> IcebergTable:
        return IcebergTable(
            embedded_catalog(self.home), self.name, state=str(self.home / "state"), clock=SystemClock()
        )

    @contextmanager
    def landing(self) -> Iterator[Landing]:
        with Landing(self.handle).going_on() as landing:
            landing.goes_on()
            eventually(lambda: landing.broken or landing.compacted, "upkeep has compacted files", within=60)
            yield landing

    def sql(self, *statements: str) -> None:
        """Run statements, in which `T` stands for the table; again where a landing came first."""
        for each in statements:
            self._run(each.replace(" T ", f" {self.name} "))

    def call(self, *procedures: str) -> None:
        for each in procedures:
            self._run(f"CALL headrace.system.{each.replace('(T', f'(table => {self.name!r}')}")

    def alter(self, *changes: str) -> None:
        self.sql(*(f"ALTER TABLE T {each}" for each in changes))

    def check(self, *, without: Mapping[str, set[int]] | None = None) -> None:
        """Spark and Headrace find each record once. `without`: the records that Spark deleted."""
        gone = without or {}
        expected = {
            shard: [number for number in range(1, last + 1) if number not in gone.get(shard, ())]
            for shard, last in numbers_of(self.handle()).items()
        }
        rows = self.spark.sql(f"SELECT shard_id, sequence_number FROM {self.name} WHERE stream = 'orders'")
        by_spark: dict[str, list[int]] = {}
        for shard, number in rows:
            by_spark.setdefault(shard, []).append(int(number))
        assert {shard: sorted(found) for shard, found in by_spark.items() if shard in expected} == expected
        ours = numbers_in(read.rows(self.handle()))
        assert {shard: found for shard, found in ours.items() if shard in expected} == expected

    def repair(self) -> None:
        """What `headrace repair` does."""
        table = self.handle()
        plan = plan_repair(
            table.evidence([STREAM]),
            {STREAM: a_family(STREAM, ())},
            origins=dict(ORIGIN.origins),
            why="a test",
            run="shell",
        )
        assert isinstance(plan, Repair), plan
        table.rebuild(plan.landing, plan.on)

    def _run(self, statement: str) -> None:
        def once() -> bool:
            try:
                self.spark.sql(statement)
            except SparkRefused as error:
                if not any(kind in str(error) for kind in OTHERS_FIRST):
                    raise
                return False
            return True

        eventually(once, f"Spark runs {statement!r}", within=120)


@pytest.fixture
def busy(home: Path, spark: Spark41) -> Busy:
    return Busy(home, spark)


# --- what goes on ---------------------------------------------------------------------------------------------

ALL = "options => map('rewrite-all', 'true')"
COMPACTIONS = {
    "binpack": f"rewrite_data_files(T, {ALL})",
    "sort": f"rewrite_data_files(T, strategy => 'sort', {ALL})",
    "other order": f"rewrite_data_files(T, strategy => 'sort', sort_order => 'data DESC', {ALL})",
    "z-order": f"rewrite_data_files(T, strategy => 'sort', sort_order => 'zorder(partition_key, arrival_ts)', {ALL})",
}
EXPIRE_TO_ONE = "expire_snapshots(T, retain_last => 1, older_than => TIMESTAMP '2100-01-01 00:00:00')"


@pytest.mark.parametrize("how", COMPACTIONS)
def test_compaction_manifests_and_expiry_to_one_snapshot(busy: Busy, how: str):
    with busy.landing() as landing:
        for _ in range(2):
            busy.call(COMPACTIONS[how])
            landing.goes_on()
            busy.call("rewrite_manifests(T)", EXPIRE_TO_ONE)
            landing.goes_on()
    busy.check()


def test_expiry_to_one_above_a_compaction_without_the_tag(busy: Busy):
    """No snapshot in the metadata has positions then: they are found in the older metadata files."""
    busy.call(COMPACTIONS["sort"], "rewrite_manifests(T)")
    busy.alter("DROP TAG headrace")
    busy.call(EXPIRE_TO_ONE)
    with busy.landing() as landing:
        landing.goes_on()
    busy.check()


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_inserts_deletes_and_updates(busy: Busy, mode: str):
    busy.alter(
        f"SET TBLPROPERTIES ('write.delete.mode' = '{mode}', 'write.update.mode' = '{mode}', "
        "'write.delete.isolation-level' = 'snapshot', 'write.update.isolation-level' = 'snapshot')"
    )
    row = "(stream, shard_id, sequence_number, arrival_ts) VALUES ('theirs', 'spark-1', '1', current_timestamp())"
    with busy.landing() as landing:
        busy.sql(
            f"INSERT INTO T {row}",
            f"DELETE FROM T WHERE shard_id = '{A}' AND sequence_number IN ('2', '3')",
        )
        landing.goes_on()
        busy.sql(f"UPDATE T SET decode_error = 'seen' WHERE shard_id = '{B}' AND sequence_number = '7'")
        landing.goes_on()
        busy.call("rewrite_position_delete_files(T)", COMPACTIONS["binpack"], EXPIRE_TO_ONE)
        landing.goes_on()
    busy.check(without={A: {2, 3}})
    assert busy.spark.sql(f"SELECT sequence_number FROM {busy.name} WHERE decode_error = 'seen'") == [["7"]]
    assert busy.spark.sql(f"SELECT count(*) FROM {busy.name} WHERE stream = 'theirs'") == [[1]]


def test_added_renamed_moved_and_dropped_columns_of_spark(busy: Busy):
    with busy.landing() as landing:
        busy.alter("ADD COLUMN loaded_by string AFTER shard_id")
        busy.sql(f"UPDATE T SET loaded_by = 'spark' WHERE shard_id = '{C}' AND sequence_number = '1'")
        landing.goes_on()
        busy.alter(
            "RENAME COLUMN loaded_by TO loader", "ALTER COLUMN loader FIRST", "ADD COLUMN n struct<a: int>"
        )
        busy.call(COMPACTIONS["sort"])
        landing.goes_on()
        assert busy.spark.sql(f"SELECT count(*) FROM {busy.name} WHERE loader = 'spark'") == [[1]]
        busy.alter("DROP COLUMN loader", "ALTER COLUMN n.a TYPE bigint")
        landing.goes_on()
    busy.check()


def test_other_formats_folders_and_codecs_of_spark(busy: Busy, tmp_path: Path):
    with busy.landing() as landing:
        for properties in (
            "'write.format.default' = 'orc', 'write.metadata.compression-codec' = 'gzip'",
            "'write.format.default' = 'parquet', 'write.avro.compression-codec' = 'snappy'",
            f"'write.object-storage.enabled' = 'true', 'write.data.path' = '{tmp_path}/elsewhere'",
            "'write.metadata.metrics.default' = 'none', 'commit.manifest-merge.enabled' = 'false'",
        ):
            busy.alter(f"SET TBLPROPERTIES ({properties})")
            busy.call(COMPACTIONS["binpack"])
            landing.goes_on()
    busy.check()


def test_orders_statistics_tags_and_branches_of_spark(busy: Busy):
    with busy.landing() as landing:
        busy.alter(
            "WRITE UNORDERED", "WRITE LOCALLY ORDERED BY arrival_ts", "CREATE TAG kept", "CREATE BRANCH audit"
        )
        busy.call(COMPACTIONS["sort"], "compute_table_stats(T)", "compute_partition_stats(T)")
        landing.goes_on()
        busy.sql(f"DELETE FROM {busy.name}.branch_audit WHERE shard_id = '{A}'")
        landing.goes_on()
        busy.alter("DROP TAG kept", "DROP BRANCH audit", "DROP TAG headrace")
        landing.goes_on()
    busy.check()


def test_a_rollback_makes_landing_read_again_from_where_the_table_stands(busy: Busy):
    """A run with lease rows stops first, and a person decides: docs/reference/protocol.md, section 2. This is the table's part."""
    with busy.landing() as landing:
        before = [link.snapshot for link in busy.handle().history()][2]
        busy.call(f"rollback_to_snapshot(T, snapshot_id => {before}L)")
        landing.goes_on()
    busy.check()


# --- what stops, says so, and goes on after the cure ----------------------------------------------------------

STOPS = {
    "further partition": (
        "ALTER TABLE T ADD PARTITION FIELD bucket(4, shard_id)",
        "must be partitioned by [day(arrival_ts)]",
        "ALTER TABLE T DROP PARTITION FIELD bucket(4, shard_id)",
    ),
    "other partition": (
        "ALTER TABLE T REPLACE PARTITION FIELD arrival_day WITH hours(arrival_ts)",
        "must be partitioned by [day(arrival_ts)]",
        "ALTER TABLE T REPLACE PARTITION FIELD hours(arrival_ts) WITH days(arrival_ts)",
    ),
    "renamed column": (
        "ALTER TABLE T RENAME COLUMN data TO payload",
        "has no column data",
        "ALTER TABLE T RENAME COLUMN payload TO data",
    ),
    "dropped column": (
        "ALTER TABLE T DROP COLUMN decode_error",
        "has no column decode_error",
        "ALTER TABLE T ADD COLUMN decode_error string",
    ),
    "property": (
        "ALTER TABLE T SET TBLPROPERTIES ('write.metadata.metrics.default' = 'some')",
        "correct the property",
        "ALTER TABLE T UNSET TBLPROPERTIES ('write.metadata.metrics.default')",
    ),
    "renamed table": (
        "ALTER TABLE T RENAME TO lake.away",
        "isn't in the catalog",
        "ALTER TABLE lake.away RENAME TO T ",
    ),
}


@pytest.mark.parametrize("what", STOPS)
def test_landing_stops_says_so_and_goes_on_after_the_cure(busy: Busy, what: str):
    spoil, words, cure = STOPS[what]
    with busy.landing() as landing:
        busy.sql(spoil)
        landing.says(words)
        landed = landing.landed
        landing.says(words)
        assert landing.landed == landed
        busy.sql(cure)
        landing.goes_on()
    busy.check()


@pytest.mark.parametrize("what", ["cherry-pick", "replaced", "copied from version 3"])
def test_landing_stops_until_a_repair(busy: Busy, what: str):
    acts = {"cherry-pick": cherry_pick, "replaced": replace, "copied from version 3": copy_from_version_3}
    with busy.landing() as landing:
        acts[what](busy, landing)
        landing.says("headrace repair")
        landed = landing.landed
        busy.repair()
        eventually(lambda: landing.broken or landing.landed > landed, "waves land after the repair")
    busy.check()


def cherry_pick(busy: Busy, landing: Landing) -> None:
    """Write, audit, publish: Spark puts a staged insert on top of the waves that have landed since."""
    busy.alter("SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    busy.spark.sql("SET spark.wap.id = w1")
    row = "(stream, shard_id, sequence_number, arrival_ts) VALUES ('orders', 'spark-1', '1', current_timestamp())"
    busy.sql(f"INSERT INTO T {row}")
    busy.spark.sql("RESET spark.wap.id")
    landing.goes_on()
    busy.call("publish_changes(T, wap_id => 'w1')")


def replace(busy: Busy, _: Landing) -> None:
    busy.sql(
        "CREATE OR REPLACE TABLE T USING iceberg PARTITIONED BY (days(arrival_ts)) TBLPROPERTIES ('format-version' = '2') "
        f"AS SELECT * FROM {busy.name}"
    )


def copy_from_version_3(busy: Busy, landing: Landing) -> None:
    """As docs/use/when-wrong.md says."""
    busy.alter("SET TBLPROPERTIES ('format-version' = '3')")
    landing.says("can only write version 2")
    busy.sql(
        "CREATE TABLE lake.records_v2 USING iceberg PARTITIONED BY (days(arrival_ts)) TBLPROPERTIES ('format-version' = '2') "
        f"AS SELECT * FROM {busy.name}"
    )
    busy.alter("RENAME TO lake.records_v3")
    busy.sql("ALTER TABLE lake.records_v2 RENAME TO T ")
