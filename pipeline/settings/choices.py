"""The allowed words of settings that allow a few words only."""

from enum import StrEnum
from typing import Final


class StreamsMode(StrEnum):
    SINGLE = "single"
    MULTI = "multi"


class InitialPosition(StrEnum):
    TRIM_HORIZON = "TRIM_HORIZON"
    LATEST = "LATEST"
    AT_TIMESTAMP = "AT_TIMESTAMP"


class FormerStreams(StrEnum):
    KEEP = "keep"
    AUTO = "auto"
    PROVIDED = "provided"


class OnDataLoss(StrEnum):
    STOP = "stop"
    CONTINUE = "continue"


class Layout(StrEnum):
    AUTO = "auto"
    """The layout of the tables that exist already; M for an application without tables."""
    M = "M"
    """Three tables, as KCL 3.0-3.4 has them."""
    S = "S"
    """One table, as KCL 3.5+ has it for new applications."""


class Heartbeat(StrEnum):
    WORKER = "worker"
    """A worker beats in its own row: one write per worker and tick."""
    LEASE = "lease"
    """A worker also moves the counter of each of its leases, as KCL's workers do and expect."""


class Beat(StrEnum):
    TICKS = "ticks"
    """A worker's sensor beats at each of its ticks."""
    PROCESS = "process"
    """A process of its own, `headrace beat`, beats between the ticks, too."""


class Mode(StrEnum):
    OWN = "own"
    """A leader assigns the leases to workers."""
    KCL_2 = "2.x"
    """Each worker takes and steals leases for itself, as in KCL 2.x."""
    MIGRATING = "migrating"
    """As `2.x`, until the row `Migration3.0` says that leases are assigned; then as `own`."""


class Strategy(StrEnum):
    GAP = "gap"
    VARIANCE = "variance"
    LEASE_COUNT = "lease-count"


class Period(StrEnum):
    HOUR = "hour"
    DAY = "day"


class Create(StrEnum):
    AUTO = "auto"
    NEVER = "never"


class Billing(StrEnum):
    ON_DEMAND = "PAY_PER_REQUEST"
    PROVISIONED = "PROVISIONED"


class Aggregates(StrEnum):
    AUTO = "auto"
    """Taken apart in tables that were made by a version that does so, and in others once the user has chosen
    `unpack`."""
    UNPACK = "unpack"
    KEEP = "keep"


class WireFormat(StrEnum):
    AUTO = "auto"
    """CBOR, and JSON where an endpoint doesn't answer well in CBOR."""
    JSON = "json"
    CBOR = "cbor"


class Retrieval(StrEnum):
    POLLING = "polling"
    """By GetRecords, whose limits of a shard all readers share."""
    FANOUT = "fanout"
    """By enhanced fan-out: a consumer with 2 MiB a second of each shard for itself."""


class Into(StrEnum):
    ROWS = "rows"
    """A row for each record."""
    LATEST = "latest"
    """One row for each key: that of its latest record."""


class ParseFormat(StrEnum):
    JSON = "json"
    DYNAMODB = "dynamodb"
    """A change of a DynamoDB table, in DynamoDB's JSON."""
    AVRO = "avro"
    """Avro's binary form, without a header."""
    AVRO_SINGLE_OBJECT = "avro-single-object"
    """Avro's binary form after a header with the fingerprint of the schema."""
    AVRO_CONFLUENT = "avro-confluent"
    """Avro's binary form after the header of Confluent's schema registry."""
    AVRO_GLUE = "avro-glue"
    """Avro's binary form after the header of AWS Glue's schema registry."""
    PROTOBUF = "protobuf"
    PROTOBUF_CONFLUENT = "protobuf-confluent"
    """One message after the header of Confluent's schema registry."""
    CALLABLE = "callable"


class ColumnsFrom(StrEnum):
    GIVEN = "given"
    INFERRED = "inferred"
    """The payloads of the first wave add columns to those of `schema`; then the columns stay as they are."""
    EVOLVING = "evolving"
    """Each new field of a payload adds a column."""


class ProcessorMode(StrEnum):
    LANDED = "landed"
    """The processor works on the records in the lake table, and its table has rows, state and position in one commit."""
    APPLICATION = "application"
    """The processor reads the stream itself, as an application of KCL with a lease table of its own."""


class OnProcessorError(StrEnum):
    HALT = "halt"
    """The shard stops before the failed call; the others go on."""
    RETRY = "retry"
    """The call is tried again, and then the shard stops."""
    HALVE = "halve"
    """Fewer records are handed out at once, until the one is found at which the processor fails. There the shard
    stops."""
    QUARANTINE = "quarantine"
    """That record goes to the quarantine table, and the processor goes on."""


class Imports(StrEnum):
    OWN = "own"
    """Each process of a processor imports the code for itself."""
    SHARED = "shared"
    """The processes of a host are forks of one that has imported the code."""


class Compression(StrEnum):
    NONE = "none"
    AUTO = "auto"
    """A payload that begins as gzip or zstd does is inflated, and another one is taken as it is."""
    GZIP = "gzip"
    ZSTD = "zstd"


class MetricsTo(StrEnum):
    NONE = "none"
    CLOUDWATCH = "cloudwatch"
    OTEL = "otel"


class MetricsLevel(StrEnum):
    NONE = "NONE"
    SUMMARY = "SUMMARY"
    DETAILED = "DETAILED"


CHECKS: Final = frozenset(
    {
        "hash_keys_covered",
        "keeps_up",
        "lag",
        "last_proof",
        "no_duplicates",
        "no_gaps",
        "parents_before_children",
        "quarantine_rate",
        "recorded",
        "retention_at_risk",
        "shards_read",
        "upkeep",
        "watermark_age",
    }
)
"""The names of the checks on Dagster's assets (`headrace.pipeline.checking`)."""

NEVER: Final = "never"
"""In the place of a schedule: there is none."""

POOLS: Final = frozenset({"records", "parse", "replay", "upkeep", "proof"})
"""The kinds of runs that may have a concurrency pool of Dagster."""
