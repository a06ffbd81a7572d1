"""Landing on an S3 that throttles, answers late, and loses answers to writes. The stand-in plays it over HTTP."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipeline.clock import SystemClock
from headrace.pipeline.errors import Transient
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.catalog import embedded_catalog
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from tests.engines.landing import land_once, numbers_of
from tests.lake.samples import ORIGIN, numbers_in

pytestmark = pytest.mark.slow

_WAVES = 12


@pytest.fixture
def s3() -> Iterator[LocalAws]:
    with local_aws() as served:
        for bucket in ("lake", "state"):
            served.client("s3").create_bucket(Bucket=bucket)
        yield served


def test_with_throttling_lost_answers_and_latency_no_record_is_lost_or_doubled(tmp_path: Path, s3: LocalAws):
    def handle() -> IcebergTable:
        place = {"warehouse": "s3://lake/warehouse", "s3.endpoint": s3.endpoint, "s3.region": s3.region}
        state = "s3://state/headrace"
        return IcebergTable(
            embedded_catalog(tmp_path) | place, "lake.records", state=state, clock=SystemClock()
        )

    table = handle()
    table.ensure(create=True)
    table.commit(ORIGIN)
    s3.inject("throttle", service="s3", probability=0.3, code="SlowDown", status=503)
    s3.inject("lost", service="s3", operation="PUT", probability=0.3)
    s3.inject("delay", service="s3", seconds=0.3)
    ends: Counter[str] = Counter()
    while ends["landed"] < _WAVES:
        assert ends.total() < 20 * _WAVES, f"too few waves land: {ends}"
        try:
            ends["landed"] += land_once(table) > 0
        except Transient as error:  # any other error would ask a person for a cure
            ends[type(error).__name__] += 1
    taken = {fault["kind"]: fault["taken"] for fault in s3.faults()}
    assert min(taken.values()) > 3, f"the faults struck: {taken}"
    s3.clear_faults()
    expected = {shard: list(range(1, last + 1)) for shard, last in numbers_of(handle()).items()}
    assert len(expected) == 3
    assert numbers_in(read.rows(handle())) == expected
    assert IcebergLineage(handle()).record().ranges == sum(
        len(entry.page.ranges) for entry in read.ledger(handle())
    )
