"""The six roles of an application, each with the statements that its part of Headrace needs and no other.

`tests/iam` runs the parts against the stand-in, which refuses actions that the role's policy lacks and notes
allowed actions that nobody uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final

from headrace.pipeline.iam.places import ApplicationArns
from headrace.pipeline.iam.rights import Statement, Use, catalog, files, listing, statement
from headrace.pipeline.settings.choices import Create, MetricsTo
from headrace.pipeline.settings.targets import landed_processors


class Role(StrEnum):
    LEADER = "leader"
    WORKER = "worker"
    SPARK = "spark"
    UPKEEP = "upkeep"
    READER = "reader"
    MIGRATE = "migrate"


WHAT_IT_IS_FOR: Final = {
    Role.LEADER: "the leader's sensor: finds streams and shards, makes the tables, gives leases to workers, expires snapshots",
    Role.WORKER: "the workers' sensors, the runs that land and parse, and the commands that do the same",
    Role.SPARK: "Spark's tasks: read records from Kinesis, read and write data files",
    Role.UPKEEP: "the upkeep job and `headrace upkeep`: compact, expire, and delete files",
    Role.READER: "what only looks: `headrace status`, `plan`, `lineage`, `prove`, `tables describe`, `console` (without `--peek`)",
    Role.MIGRATE: "a person who drives KCL's migrations by `headrace migrate`",
}


def statements_of(role: Role, places: ApplicationArns) -> tuple[Statement, ...]:
    return tuple(_STATEMENTS[role](places))


def _leader(places: ApplicationArns) -> Iterator[Statement]:
    yield from statement(
        "Shards", "kinesis", "DescribeStreamSummary ListShards GetShardIterator GetRecords", places.streams
    )
    yield from statement(
        "TableStreams", "dynamodb", "DescribeStream GetShardIterator GetRecords", places.table_streams
    )
    yield from _finding(places)
    if places.consumers:
        yield from statement("RegisterConsumers", "kinesis", "RegisterStreamConsumer", places.fanned_out)
        yield from statement("LookAtConsumers", "kinesis", "DescribeStreamConsumer", places.consumers)
    yield from statement(
        "Coordinate",
        "dynamodb",
        "DescribeTable GetItem BatchGetItem Scan PutItem UpdateItem DeleteItem",
        places.coordination_tables,
    )
    if places.settings.coordination.create is Create.AUTO:
        yield from _making(places)
    yield from _metrics(places)
    yield from catalog(places, places.lake_tables, Use.BEGINS)
    yield from files(places, "GetObject PutObject")
    yield from listing(places)


def _finding(places: ApplicationArns) -> Iterator[Statement]:
    """The rights to find streams by their names and tags, which `headrace plan` does as the leader's sensor does."""
    discovery = places.settings.discovery
    if discovery.searches:
        yield from statement("FindStreams", "kinesis", "ListStreams", ("*",))
    if discovery.tags:
        yield from statement("TagsOfStreams", "kinesis", "ListTagsForStream", places.streams)


def _metrics(places: ApplicationArns) -> Iterator[Statement]:
    if places.settings.metrics.to is MetricsTo.CLOUDWATCH:
        # CloudWatch knows no resource for it.
        yield from statement("Metrics", "cloudwatch", "PutMetricData", ("*",))


def _making(places: ApplicationArns) -> Iterator[Statement]:
    """The rights to make the coordination tables, which can be taken away once they are there."""
    coordination = places.settings.coordination
    tables = places.coordination_tables
    tagging = " TagResource" if coordination.tags else ""
    yield from statement("MakeTables", "dynamodb", f"CreateTable{tagging}", tables)
    yield from statement("MakeTheIndex", "dynamodb", "UpdateTable", places.lease_tables)
    if coordination.point_in_time_recovery:
        yield from statement("SwitchBackupsOn", "dynamodb", "UpdateContinuousBackups", tables)


def _worker(places: ApplicationArns) -> Iterator[Statement]:
    yield from statement(
        "Shards", "kinesis", "DescribeStreamSummary ListShards GetShardIterator GetRecords", places.streams
    )
    yield from statement(
        "TableStreams", "dynamodb", "DescribeStream GetShardIterator GetRecords", places.table_streams
    )
    yield from statement(
        "Coordinate",
        "dynamodb",
        "DescribeTable GetItem BatchGetItem Scan PutItem UpdateItem",
        places.coordination_tables,
    )
    yield from statement("OwnLeases", "dynamodb", "Query", places.owner_indexes)
    yield from _metrics(places)
    yield from catalog(
        places,
        (*places.lake_tables, *places.typed_tables, *places.window_list, *places.window_tables),
        Use.BEGINS,
    )
    yield from files(places, "GetObject PutObject")
    yield from listing(places)


def _spark(places: ApplicationArns) -> Iterator[Statement]:
    yield from statement(
        "Records", "kinesis", "DescribeStreamSummary GetShardIterator GetRecords", places.streams
    )
    if places.consumers:
        yield from statement(
            "Subscribe", "kinesis", "DescribeStreamConsumer SubscribeToShard", places.consumers
        )
    yield from statement(
        "TableStreams", "dynamodb", "DescribeStream GetShardIterator GetRecords", places.table_streams
    )
    if places.processor_lease_tables:
        yield from statement("Checkpoints", "dynamodb", "GetItem UpdateItem", places.processor_lease_tables)
    yield from files(places, "GetObject PutObject", places.warehouse)
    yield from listing(places)


def _upkeep(places: ApplicationArns) -> Iterator[Statement]:
    yield from catalog(places, (*places.lake_tables, *places.typed_tables), Use.COMMITS)
    has_processors = bool(landed_processors(places.settings))
    if has_processors or places.settings.upkeep.retention is not None:
        # Days that a window still needs are kept, and tables into which windows went through a processor are kept small.
        yield from catalog(places, places.window_list, Use.READS)
    if has_processors:
        yield from catalog(places, places.window_tables, Use.COMMITS)
    yield from files(places, "GetObject PutObject DeleteObject")
    yield from listing(places)


def _reader(places: ApplicationArns) -> Iterator[Statement]:
    yield from statement("Shards", "kinesis", "DescribeStreamSummary ListShards", places.streams)
    yield from statement("TableStreams", "dynamodb", "DescribeStream", places.table_streams)
    yield from _finding(places)
    yield from statement(
        "Coordination", "dynamodb", "DescribeTable GetItem BatchGetItem Scan", places.coordination_tables
    )
    yield from catalog(
        places,
        (*places.lake_tables, *places.typed_tables, *places.window_list, *places.window_tables),
        Use.READS,
    )
    yield from files(places, "GetObject")
    # `headrace prove` keeps what it has proved, so that the next proof has less to read.
    proofs = tuple(places.s3(f"{folder}/proof-*") for folder in places.state)
    yield from statement("KeepProofs", "s3", "PutObject", proofs)
    yield from listing(places)


def _migrate(places: ApplicationArns) -> Iterator[Statement]:
    both = (places.lease_table, places.state_table)
    yield from statement("Look", "dynamodb", "DescribeTable Scan", places.coordination_tables)
    yield from statement("WriteRows", "dynamodb", "GetItem PutItem UpdateItem DeleteItem", both)
    # A part of the transactions in which rows move between the tables.
    yield from statement("CheckRows", "dynamodb", "ConditionCheckItem", (places.state_table,))
    # A rollback of a fleet of KCL's workers deletes the index of owners.
    yield from statement("DeleteTheIndex", "dynamodb", "UpdateTable", (places.lease_table,))


_STATEMENTS: Final[dict[Role, Callable[[ApplicationArns], Iterator[Statement]]]] = {
    Role.LEADER: _leader,
    Role.WORKER: _worker,
    Role.SPARK: _spark,
    Role.UPKEEP: _upkeep,
    Role.READER: _reader,
    Role.MIGRATE: _migrate,
}
