"""The columns of the lake table, for Dagster's pages. The table itself is created by `headrace.pipeline.lake`,
which imports too much for a code location that only loads its definitions.
"""

from headrace.pipeline.ports.described_table import Column

RECORD_COLUMNS = (
    Column("stream", "string", "Name of the Kinesis stream"),
    Column(
        "stream_epoch", "long", "When the stream was created, in seconds: a stream made again is another one"
    ),
    Column("shard_id", "string", "Unique within stream and stream_epoch only"),
    Column("sequence_number", "string", "Decimal digits; compare as a number"),
    Column("sub_sequence_number", "long", "Place within a KPL aggregate"),
    Column("partition_key", "string", "As the producer gave it"),
    Column("explicit_hash_key", "string", "Of a user record in a KPL aggregate"),
    Column("arrival_ts", "timestamptz", "When Kinesis received the record"),
    Column("data", "binary", "The payload, untouched"),
    Column("decode_error", "string", "Why a record couldn't be taken apart; data then holds it whole"),
    Column(
        "sort_key",
        "string",
        "Sorts a shard's records: digits of the sequence number, it, the sub-sequence number",
    ),
)
