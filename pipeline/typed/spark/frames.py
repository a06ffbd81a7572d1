"""How the rows of one target are made: by a decoder in the tasks that write them, or on Spark by a function of the
user's own.

record, partition_key, explicit_hash_key, data  ──►  record, row, reason, data
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import NestedField

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.choices import ColumnsFrom, Compression, ParseFormat
from headrace.pipeline.settings.ddl import WrongDdl, why_no_column_name
from headrace.pipeline.settings.rules.latest import why_not_latest
from headrace.pipeline.settings.rules.schema import (
    DATA,
    OWN_COLUMNS,
    REASON,
    columns_of_schema,
    why_no_keys,
)
from headrace.pipeline.typed.code_digest import Function, NeedsSession, TargetCode
from headrace.pipeline.typed.columns.spark_types import iceberg_type
from headrace.pipeline.typed.context import BatchContext
from headrace.pipeline.typed.formats.avro import AvroDecoder, RegistryAvroDecoder, schemas_in
from headrace.pipeline.typed.formats.decoder import Decoder
from headrace.pipeline.typed.formats.inflate import Inflation
from headrace.pipeline.typed.formats.protobuf import ProtobufDecoder
from headrace.pipeline.typed.formats.registry_header import of_confluent, of_glue
from headrace.pipeline.typed.json.column_types import has_not_null, nullable
from headrace.pipeline.typed.json.columns import Limits
from headrace.pipeline.typed.json.decode import JsonDecoder
from headrace.pipeline.typed.json.dynamodb import DynamoDbDecoder
from headrace.pipeline.typed.spark.filter_frame import judged
from headrace.pipeline.typed.tasks.read import PAYLOAD
from headrace.pipeline.typed.tasks.write import IS_LEFT_OUT

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

Reading = Callable[[bool | None], "DataFrame"]


@dataclass(frozen=True, slots=True)
class Frames:
    """How one target's rows are made."""

    settings: ParseSettings
    context: BatchContext
    connect: bool = True
    """Whether the session is one of Spark Connect."""
    code: TargetCode = field(init=False, compare=False)
    """What parses, as it is when the run first needs it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", TargetCode(self.settings, connect=self.connect))

    @property
    def dropped_as(self) -> str:
        """The reason for which a parser may leave out rows; empty where it has to return each row. Rows that the
        filter leaves out are returned, and counted.
        """
        return "callable" if self.settings.format is ParseFormat.CALLABLE else ""

    @property
    def limits(self) -> Limits:
        return Limits(self.settings.most_columns, OWN_COLUMNS)

    def fields(self) -> list[dict[str, Any]]:
        """The columns that the DDL schema in the settings names, as struct fields in Spark's JSON form. Spark
        isn't needed for that. Raises BadSetting.
        """
        try:
            columns = columns_of_schema(self.settings)
        except WrongDdl as wrong:
            # The settings are judged when they are read; these come from elsewhere.
            raise BadSetting(
                f"the schema of the target {self.settings.name} is wrong {wrong}. Nothing was parsed; correct {self.settings.called('schema')}"
            ) from None
        # At the schema, and not at the first row: a wave that can't compare duplicates must not begin.
        kinds, required = (
            {column.name: column.type for column in columns},
            {column.name for column in columns if column.required},
        )
        self._check_keys(kinds, frozenset(required))
        return [column.field for column in columns]

    def decoded_columns(self, decoder: Decoder) -> list[NestedField]:
        if isinstance(decoder, JsonDecoder | DynamoDbDecoder):
            return columns_of(decoder.fields)
        columns = dict(decoder.columns())
        self._check(list(columns))
        self._check_keys(columns, None)
        return columns_of([{"name": name, "type": kind} for name, kind in columns.items()])

    def check(self) -> bool:
        """Check the target's schema, function and files. Raises BadSetting where no wave could use them. Needs no
        Spark. Returns whether all of it was looked at: a module that needs a session while it is imported is judged once
        there is one, before the wave reads a record.
        """
        if decoder := self.decoder:
            self.decoded_columns(decoder)
            return True
        self.fields()
        try:
            if self.settings.format is ParseFormat.CALLABLE:
                self.code.function()
        except NeedsSession:
            return False
        return True

    def stated_columns(self) -> list[NestedField]:
        """The columns that the settings state."""
        if self.settings.columns is ColumnsFrom.GIVEN and (decoder := self.decoder):
            return self.decoded_columns(decoder)
        return columns_of(self.fields())

    def _check(self, names: Sequence[str]) -> None:
        for name in names:
            why = why_no_column_name(name)
            if name.lower() in OWN_COLUMNS:
                why = "Headrace itself gives a column of this name to the table"
            if why:
                raise BadSetting(
                    f"the schema of the target {self.settings.name} has a column {name}: {why}. Nothing was parsed; correct "
                    f"{self.settings.called('schema')}, or use format: callable"
                )

    def _check_keys(self, columns: Mapping[str, Any], required: frozenset[str] | None) -> None:
        if self.settings.is_latest:
            for setting, wrong in why_not_latest(self.settings, columns, required):
                raise BadSetting(
                    f"{setting} of the target {self.settings.name}: {wrong}. Nothing was parsed; correct {self.settings.called(setting)}"
                )
        if why := why_no_keys(self.settings.key_columns, columns):
            raise BadSetting(
                f"unique.by of the target {self.settings.name}: {why}. Nothing was parsed; correct {self.settings.called('unique.by')}"
            )

    @property
    def decoder(self) -> Decoder | None:
        """What decodes payloads in the Spark tasks that write rows; None where a user's own function makes rows
        of payloads.
        """
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
                    schemas_in(target.schemas or "", target.name, target.called("schemas")),
                )
            case ParseFormat.PROTOBUF | ParseFormat.PROTOBUF_CONFLUENT:
                is_confluent = target.format is ParseFormat.PROTOBUF_CONFLUENT
                return ProtobufDecoder(
                    target.name, target.schema, target.message or "", is_confluent, target.most_values
                )
            case ParseFormat.JSON:
                return JsonDecoder(tuple(self.fields()), target.most_values)
            case ParseFormat.DYNAMODB:
                return DynamoDbDecoder(JsonDecoder(tuple(self.fields()), target.most_values))
            case ParseFormat.CALLABLE:
                return None

    @property
    def inflation(self) -> Inflation | None:
        return None if self.settings.compression is Compression.NONE else self._limits_of_inflation

    @property
    def _limits_of_inflation(self) -> Inflation:
        inflated = self.settings.inflated
        return Inflation(self.settings.compression, inflated.bytes, inflated.ratio)

    def rows(self, read: Reading, fields: Sequence[Mapping[str, Any]], *, has_malformed: bool) -> DataFrame:
        """The rows that the user's own function makes of the records, with the four columns that the writing
        tasks read, and a fifth one, IS_LEFT_OUT, where the target has a filter.

        `read` gives all records, or only those without (False) or with (True) a reason in `decode_error`.
        `fields`: the columns, as struct fields. `has_malformed`: whether some records have had such a reason
        since they were landed.
        """
        from pyspark.sql.types import StructType

        # Nullable for the user's function, because what lacks a value goes to quarantine and fails no task.
        schema = StructType.fromJson(nullable({"type": "struct", "fields": list(fields)}))
        keeps = has_not_null(fields)
        own = ("decode_error", "landed", "json_error", IS_LEFT_OUT)
        taken = self.taken(self.judged(read(False))).drop(*own)
        rows = _of_callable(
            taken, schema, self.settings, self.code.function(), self.context, keeps_payloads=keeps
        )
        # A second scan, because a callable may make other rows of its records, and isn't to see these.
        if self.settings.filter:
            return rows.withColumn(IS_LEFT_OUT, _false()).unionByName(
                _without_rows(self._untaken(self.judged(read(None))), schema, keeps_payloads=keeps)
            )
        if has_malformed or self.inflation:
            rows = rows.unionByName(_without_rows(read(True), schema, keeps_payloads=keeps))
        return rows

    def judged(self, records: DataFrame) -> DataFrame:
        return judged(records, self.settings) if self.settings.filter else records

    def taken(self, records: DataFrame) -> DataFrame:
        """The records that the filter takes, and that have no reason in `decode_error`."""
        from pyspark.sql import functions as F  # noqa: N812

        readable = records.where(F.col("decode_error").isNull())
        return readable.where(~F.col(IS_LEFT_OUT)) if self.settings.filter else readable

    def _untaken(self, records: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        return records.where(F.col("decode_error").isNotNull() | F.col(IS_LEFT_OUT))


def check_target(target: ParseSettings) -> bool:
    """Check the settings of a target. Raises BadSetting for settings of a target that no wave could use. Neither
    Spark nor a catalog is needed, and nothing is written. Returns whether all of them could be looked at without Spark."""
    return Frames(target, BatchContext(target.name, target.version, "check")).check()


def columns_of(fields: Sequence[Mapping[str, Any]]) -> list[NestedField]:
    """Spark's columns as Iceberg's.

    `fields`: as Spark writes them in JSON. Their ids are unique within these columns only: a table gives its own.
    """
    struct: Any = iceberg_type({"type": "struct", "fields": fields})
    return list(struct.fields)


def arrow_schema(columns: Sequence[NestedField]) -> pa.Schema:
    """The columns as an Arrow schema, with new field ids."""
    return schema_to_pyarrow(assign_fresh_schema_ids(Schema(*columns)))


def _false() -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.lit(False)


def _without_rows(records: DataFrame, schema: StructType, *, keeps_payloads: bool) -> DataFrame:
    """Records for quarantine, and those that the filter leaves out. No parser sees them: they couldn't be taken apart
    when they were landed, couldn't be inflated, or the filter can't judge them."""
    from pyspark.sql import functions as F  # noqa: N812

    left_out = [IS_LEFT_OUT] if IS_LEFT_OUT in records.columns else []
    return records.select(
        _bare_record(keeps_payloads=keeps_payloads),
        F.lit(None).cast(schema).alias("row"),
        F.col("decode_error").alias("reason"),
        # As it landed, so that a redrive can inflate it anew.
        F.coalesce("landed", "data").alias("data"),
        *left_out,
    )


def _bare_record(*, keeps_payloads: bool) -> Column:
    """The column `record` without the payload that a callable has brought back in it."""
    from pyspark.sql import functions as F  # noqa: N812

    record = F.col("record")
    return record.dropFields(PAYLOAD).alias("record") if keeps_payloads else record


def _of_callable(
    records: DataFrame,
    schema: StructType,
    settings: ParseSettings,
    function: Function,
    context: BatchContext,
    *,
    keeps_payloads: bool,
) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    returned = function(records, context)
    kinds = {column.name: column.dataType for column in returned.schema.fields}
    for column in schema.fields:
        # By their short form: whether a part of the type may be null makes no difference.
        kind = kinds[column.name].simpleString() if column.name in kinds else "no such column"
        if kind != column.dataType.simpleString():
            raise BadSetting(
                f"the target {settings.name} has the column {column.name} {column.dataType.simpleString()} in its schema, and {settings.callable} "
                f"returned {kind}. Nothing was parsed; make them agree"
            )
    if "record" not in kinds or ((REASON in kinds) != (DATA in kinds)):
        raise BadSetting(
            f"{settings.callable} has to return the column `record` as it came, and {REASON} together with {DATA} or neither; it returned "
            f"{', '.join(kinds)}. Nothing was parsed"
        )
    reason = (F.col(REASON) if REASON in kinds else F.lit(None)).cast("string")
    data = (F.col(DATA) if DATA in kinds else F.lit(None)).cast("binary")
    payload = F.col("record")[PAYLOAD] if keeps_payloads else F.lit(None).cast("binary")
    return returned.select(
        _bare_record(keeps_payloads=keeps_payloads),
        F.struct(*(F.col(f"`{name}`") for name in schema.names)).alias("row"),
        reason.alias("reason"),
        F.when(reason.isNotNull(), data).otherwise(payload).alias("data"),
    )
