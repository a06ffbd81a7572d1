"""Filters of typed tables through a real Spark: what they choose, leave out, and can't judge."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.typed.spark.filter_frame import FAILED, NOT_JSON
from tests.typed.parsings import A, B, Bed
from tests.typed.spark_parsings import parsing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


def test_a_filter_chooses_records_and_the_others_are_counted(spark: "SparkSession", tmp_path: Path):
    bed = Bed(tmp_path)
    bed.land(A, {n: json.dumps({"id": n, "kind": "ab"[n % 2]}).encode() for n in range(10, 20)})
    wave = parsing(
        bed, spark, schema="id BIGINT", filter="get_json_object(CAST(data AS STRING), '$.kind') = 'a'"
    ).wave()
    assert (wave.landed, wave.dropped) == (5, {"filter": 5})
    assert [number for _, number, _ in bed.parsed()] == [10, 12, 14, 16, 18]


@pytest.mark.parametrize(
    ("condition", "left_out", "failing"),
    [
        # Null for a payload without the field: not wanted. Null for one that isn't JSON: nobody can tell.
        ("get_json_object(CAST(data AS STRING), '$.kind') = 'a'", 3, 0),
        (
            "CAST(get_json_object(CAST(data AS STRING), '$.kind') AS INT) + CAST(get_json_object(CAST(data AS STRING), '$.kind') AS INT) > 0",
            2,
            2,
        ),
        ("sequence = 1", 0, 0),
        ("partition_key = 'another'", 6, 0),
        ("1 / (length(data) - 13) > -9", 0, 3),
    ],
)
def test_payloads_that_a_filter_cant_judge_go_to_quarantine(
    spark: "SparkSession", tmp_path: Path, condition: str, left_out: int, failing: int
):
    bed = Bed(tmp_path)
    payloads = [b'{"kind": "a"}', b'{"kind": "b"}', b'{"other": 1}', b"no json", b"\xff", b'[{"kind": 1}]']
    bed.land(A, dict(enumerate(payloads, start=10)))
    bed.land(B, {5: b"?"}, malformed=[5])
    one = parsing(bed, spark, schema="kind STRING", filter=condition)
    if "sequence" in condition:
        with pytest.raises(BadSetting, match="can't read the filter"):
            one.wave()
        return
    wave = one.wave()
    reasons = [row["reason"] for row in read.rows(bed.quarantine()).to_pylist()]
    assert wave.dropped.get("filter", 0) == left_out
    assert reasons.count(FAILED) == failing
    assert reasons.count("the aggregate is cut off") == 1
    assert wave.landed + wave.aside + left_out == 7
    if "json" in condition:
        assert reasons.count(NOT_JSON) == 2
