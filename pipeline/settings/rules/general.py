"""Rules between settings, and rules about single settings that a type can't express. Pure functions."""

import re
from collections.abc import Iterator
from datetime import timedelta
from posixpath import normpath

from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.blocks.discovery import DiscoverySettings
from headrace.pipeline.settings.choices import (
    FormerStreams,
    Heartbeat,
    InitialPosition,
    Mode,
)
from headrace.pipeline.settings.model import (
    LandingSettings,
    Settings,
    StreamSettings,
    WorkerSettings,
)
from headrace.pipeline.settings.rules.aws import aws_rules
from headrace.pipeline.settings.rules.beside_kcl import beside_kcl_rules
from headrace.pipeline.settings.rules.broken import Broken, is_table_name
from headrace.pipeline.settings.rules.dagster import dagster_rules
from headrace.pipeline.settings.rules.latest import latest_rules
from headrace.pipeline.settings.rules.metrics import metrics_rules
from headrace.pipeline.settings.rules.processors import CODE, processor_rules
from headrace.pipeline.settings.rules.retrieval import retrieval_rules
from headrace.pipeline.settings.rules.table_streams import no_table_stream, table_stream_rules
from headrace.pipeline.settings.rules.targets import target_rules
from headrace.pipeline.settings.stream_names import DYNAMODB_ARN, is_dynamodb, name_in
from headrace.pipeline.settings.values import show

# DynamoDB's rule for names of tables.
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
# Kinesis's rule for names.
_STREAM = re.compile(
    r"(?:arn:aws[a-z-]*:kinesis:(?P<region>[a-z0-9-]+):[0-9]{12}:stream/)?[A-Za-z0-9_.-]{1,128}"
)
# The name of a stream, or its beginning.
_PREFIX = re.compile(r"[A-Za-z0-9_.-]{1,128}")
# Sentences join ids by commas, and the key of a run has slashes between its parts
# (`pipeline/duties/fleet/sensor_turn.py`).
_WORKER = re.compile(r"[^\s,/]+")
# Keys of KCL's own rows, which lie in one table with the workers' rows in layout S.
_TAKEN = frozenset({"Leader", "Migration3.0", "TableMigration3.5"})


def broken_rules(settings: Settings) -> Iterator[Broken]:
    for rule in (
        _streams,
        table_stream_rules,
        _discovery,
        _former,
        _workers,
        _tables,
        aws_rules,
        _mode,
        _fractions,
        beside_kcl_rules,
        _landing,
        _upkeep,
        target_rules,
        latest_rules,
        processor_rules,
        retrieval_rules,
        dagster_rules,
        _times,
        metrics_rules,
    ):
        yield from rule(settings)


def _streams(settings: Settings) -> Iterator[Broken]:
    if not settings.streams and not settings.discovery.is_asked_for:
        yield Broken(
            "streams",
            "is missing or empty; allowed: one stream or more (- name: my-stream)",
            also=("discovery",),
        )
    if len(settings.streams) > 1 and not settings.multi:
        yield Broken(
            "streams",
            f"has {len(settings.streams)} entries, and streams_mode is single: keep one and give each other stream an "
            "application of its own, or set streams_mode: multi. An application that has landed records already is "
            "stopped first and needs `headrace rekey` then",
            also=("streams_mode",),
        )
    names = [name_in(stream.name) for stream in settings.streams]
    for n, stream in enumerate(settings.streams):
        yield from _stream(stream, f"streams.{n}", aws=settings.aws)
        if names[n] in names[:n]:
            first = f"streams.{names.index(names[n])}"
            yield Broken(
                f"streams.{n}.name",
                f"is {stream.name!r}, which {first} names already; allowed: each stream name once, also for streams of "
                "different accounts, because rows of the lake table tell streams apart by their names",
                also=(f"{first}.name",),
            )


def _discovery(settings: Settings) -> Iterator[Broken]:
    discovery = settings.discovery
    if discovery.is_asked_for and not settings.multi:
        yield Broken(
            "discovery",
            "is given, but streams_mode is single: it needs streams_mode: multi",
            also=("streams_mode",),
        )
    if discovery.prefix is not None and not _PREFIX.fullmatch(discovery.prefix):
        yield Broken("discovery.prefix", f"is {discovery.prefix!r}; allowed: 1 to 128 of A-Z a-z 0-9 _ . -")
    for key, code in (("discovery.tracker", discovery.tracker), ("hooks", settings.hooks)):
        if code is not None and not CODE.fullmatch(code):
            yield Broken(key, f"is {code!r}; allowed: package.module:Name")
    yield from _start(discovery, "discovery")


def _former(settings: Settings) -> Iterator[Broken]:
    how, names = settings.former_streams, settings.former_streams_delete
    if how is not FormerStreams.KEEP and not settings.multi:
        yield Broken(
            "former_streams",
            f"is {how}, but streams_mode is single: it needs streams_mode: multi",
            also=("streams_mode",),
        )
    if names and how is not FormerStreams.PROVIDED:
        yield Broken(
            "former_streams_delete",
            f"is given, but former_streams is {how}: remove it, or say former_streams: provided",
            also=("former_streams",),
        )
    for n, name in enumerate(names):
        if not _PREFIX.fullmatch(name):
            yield Broken(f"former_streams_delete.{n}", f"is {name!r}; allowed: the name of a stream")


def _stream(stream: StreamSettings, key: str, *, aws: AwsSettings) -> Iterator[Broken]:
    is_kinesis = not is_dynamodb(stream.name)
    region = aws.of("kinesis").region if is_kinesis else aws.region
    region_key = "aws.kinesis.region" if is_kinesis and aws.kinesis.region is not None else "aws.region"
    match = _STREAM.fullmatch(stream.name) or DYNAMODB_ARN.fullmatch(stream.name)
    if not match and ":dynamodb:" in stream.name:
        yield no_table_stream(stream, key)
    elif not match:
        yield Broken(
            f"{key}.name",
            f"is {stream.name!r}; allowed: 1 to 128 of A-Z a-z 0-9 _ . - or a stream's ARN "
            "(arn:aws:kinesis:<region>:<account>:stream/<name>, or that of a DynamoDB table's stream)",
        )
    elif match["region"] and region and match["region"] != region:
        yield Broken(
            f"{key}.name",
            f"is in {match['region']} by its ARN, but {region_key} is {region}: make them agree",
            also=(region_key,),
        )
    yield from _start(stream, key)


def _start(stream: StreamSettings | DiscoverySettings, key: str) -> Iterator[Broken]:
    at_timestamp = stream.initial_position is InitialPosition.AT_TIMESTAMP
    if at_timestamp and stream.timestamp is None:
        yield Broken(
            f"{key}.timestamp",
            "is missing, and AT_TIMESTAMP needs it (2026-01-31T00:00:00Z)",
            also=(f"{key}.initial_position",),
        )
    if stream.timestamp is not None and not at_timestamp:
        yield Broken(
            f"{key}.timestamp",
            f"is given, but initial_position is {stream.initial_position}: "
            "remove it, or start with initial_position: AT_TIMESTAMP",
            also=(f"{key}.initial_position",),
        )


def _workers(settings: Settings) -> Iterator[Broken]:
    if not settings.workers:
        yield Broken(
            "workers",
            "is an empty list; allowed: one worker or more, or leave `workers` out for one worker with the id w1",
        )
    ids = [worker.id for worker in settings.workers]
    for n, worker in enumerate(settings.workers):
        if worker.id in ids[:n]:
            yield Broken(
                f"workers.{n}.id",
                f"is {worker.id!r}, which is another worker's id, too; allowed: each id once",
                also=(f"workers.{ids.index(worker.id)}.id",),
            )
        yield from _worker(worker, f"workers.{n}")


def _worker(worker: WorkerSettings, key: str) -> Iterator[Broken]:
    if not _WORKER.fullmatch(worker.id) or not worker.id.isprintable():
        yield Broken(f"{key}.id", f"is {worker.id!r}; allowed: text without spaces, commas and slashes")
    if worker.id in _TAKEN or "shardId-" in worker.id:
        yield Broken(
            f"{key}.id",
            f"is {worker.id!r}, which is a key of KCL's own rows (or looks like a shard's): choose another",
        )
    remote = worker.spark.remote
    if remote and not remote.startswith(("sc://", "local")):
        yield Broken(f"{key}.spark.remote", f"is {remote!r}; allowed: sc://host:port, or local[N]")
    if remote and worker.spark.master:
        yield Broken(
            f"{key}.spark",
            "has both remote and master; allowed: one of them, or neither for the local Connect server (local[2])",
        )


def _tables(settings: Settings) -> Iterator[Broken]:
    if not _TABLE.fullmatch(settings.application):
        yield Broken(
            "application",
            f"is {settings.application!r}; allowed: 3 to 255 of A-Z a-z 0-9 _ . - (it names the lease table)",
        )
    names = {
        "lease_table": settings.lease_table,
        "worker_table": settings.worker_table,
        "state_table": settings.state_table,
    }
    for knob, name in names.items():
        if not _TABLE.fullmatch(name):
            yield Broken(
                f"coordination.{knob}",
                f"is {name!r} ({len(name)} characters); allowed: 3 to 255 of A-Z a-z 0-9 _ . -; "
                "give this table a name, or the application a shorter one",
                also=("application",),
            )
        twins = [twin for twin in names if twin != knob and names[twin] == name]
        if twins:
            yield Broken(
                f"coordination.{knob}",
                f"is {name!r}, and so is coordination.{twins[0]}; allowed: a different table for each",
                also=(f"coordination.{twins[0]}", "application"),
            )


def _mode(settings: Settings) -> Iterator[Broken]:
    kcl = settings.kcl
    if kcl.mode is not Mode.OWN and kcl.heartbeat is not Heartbeat.LEASE:
        yield Broken(
            "kcl.heartbeat",
            f"is {kcl.heartbeat}; allowed with kcl.mode: {kcl.mode}: "
            "lease, else workers believe each other dead and take each other's leases",
            also=("kcl.mode",),
        )


# With it, a page of 10 MiB is followed by a pause of 50 s, which may begin just before a wave's time is
# over. A run counts as hung at the earliest a minute after that time.
_LEAST_SHARE = 0.1


def _fractions(settings: Settings) -> Iterator[Broken]:
    for key, value in (
        ("assignment.tolerance", settings.assignment.tolerance),
        ("wave.shard_share", settings.wave.shard_share),
        ("kcl.dampening", settings.kcl.dampening),
        ("kcl.ema_alpha", settings.kcl.ema_alpha),
    ):
        if not 0 < value <= 1:
            yield Broken(key, f"is {value}; allowed: a fraction, more than 0 and at most 1 (0.1)")
    share = settings.wave.shard_share
    # A share that is no fraction has its sentence already.
    if 0 < share < _LEAST_SHARE:
        yield Broken(
            "wave.shard_share",
            f"is {share}; allowed: {_LEAST_SHARE} to 1. After a page of 10 MiB, the largest, "
            "a run with a smaller share would pause for so long that it counts as hung",
        )
    most = settings.kcl.max_throughput_kbps
    if most is not None and most <= 0:
        yield Broken("kcl.max_throughput_kbps", f"is {most}; allowed: more than 0")
    if settings.kcl.max_utilisation > 100:
        yield Broken("kcl.max_utilisation", f"is {settings.kcl.max_utilisation}; allowed: 1 to 100 percent")


def _landing(settings: Settings) -> Iterator[Broken]:
    landing = settings.landing
    if not is_table_name(landing.table):
        yield Broken(
            "landing.table",
            f"is {landing.table!r}; allowed: a namespace and a name with a dot between them (lake.records), each of "
            "letters, digits, _ and -, and not beginning with -",
        )
    if landing.catalog and landing.state is None:
        yield Broken(
            "landing.state",
            "is missing, and with a catalog of your own it is needed: positions that outgrow a snapshot's summary go "
            "there. Allowed: a folder (s3://bucket/headrace-state) that every host reaches, outside the table's own",
            also=("landing.catalog",),
        )
    # Where the catalog puts the table isn't known before it is asked: both usual folders count.
    for table in _table_locations(landing):
        if landing.state is not None and _inside(landing.state, table):
            yield Broken(
                "landing.state",
                f"is {landing.state!r}, inside the table's own folder {table}, where a removal of orphan files "
                "would delete it; allowed: a folder beside the table or elsewhere",
                also=("landing.table", "landing.catalog", "landing.home"),
            )


def _table_locations(landing: LandingSettings) -> Iterator[str]:
    """The folders in a warehouse in which catalogs put a table: <namespace>/<table>, or Hive's
    <namespace>.db/<table>."""
    warehouse = landing.catalog.get("warehouse") if landing.catalog else f"{landing.home}/warehouse"
    if warehouse:
        *spaces, name = landing.table.split(".")
        yield f"{warehouse.rstrip('/')}/{'/'.join(spaces)}/{name}"
        yield f"{warehouse.rstrip('/')}/{'.'.join(spaces)}.db/{name}"


def _inside(path: str, folder: str) -> bool:
    # s3a: and s3n: are other names of s3:, and a path without a scheme is the same place as with file:.
    path, folder = (normpath(re.sub(r"^(?:file://|file:)|(?<=^s3)[an](?=:)", "", p)) for p in (path, folder))
    return path == folder or path.startswith(f"{folder}/")


# A commit may name files that were staged half a day ago (`pipeline/lake/table/lake_table.py`), and hosts' clocks
# differ.
_LEAST_ORPHANS_AFTER = timedelta(days=1)


_LEAST_RETENTION = timedelta(days=1)


def _upkeep(settings: Settings) -> Iterator[Broken]:
    after = settings.upkeep.orphans_after
    if after < _LEAST_ORPHANS_AFTER:
        yield Broken(
            "upkeep.orphans_after",
            f"is {show(after)}; allowed: {show(_LEAST_ORPHANS_AFTER)} or more, else files are deleted that "
            "a running query reads",
        )
    keep_runs = settings.upkeep.keep_runs
    if keep_runs < timedelta(hours=1):
        yield Broken(
            "upkeep.keep_runs",
            f"is {show(keep_runs)}; allowed: 1h or more, because the sensors go by what the last runs did",
        )
    retention = settings.upkeep.retention
    if retention is not None and retention < _LEAST_RETENTION:
        yield Broken(
            "upkeep.retention",
            f"is {show(retention)}; allowed: {show(_LEAST_RETENTION)} or more, because only whole days are removed",
        )


def _times(settings: Settings) -> Iterator[Broken]:
    times, wave = settings.times, settings.wave
    if times.lease_duration < 2 * times.worker_tick:
        yield Broken(
            "times.lease_duration",
            f"is {show(times.lease_duration)}; allowed: at least two worker ticks ({show(2 * times.worker_tick)}), "
            "else a living worker counts as dead",
            also=("times.worker_tick",),
        )
    if times.checkpoint < 2 * times.worker_tick:
        yield Broken(
            "times.checkpoint",
            f"is {show(times.checkpoint)}; allowed: at least two worker ticks ({show(2 * times.worker_tick)}), "
            "because a run looks at the rows that it keeps once in each tick",
            also=("times.worker_tick",),
        )
    if wave.every > times.linger:
        yield Broken(
            "wave.every",
            f"is {show(wave.every)}; allowed: at most times.linger ({show(times.linger)}), "
            "else no run ever has a second wave",
            also=("times.linger",),
        )
