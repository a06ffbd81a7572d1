"""The part of parsing that Spark itself does: from payloads to the columns of a typed table. It never fails on a payload.

record, partition_key, explicit_hash_key, data  ──►  record, row, reason, data
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from headrace.pipeline.core.batch_context import BatchContext
from headrace.pipeline.core.json_columns import Limits
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.lake.decode import Decoder
from headrace.pipeline.lake.decode_avro import AvroDecoder, RegistryAvroDecoder, schemas_in
from headrace.pipeline.lake.decode_protobuf import ProtobufDecoder
from headrace.pipeline.lake.inflate import Inflation
from headrace.pipeline.lake.json_misfit import misfit
from headrace.pipeline.lake.json_text import NO_OBJECT
from headrace.pipeline.lake.parse_code import function_of
from headrace.pipeline.lake.parsed_table import PROVENANCE
from headrace.pipeline.lake.registry_header import of_confluent, of_glue
from headrace.pipeline.lake.schema import DAY
from headrace.pipeline.lake.spark_types import iceberg_type
from headrace.pipeline.lake.time_range import time_trouble
from headrace.pipeline.settings.choices import Compression, ParseFormat
from headrace.pipeline.settings.parse_block import ParseSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_COMPARED = (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)
"""Types of which two values are equal or not: NaN isn't equal to itself, and Spark can't sort maps."""
_CORRUPT = "headrace_corrupt"
_REASON, _DATA = "quarantine_reason", "quarantine_data"
_TAKEN = frozenset({*PROVENANCE, DAY, "record", _REASON, _DATA, _CORRUPT})

Reading = Callable[[bool | None], "DataFrame"]


@dataclass(frozen=True, slots=True)
class Frames:
    """How one target's rows are made."""

    settings: ParseSettings
    context: BatchContext

    @property
    def dropped_as(self) -> str:
        """Why rows may be in neither table; empty where none may be missing."""
        own = ["callable"] if self.settings.format is ParseFormat.CALLABLE else []
        return " or ".join([*(["filter"] if self.settings.filter else []), *own])

    @property
    def limits(self) -> Limits:
        return Limits(self.settings.most_columns, _TAKEN)

    def schema(self, session: SparkSession) -> StructType:
        """The columns that the settings name, as Spark understands them."""
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StructType

        if not self.settings.schema:
            self._check_keys(())
            return StructType()
        try:
            # from_json reads a schema on the server: a Spark Connect client has no parser of its own.
            found: Any = (
                session.range(0).select(F.from_json(F.lit("{}"), self.settings.schema).alias("row")).schema
            )
        except PySparkException as error:
            why = str(error).strip().partition("\n")[0].rstrip(".")
            raise BadSetting(
                f"Spark can't read the schema of the target {self.settings.name}: {why}. Nothing was parsed; correct parse.N.schema"
            ) from error
        schema: StructType = found["row"].dataType
        self._check(schema.names)
        # Spark finds no column by its name where two names differ only in capital letters.
        if twice := [
            name for n, name in enumerate(schema.names) if name.lower() in map(str.lower, schema.names[:n])
        ]:
            raise BadSetting(
                f"the schema of the target {self.settings.name} has the column {twice[0]} twice; capital letters make no difference. Nothing was "
                "parsed; name each column once in parse.N.schema"
            )
        self._check_keys(columns_of(schema))
        return schema

    def decoded_columns(self, decoder: Decoder) -> list[tuple[str, IcebergType]]:
        columns = [(name, iceberg_type(spark)) for name, spark in decoder.columns()]
        self._check([name for name, _ in columns])
        self._check_keys(columns)
        return columns

    def _check(self, names: Sequence[str]) -> None:
        if taken := sorted({name.lower() for name in names} & _TAKEN):
            raise BadSetting(
                f"the schema of the target {self.settings.name} has a column {taken[0]}, which Headrace itself gives to the table. Nothing was "
                "parsed; use format: callable, and give the column another name"
            )
        if dotted := [name for name in names if "." in name]:
            raise BadSetting(
                f"the schema of the target {self.settings.name} has a column {dotted[0]}, and a dot in a name means a part of a struct. Nothing "
                "was parsed; use format: callable, and give the column another name"
            )

    def _check_keys(self, columns: Sequence[tuple[str, IcebergType]]) -> None:
        kinds = dict(columns)
        for name in self.settings.key_columns:
            if name not in kinds:
                raise BadSetting(
                    f"unique.by of the target {self.settings.name} names {name}, and its schema has no such column ({', '.join(kinds) or 'it names none'}). Nothing "
                    "was parsed; name columns of the schema. A part of a struct can't be named; use format: callable, and make it a column"
                )
            if not isinstance(kinds[name], _COMPARED):
                raise BadSetting(
                    f"unique.by of the target {self.settings.name} names {name}, which is {kinds[name]}: such values can't tell whether two rows "
                    "are the same event. Nothing was parsed; name columns with texts, whole numbers, decimals, times, booleans or bytes"
                )

    @property
    def decoder(self) -> Decoder | None:
        """For formats that the writing tasks decode, and not Spark."""
        target = self.settings
        match target.format:
            case ParseFormat.AVRO | ParseFormat.AVRO_SINGLE_OBJECT:
                is_single = target.format is ParseFormat.AVRO_SINGLE_OBJECT
                return AvroDecoder(target.name, target.schema, is_single, target.most_values)
            case ParseFormat.AVRO_CONFLUENT | ParseFormat.AVRO_GLUE:
                is_glue = target.format is ParseFormat.AVRO_GLUE
                return RegistryAvroDecoder(
                    AvroDecoder(
                        target.name, target.schema, is_single_object=False, most_values=target.most_values
                    ),
                    partial(of_glue, inflation=self._limits_of_inflation) if is_glue else of_confluent,
                    # Read for each wave: a schema that came into the folder is known from then on.
                    schemas_in(target.schemas or "", target.name),
                )
            case ParseFormat.PROTOBUF | ParseFormat.PROTOBUF_CONFLUENT:
                is_confluent = target.format is ParseFormat.PROTOBUF_CONFLUENT
                return ProtobufDecoder(
                    target.name, target.schema, target.message or "", is_confluent, target.most_values
                )
            case ParseFormat.JSON | ParseFormat.CALLABLE:
                return None

    @property
    def inflation(self) -> Inflation | None:
        return None if self.settings.compression is Compression.NONE else self._limits_of_inflation

    @property
    def _limits_of_inflation(self) -> Inflation:
        inflated = self.settings.inflated
        return Inflation(self.settings.compression, inflated.bytes, inflated.ratio)

    def rows(self, read: Reading, schema: StructType, *, has_malformed: bool) -> DataFrame:
        """The records as rows with the four columns that the writing tasks read.

        `read` gives all records, or only those without (False) or with (True) a reason in `decode_error`. `has_malformed`: whether some have
        had one since they were landed.
        """
        if self.settings.format is not ParseFormat.CALLABLE:
            return _of_json(self.chosen(read(None)), schema)
        records = self.chosen(read(False)).drop("decode_error", "landed", "json_error")
        rows = _of_callable(records, schema, self.settings, self.context)
        # A second scan, because a callable may make other rows of its records, and isn't to see these.
        return rows.unionByName(_malformed(read(True), schema)) if has_malformed or self.inflation else rows

    def chosen(self, records: DataFrame) -> DataFrame:
        """The records that the filter lets through. It doesn't judge those that have an error: their payloads may be anything."""
        if not self.settings.filter:
            return records
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions as F  # noqa: N812

        is_broken = F.col("decode_error").isNotNull()
        try:
            # The alias hides what lies below these columns: Spark would find a name such as `id` there.
            chosen = records.alias("records").where(
                F.when(is_broken, F.lit(True)).otherwise(F.expr(self.settings.filter))
            )
            # Spark Connect reads the condition only now: of `chosen` itself, the client knows the columns without asking.
            _ = chosen.select("record").schema
        except AnalysisException as error:
            why = str(error).strip().partition("\n")[0].rstrip(";.")
            raise BadSetting(
                f"Spark can't read the filter of the target {self.settings.name}: {why}. Nothing was parsed; correct parse.N.filter. It is a condition "
                "on the columns record, partition_key, explicit_hash_key and data, and not on those of the schema"
            ) from error
        return chosen


def columns_of(schema: StructType) -> list[tuple[str, IcebergType]]:
    return [(each["name"], iceberg_type(each["type"])) for each in schema.jsonValue()["fields"]]


def _malformed(records: DataFrame, schema: StructType) -> DataFrame:
    """Records that couldn't be taken apart when they were landed, or couldn't be inflated, for quarantine. No parser sees them."""
    from pyspark.sql import functions as F  # noqa: N812

    return records.select(
        "record", F.lit(None).cast(schema).alias("row"), F.col("decode_error").alias("reason"), "data"
    )


def _of_json(records: DataFrame, schema: StructType) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructType

    why_not = F.coalesce("decode_error", "json_error")
    text = F.when(why_not.isNull(), F.col("data").cast("string"))
    with_corrupt = StructType([*schema.fields]).add(_CORRUPT, StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "timeZone": "UTC"}
    found = records.select(
        "record",
        F.coalesce("landed", "data").alias("data"),
        F.from_json(text, with_corrupt, options).alias("found"),
        why_not.alias("why_not"),
    )
    is_read = F.col("found").isNotNull() & F.col("found")[_CORRUPT].isNull()
    trouble = time_trouble(F.col("found"), schema)
    is_good = is_read & trouble.isNull()
    unfit = misfit(F.col("found"), F.col("found")[_CORRUPT], schema)
    why = F.coalesce("why_not", F.when(is_read, trouble).otherwise(unfit), F.lit(NO_OBJECT))
    return found.select(
        "record",
        F.when(is_good, F.struct(*(F.col("found")[name].alias(name) for name in schema.names))).alias("row"),
        F.when(~is_good, why).alias("reason"),
        F.when(~is_good, F.col("data")).alias("data"),
    )


def _of_callable(
    records: DataFrame, schema: StructType, settings: ParseSettings, context: BatchContext
) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    made = function_of(settings)(records, context)
    kinds = {each.name: each.dataType for each in made.schema.fields}
    for each in schema.fields:
        # By their short form: whether a part of the type may be null makes no difference.
        found = kinds[each.name].simpleString() if each.name in kinds else "no such column"
        if found != each.dataType.simpleString():
            raise BadSetting(
                f"the target {settings.name} has the column {each.name} {each.dataType.simpleString()} in its schema, and {settings.callable} "
                f"returned {found}. Nothing was parsed; make them agree"
            )
    if "record" not in kinds or ((_REASON in kinds) != (_DATA in kinds)):
        raise BadSetting(
            f"{settings.callable} has to return the column `record` as it came, and {_REASON} together with {_DATA} or neither; it returned "
            f"{', '.join(kinds)}. Nothing was parsed"
        )
    reason = F.col(_REASON) if _REASON in kinds else F.lit(None).cast("string")
    data = F.col(_DATA) if _DATA in kinds else F.lit(None).cast("binary")
    return made.select(
        "record",
        F.struct(*(F.col(f"`{name}`") for name in schema.names)).alias("row"),
        reason.cast("string").alias("reason"),
        F.when(reason.isNotNull(), data.cast("binary")).alias("data"),
    )
