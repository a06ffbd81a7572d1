"""Tables that other tools have changed: metrics, format version and sort orders. Each landing goes on, or a sentence says why not."""

from pathlib import Path

import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.types import TimestamptzType

from pipeline.errors import WrongShape
from tests.lake.files import NOON, ORIGIN, a_key, a_landing
from tests.lake.tables import IcebergLake, rewrite_metadata

A = a_key(0)
ARRIVAL = 8
"""The field id of arrival_ts."""


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    made = IcebergLake(tmp_path)
    made.iceberg.commit(ORIGIN)
    return made


def set_properties(lake: IcebergLake, **properties: str) -> None:
    with lake.iceberg.open().transaction() as change:
        change.set_properties(properties)


# --- metrics ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["write.metadata.metrics.default", "write.metadata.metrics.column.arrival_ts"]
)
@pytest.mark.parametrize("mode", ["none", "counts", "truncate(4)"])
def test_records_land_whatever_metrics_another_tool_asks_for(lake: IcebergLake, name: str, mode: str):
    set_properties(lake, **{name: mode})
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1])
    assert not lake.iceberg.commit(proposal).landing.refused
    (file,) = (task.file for task in lake.iceberg.open().scan().plan_files())
    # Readers find the records of a time by these bounds.
    lower = from_bytes(TimestamptzType(), file.lower_bounds[ARRIVAL])
    assert lower == int(NOON.timestamp() * 1_000_000)


# --- format version -----------------------------------------------------------------------------------------


def test_a_table_of_format_version_3_is_refused_before_anything_is_staged(lake: IcebergLake):
    lake.iceberg.commit(a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1]))
    rewrite_metadata(lake, lambda metadata: metadata.update({"format-version": 3, "next-row-id": 0}))
    with pytest.raises(
        WrongShape, match=r"version 3.*can only write version 2\. Nothing was read.*headrace repair"
    ):
        lake.handle().ensure()
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=1, numbers=[2])
    with pytest.raises(WrongShape, match="format version 3"):
        lake.iceberg.commit(proposal)
    assert lake.numbers() == {A.shard_id: [1]}
