"""A target whose payloads are parsed by a real Spark, and functions of a user for it."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.choices import ParseFormat
from headrace.pipeline.typed.context import BatchContext
from headrace.pipeline.typed.quarantine.spark import SparkRedriver
from headrace.pipeline.typed.spark.frames import Frames
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.typed.wave import Parsing
from tests.typed.parsings import Bed, with_ports

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "id BIGINT, name STRING, at TIMESTAMP, amount DECIMAL(10,2), items ARRAY<STRUCT<sku: STRING, n: INT>>, "
    "tags MAP<STRING, STRING>, data STRING, visits ARRAY<STRUCT<day: DATE>>, marks MAP<STRING, TIMESTAMP_NTZ>"
)


EVENT: dict[str, Any] = {
    "id": 1,
    "n": -2,
    "name": "Zoë",
    "raw": "AAE=",
    "day": "2026-01-31",
    "at": "2026-01-31T12:00:00.123456Z",
    "local": "2026-01-31T12:00:00",
    "amount": 12.5,
    "is_new": True,
}
"""An event with a value of each type that a key may have."""
_OTHERS: dict[str, Any] = {
    "id": 2,
    "n": 0,
    "name": "",
    "raw": "AQ==",
    "day": "2026-02-01",
    "at": "2026-01-31T12:00:00.123457Z",
    "local": "2026-01-31T12:00:01",
    "amount": 12.51,
    "is_new": False,
}


def near_events() -> list[dict[str, Any]]:
    """Events that differ from `EVENT` in one column each."""
    return [{**EVENT, column: value} for column, value in _OTHERS.items()]


def parsing(bed: Bed, spark: "SparkSession", **settings: Any) -> Parsing:
    bed.settings = replace(ParseSettings(name="orders", table="lake.orders", schema=SCHEMA), **settings)
    before = bed.parsing(limits=WaveLimits(1_000_000, 2**30))
    frames = Frames(bed.settings, BatchContext("orders", bed.settings.version, before.run))
    parser = SparkRedriver(
        session=lambda _: spark,
        frames=frames,
        source=bed.lake.handle(),
        table=bed.typed(),
        quarantine=bed.quarantine(),
        tasks=2,
    )
    return with_ports(
        before,
        parser=parser,
        redriver=replace(parser, source=parser.quarantine),
        dropped_as=frames.dropped_as,
        check_settings=frames.check,
        code=frames.code.text,
    )


def upper(records: "DataFrame", context: BatchContext) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    text = F.col("data").cast("string")
    return records.where(text != "skip").select(
        "record",
        F.upper(text).alias("name"),
        F.lit(context.version).alias("by"),
        F.when(text == "bad", F.lit("it is bad")).alias("quarantine_reason"),
        F.col("data").alias("quarantine_data"),
    )


def tolerant(records: "DataFrame", context: BatchContext) -> "DataFrame":
    """`upper` after its code was corrected."""
    return upper(records, context).drop("quarantine_reason", "quarantine_data")


def twice(records: "DataFrame", context: BatchContext) -> "DataFrame":
    made = upper(records, context)
    return made.unionAll(made)


def fails(records: "DataFrame", _context: BatchContext) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    return records.select("record", F.raise_error(F.lit("no such currency")).cast("string").alias("name"))


def far_away(records: "DataFrame", _context: BatchContext) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    return records.select("record", F.array(F.timestamp_seconds(F.lit(1795515072000))).alias("seen"))


def of_a_callable(function: str, **settings: Any) -> dict[str, Any]:
    return {"format": ParseFormat.CALLABLE, "callable": f"{__name__}:{function}", **settings}
