"""The settings `parse`: typed tables that are made of the lake table's records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from headrace.pipeline.settings.choices import ColumnsFrom, Compression, Into, ParseFormat
from headrace.pipeline.settings.knob import knob

MOST_VALUES = 1_000_000
REMOVED = "eventName = 'REMOVE'"
"""The changes of a DynamoDB table that delete an item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InflatedSettings:
    bytes: int = knob(
        16 * 1024 * 1024,
        doc="A payload that inflates to more bytes goes to quarantine. Inflation stops there.",
        unit="bytes",
    )
    ratio: int = knob(
        200,
        doc="So does a payload that inflates to more than a mebibyte, and to more than so many times its "
        "compressed size.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueSettings:
    by: str | None = knob(
        doc="The columns of the schema, with commas between them, whose values together tell that two rows "
        "are the same event (order_id). Rows in which one of them is null are all kept.",
    )
    # There is no default, because a window that is wrong is found out late.
    within: timedelta | None = knob(
        doc="With `unique.by`: two rows with equal values are the same event where Kinesis received them "
        "at most this long apart.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestSettings:
    key: str | None = knob(
        doc="With `into: latest`: the columns of the schema, with commas between them, that are NOT NULL and together "
        "tell which records are of the same thing (order_id). All records of one key need the same "
        "partition key. Default: the partition key itself, which for a DynamoDB table is the item's key.",
    )
    delete_when: str | None = knob(
        doc="With `into: latest`: a record that says so deletes the row of its key. A column of the schema, "
        "which is true there (is_deleted), or a column and its value (op = 'd'). "
        "`format: dynamodb` has eventName = 'REMOVE'.",
    )


@dataclass(frozen=True, slots=True)
class Written:
    """The places where a target's settings are written: for messages, and to find the files that the settings name."""

    folder: str = ""
    """The folder of the settings file; empty for settings that come from no file."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Setting -> file and line, as headrace.yaml:14."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseSettings:
    name: str = field(metadata={"doc": "The target's name in Dagster and in `headrace parse`."})
    table: str = field(
        metadata={
            "doc": "Namespace and name of the typed table, in the catalog of the lake table. "
            "Its quarantine table has the same name with `_quarantine` at its end."
        }
    )
    format: ParseFormat = knob(
        ParseFormat.JSON,
        doc="json: each payload is one JSON object. dynamodb: a change of a DynamoDB table. avro: "
        "Avro's binary form. avro-single-object: the same after the header with the schema's "
        "fingerprint. avro-confluent, avro-glue: the same after the header of a schema registry. "
        "protobuf: one message. protobuf-confluent: the same after such a header. callable: "
        "your own function makes the rows.",
    )
    schema: str = knob(
        "",
        doc="The columns, as Spark writes them (id BIGINT, items ARRAY<STRUCT<sku: STRING>>), "
        "or the path of a file with them that ends in .ddl. With Avro the schema in JSON, "
        "or the path of a file that ends in .avsc. With Protobuf the path of a descriptor set that "
        "ends in .desc. NOT NULL after a column's type: a payload without a value there goes to "
        "quarantine. A column that is added here later is added to the table, too; "
        "older rows have null in it. Needed unless columns is inferred or evolving.",
    )
    columns: ColumnsFrom = knob(
        ColumnsFrom.GIVEN,
        doc="given: schema has all columns. inferred: the JSON payloads of the first wave add columns to "
        "those of schema, and then the columns stay. evolving: "
        "each new field of a JSON payload adds a column.",
    )
    most_columns: int = knob(
        300,
        doc="With columns: inferred or evolving: how many columns the payloads may make of the table, "
        "fields of structs counted.",
    )
    # A folder, and not the registry's address: a registry that is down would stop the parsing or
    # set good records aside, and each Spark worker would need its credentials and a library.
    schemas: str | None = knob(
        doc="With format: avro-confluent or avro-glue: a folder with the registry's schemas, "
        "by which the producers write: each in a file named for its id (42.avsc).",
    )
    compression: Compression = knob(
        Compression.NONE,
        doc="How the producers compressed the payloads. auto: "
        "a payload that begins as gzip or zstd does is inflated, and another one is taken as it is.",
    )
    inflated: InflatedSettings = knob(
        factory=InflatedSettings,
        doc="How far a compressed payload is inflated, so that none of a few bytes fills the memory.",
    )
    # A payload of a megabyte can be a list of a million records of one byte, which took 300 MB as
    # values of Python and Arrow. The default of a million values takes about 150 MB.
    most_values: int = knob(
        MOST_VALUES,
        doc="A payload that makes more values goes to quarantine, before its values are made: each object, "
        "list, entry, text, number and null counts, and each column of each object. Not with `format: "
        "callable`.",
    )
    callable: str | None = knob(
        doc="With `format: callable`: the function, as package.module:function. "
        "Its module is beside this file, or installed."
    )
    message: str | None = knob(doc="With `format: protobuf`: the message's full name, as package.Message.")
    stream: str | None = knob(doc="Only records of the stream with this name. Default: of all streams.")
    filter: str | None = knob(
        doc="Only records for which this Spark SQL condition is true. It has the columns record, "
        "partition_key, explicit_hash_key and data (get_json_object(CAST(data AS STRING), "
        "'$.type') = 'order'). Or the path of a file with it that ends in .sql. "
        "A record on which the condition fails goes to quarantine."
    )
    unique: UniqueSettings = knob(
        factory=UniqueSettings,
        doc="Which rows are left out because the same event is in the table already: "
        "producers that try again send it twice.",
    )
    into: Into = knob(
        Into.ROWS,
        doc="rows: the table gets a row for each record. latest: it has one row for each key, that of the "
        "key's latest record.",
    )
    latest: LatestSettings = knob(
        factory=LatestSettings,
        doc="With `into: latest`: what the key is, and which records delete its row.",
    )
    version: str = knob(
        "1",
        doc="The version of your schema and code, which the ledger records with each range. "
        "Raise it when you change either.",
    )
    # A record that can't be parsed goes to quarantine and holds up no other. A part as large as
    # this means that the target itself is wrong, and would fill the quarantine table with good
    # records.
    stop_above: float = knob(
        0.5,
        doc="If more than this part of a wave of at least 100 records can't be parsed, "
        "nothing of the wave is committed, and the run fails.",
    )

    written: Written = field(
        default_factory=Written, compare=False, repr=False, metadata={"is_setting": False}
    )

    def called(self, setting: str) -> str:
        """A setting of this target in words for a message: `filter` of the target orders (headrace.yaml:14)."""
        place = self.written.places.get(setting)
        return f"`{setting}` of the target {self.name}{f' ({place})' if place else ''}"

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of `unique.by`."""
        return _names_in(self.unique.by)

    @property
    def is_latest(self) -> bool:
        return self.into is Into.LATEST

    @property
    def latest_key(self) -> tuple[str, ...]:
        """The columns of `latest.key`; none where the partition key of the record is the key."""
        return _names_in(self.latest.key)

    @property
    def deletes_when(self) -> str | None:
        """The condition `latest.delete_when`, as it is written: which records delete the row of their key."""
        return REMOVED if self.format is ParseFormat.DYNAMODB else self.latest.delete_when

    @property
    def quarantine(self) -> str:
        return f"{self.table}_quarantine"


def _names_in(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text else ()
