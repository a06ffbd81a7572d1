"""Rows of several tables compared through a real Spark: its shuffle brings the rows of a bucket together."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.proof.compare_spark import ShufflingComparer, on_spark
from headrace.pipeline.proof.ports import TargetPorts
from tests.proof.target_proofs import changed, moved_to, prove, side, typed_ports, wrong
from tests.typed.parsings import BAD, A, B, Bed, good

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_spark_finds_the_row_that_took_the_place_of_another(tmp_path: Path, spark: "SparkSession"):
    bed = Bed(tmp_path)
    bed.land(A, {number: good(number) for number in range(1, 30, 3)} | {40: BAD})
    bed.land(B, {number: good(number) for number in range(1, 30, 3)})
    bed.parsing().wave()

    def ports() -> TargetPorts:
        specs = [partial(side, each) for each in (bed.lake.handle(), bed.typed(), bed.quarantine())]
        return replace(typed_ports(bed), compare=ShufflingComparer(on_spark(lambda _: spark), specs))

    assert wrong(prove(bed, ports)[1]) == []
    with changed(bed.typed(), 13, moved_to(12)):
        named = wrong(prove(bed, ports, anew=True)[1])
    assert f"{A} 12: in lake.orders and not in the lake table" in named
