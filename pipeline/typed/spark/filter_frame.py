"""The filter of a target on Spark: which records the target takes, which it leaves out, and for which ones the
condition fails.

A payload on which the condition fails, or that isn't JSON although the condition reads JSON, goes to the
quarantine table: the settings don't say that such records are unwanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.choices import ParseFormat
from headrace.pipeline.typed.json.text import NO_OBJECT, NO_TEXT
from headrace.pipeline.typed.tasks.write import IS_LEFT_OUT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FAILED = "the filter fails on the payload"
NOT_JSON = "the filter looks for JSON, and the payload isn't JSON"
_LEAVES, _TAKES, _UNKNOWN = 0, 1, 2
_VERDICT = "headrace_verdict"
_TRIED = """datediff(
    try_add(
        DATE'2000-01-01',
        make_interval(0, 0, 0, element_at(transform(array(0), headrace_n -> coalesce(CAST((
{condition}
        ) AS INT), 2)), 1))
    ),
    DATE'2000-01-01'
)"""
"""The condition as a number: 0, 1, 2 for null, and null where it fails. Of Spark's functions only those that add times
return null for any error beneath them. Within a function of a list, Spark doesn't take out a part that the condition
has twice, to compute it outside of `try_add`."""


def reads_json(settings: ParseSettings) -> bool:
    """Whether the condition of the target's filter reads payloads as JSON."""
    condition = settings.filter or ""
    is_json = settings.format in (ParseFormat.JSON, ParseFormat.DYNAMODB)
    return bool(condition) and (is_json or "json" in condition.lower())


def judged(records: DataFrame, settings: ParseSettings) -> DataFrame:
    """The records, with a further column that tells which of them the filter leaves out. Where the condition
    fails on a record, its `decode_error` gets the reason. Records that have a reason there already aren't tested,
    because their payloads may be anything.
    """
    from pyspark.sql import functions as F  # noqa: N812

    _check(records, settings)
    # The alias hides what lies below these columns: Spark would find a name such as `id` there.
    verdicts = records.alias("records").withColumn(
        _VERDICT,
        F.when(F.col("decode_error").isNotNull(), F.lit(_TAKES)).otherwise(
            F.expr(_TRIED.format(condition=settings.filter))
        ),
    )
    is_left_out = F.coalesce(F.col(_VERDICT) == _LEAVES, F.lit(False)) | (
        F.coalesce(F.col(_VERDICT) == _UNKNOWN, F.lit(False)) & ~_is_no_json(settings)
    )
    # A condition that fails on one payload mustn't stop the wave: that payload goes to quarantine.
    why = F.when(F.col(_VERDICT).isNull(), F.lit(FAILED)).when(
        (F.col(_VERDICT) == _UNKNOWN) & _is_no_json(settings), F.lit(NOT_JSON)
    )
    marked = verdicts.select(
        "*", is_left_out.alias(IS_LEFT_OUT), F.coalesce("decode_error", why).alias("why")
    )
    return marked.select(
        "record",
        "partition_key",
        "explicit_hash_key",
        # What the filter leaves out is only counted: its payload needn't go on through Spark.
        F.when(~F.col(IS_LEFT_OUT), F.col("data")).alias("data"),
        F.col("why").alias("decode_error"),
        F.when(~F.col(IS_LEFT_OUT), F.col("landed")).alias("landed"),
        "json_error",
        IS_LEFT_OUT,
    )


def _is_no_json(settings: ParseSettings) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    if not reads_json(settings):
        return F.lit(False)
    return F.coalesce(F.col("json_error").isin(NO_TEXT, NO_OBJECT), F.lit(False))


def _check(records: DataFrame, settings: ParseSettings) -> None:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F  # noqa: N812

    try:
        # Spark Connect reads the condition only when it is asked for the columns.
        _ = records.alias("records").where(F.expr(settings.filter or "")).select("record").schema
    except AnalysisException as error:
        why = str(error).strip().partition("\n")[0].rstrip(";.")
        raise BadSetting(
            f"Spark can't read the filter of the target {settings.name}: {why}. Nothing was parsed; "
            f"correct {settings.called('filter')}. It is a condition on the columns record, partition_key, "
            "explicit_hash_key and data, and not on those of the schema"
        ) from error
