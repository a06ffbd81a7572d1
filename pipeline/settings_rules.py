"""What knobs mean to each other: rules that one knob's type can't say. Pure; the first broken rule is told."""

import re
from collections.abc import Iterator
from datetime import timedelta
from posixpath import normpath
from typing import NamedTuple

from pipeline.settings import DiscoverySettings, LandingSettings, Settings, StreamSettings, WorkerSettings
from pipeline.settings_choices import FormerStreams, Heartbeat, InitialPosition, Mode, Wire
from pipeline.settings_values import show


class Broken(NamedTuple):
    key: str
    why: str
    """The rest of a sentence that begins with the key."""


_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")  # DynamoDB's rule
_STREAM = re.compile(
    r"(?:arn:aws[a-z-]*:kinesis:(?P<region>[a-z0-9-]+):[0-9]{12}:stream/)?[A-Za-z0-9_.-]{1,128}"
)
_PREFIX = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_WORKER = re.compile(r"[^\s,/]+")
_TAKEN = frozenset({"Leader", "Migration3.0", "TableMigration3.5"})
"""Keys of KCL's own rows, which share a table with the workers' rows in layout S."""
_SENSOR_LIMIT = timedelta(seconds=60)  # Dagster fails a longer tick and starts a second one beside it


def broken_rules(settings: Settings) -> Iterator[Broken]:
    for rule in (
        _streams,
        _discovery,
        _former,
        _workers,
        _tables,
        _aws,
        _not_built,
        _mode,
        _assignment,
        _metrics,
        _shared,
        _landing,
        _times,
        _deadline,
    ):
        yield from rule(settings)


def _streams(settings: Settings) -> Iterator[Broken]:
    if not settings.streams and not settings.discovery.is_asked_for:
        yield Broken("streams", "is missing or empty; allowed: one stream or more (- name: my-stream)")
    if len(settings.streams) > 1 and not settings.multi:
        yield Broken(
            "streams",
            f"has {len(settings.streams)} entries, and streams_mode is single: keep one and give each other stream an "
            "application of its own, or begin a new application with streams_mode: multi",
        )
    names = [_bare_name(stream.name) for stream in settings.streams]
    for n, stream in enumerate(settings.streams):
        yield from _stream(stream, f"streams.{n}", region=settings.aws.region)
        if names[n] in names[:n]:
            first = f"streams.{names.index(names[n])}"
            yield Broken(
                f"streams.{n}.name",
                f"is {stream.name!r}, which {first} names already; allowed: each stream's name once, also where the "
                "accounts differ: rows of the table tell streams apart by it",
            )


def _bare_name(name_or_arn: str) -> str:
    return name_or_arn.rpartition("/")[2]


def _discovery(settings: Settings) -> Iterator[Broken]:
    found = settings.discovery
    if found.is_asked_for and not settings.multi:
        yield Broken("discovery", "is given, but streams_mode is single: it needs streams_mode: multi")
    if found.prefix is not None and not _PREFIX.fullmatch(found.prefix):
        yield Broken("discovery.prefix", f"is {found.prefix!r}; allowed: 1 to 128 of A-Z a-z 0-9 _ . -")
    yield from _start(found, "discovery")


def _former(settings: Settings) -> Iterator[Broken]:
    how, names = settings.former_streams, settings.former_streams_delete
    if how is not FormerStreams.KEEP and not settings.multi:
        yield Broken("former_streams", f"is {how}, but streams_mode is single: it needs streams_mode: multi")
    if names and how is not FormerStreams.PROVIDED:
        yield Broken(
            "former_streams_delete",
            f"is given, but former_streams is {how}: remove it, or say former_streams: provided",
        )
    for n, name in enumerate(names):
        if not _PREFIX.fullmatch(name):
            yield Broken(f"former_streams_delete.{n}", f"is {name!r}; allowed: the name of a stream")


def _stream(stream: StreamSettings, key: str, *, region: str | None) -> Iterator[Broken]:
    match = _STREAM.fullmatch(stream.name)
    if not match:
        yield Broken(
            f"{key}.name",
            f"is {stream.name!r}; allowed: 1 to 128 of A-Z a-z 0-9 _ . - or a stream's ARN "
            "(arn:aws:kinesis:<region>:<account>:stream/<name>)",
        )
    elif match["region"] and region and match["region"] != region:
        yield Broken(
            f"{key}.name",
            f"is in {match['region']} by its ARN, but aws.region is {region}: make them agree",
        )
    yield from _start(stream, key)


def _start(stream: StreamSettings | DiscoverySettings, key: str) -> Iterator[Broken]:
    at_timestamp = stream.initial_position is InitialPosition.AT_TIMESTAMP
    if at_timestamp and stream.timestamp is None:
        yield Broken(f"{key}.timestamp", "is missing, and AT_TIMESTAMP needs it (2026-01-31T00:00:00Z)")
    if stream.timestamp is not None and not at_timestamp:
        yield Broken(
            f"{key}.timestamp",
            f"is given, but initial_position is {stream.initial_position}: "
            "remove it, or start with initial_position: AT_TIMESTAMP",
        )


def _workers(settings: Settings) -> Iterator[Broken]:
    if not settings.workers:
        yield Broken(
            "workers",
            "is an empty list; allowed: one worker or more, or leave it out for one that is called w1",
        )
    ids = [worker.id for worker in settings.workers]
    for n, worker in enumerate(settings.workers):
        if worker.id in ids[:n]:
            yield Broken(f"workers.{n}.id", f"is {worker.id!r} like another worker's; allowed: each id once")
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
                f"is {name!r} ({len(name)} signs); allowed: 3 to 255 of A-Z a-z 0-9 _ . -; "
                "give this table a name, or the application a shorter one",
            )
        twins = [other for other in names if other != knob and names[other] == name]
        if twins:
            yield Broken(
                f"coordination.{knob}",
                f"is {name!r} like coordination.{twins[0]}; allowed: a table for each",
            )


def _aws(settings: Settings) -> Iterator[Broken]:
    endpoint = settings.aws.endpoint
    if endpoint and not re.match(r"https?://[^/]", endpoint):
        yield Broken("aws.endpoint", f"is {endpoint!r}; allowed: http://host:port or https://host:port")


def _not_built(settings: Settings) -> Iterator[Broken]:
    if settings.aws.wire is Wire.CBOR:
        yield Broken("aws.wire", "is cbor, which isn't built yet; allowed: json")


def _mode(settings: Settings) -> Iterator[Broken]:
    kept = settings.coordination
    if kept.mode is Mode.KCL_2 and kept.heartbeat is not Heartbeat.LEASE:
        yield Broken(
            "coordination.heartbeat",
            f"is {kept.heartbeat}; allowed with coordination.mode: 2.x: lease, else all workers take each other's leases",
        )


def _assignment(settings: Settings) -> Iterator[Broken]:
    assignment = settings.assignment
    for knob, value in (
        ("tolerance", assignment.tolerance),
        ("dampening", assignment.dampening),
        ("ema_alpha", assignment.ema_alpha),
    ):
        if not 0 < value <= 1:
            yield Broken(
                f"assignment.{knob}", f"is {value}; allowed: a fraction, more than 0 and at most 1 (0.1)"
            )
    most = assignment.max_throughput_kbps
    if most is not None and most <= 0:
        yield Broken("assignment.max_throughput_kbps", f"is {most}; allowed: more than 0")


def _metrics(settings: Settings) -> Iterator[Broken]:
    most = settings.metrics.max_utilisation
    if most > 100:
        yield Broken("metrics.max_utilisation", f"is {most}; allowed: 1 to 100 percent")


_LEAST_FAILOVER = timedelta(seconds=20)
"""Below it a KCL worker's leases expire within a few of our ticks."""
_MOST_FAILOVER = timedelta(hours=1)


def _shared(settings: Settings) -> Iterator[Broken]:
    kept, times = settings.coordination, settings.times
    if kept.kcl_failover is None:
        if kept.allow_foreign_checkpoints:
            yield Broken(
                "coordination.allow_foreign_checkpoints",
                "is true, but coordination.kcl_failover is missing; allowed with it only: it says how often the fleet's "
                "leases must beat",
            )
        return
    if kept.kcl_failover < _LEAST_FAILOVER:
        yield Broken(
            "coordination.kcl_failover",
            f"is {show(kept.kcl_failover)}; allowed: {show(_LEAST_FAILOVER)} or more: set the fleet's failoverTimeMillis to "
            f"{_LEAST_FAILOVER // timedelta(milliseconds=1)} or more first",
        )
    if kept.kcl_failover > _MOST_FAILOVER:
        yield Broken(
            "coordination.kcl_failover",
            f"is {show(kept.kcl_failover)}; allowed: {show(_MOST_FAILOVER)} or less. KCL's failoverTimeMillis is in milliseconds: "
            "write 30s for its 30000",
        )
    if kept.heartbeat is not Heartbeat.LEASE:
        yield Broken(
            "coordination.heartbeat",
            f"is {kept.heartbeat}; allowed beside KCL's workers: lease, else they take our leases for dead",
        )
    if not kept.allow_foreign_checkpoints:
        yield Broken(
            "coordination.allow_foreign_checkpoints",
            "is false; allowed beside KCL's workers: true. What they read isn't in the lake table, and the ledger says so",
        )
    if 2 * times.worker_tick > kept.kcl_failover:
        yield Broken(
            "times.worker_tick",
            f"is {show(times.worker_tick)}; allowed: at most half of coordination.kcl_failover ({show(kept.kcl_failover)})",
        )
    if times.lease_duration < kept.kcl_failover:
        yield Broken(
            "times.lease_duration",
            f"is {show(times.lease_duration)}; allowed: coordination.kcl_failover ({show(kept.kcl_failover)}) or more, else "
            "living workers of KCL count as dead",
        )


def _landing(settings: Settings) -> Iterator[Broken]:
    landing = settings.landing
    if len(landing.table.split(".")) < 2 or not all(part.strip() for part in landing.table.split(".")):
        yield Broken(
            "landing.table",
            f"is {landing.table!r}; allowed: a namespace and a name with a dot between them (lake.records)",
        )
    if landing.catalog and landing.state is None:
        yield Broken(
            "landing.state",
            "is missing, and with a catalog of your own it is needed: positions that outgrow a snapshot's summary go "
            "there. Allowed: a folder (s3://bucket/headrace-state) that every host reaches, outside the table's own",
        )
    for table in _table_locations(landing):
        if landing.state is not None and _inside(landing.state, table):
            yield Broken(
                "landing.state",
                f"is {landing.state!r}, inside the table's own folder {table}, where removers of orphan files would "
                "delete it; allowed: a folder beside the table or elsewhere",
            )


def _table_locations(landing: LandingSettings) -> Iterator[str]:
    """Where catalogs put a table in a warehouse: <namespace>/<table>, or Hive's <namespace>.db/<table>."""
    warehouse = landing.catalog.get("warehouse") if landing.catalog else f"{landing.home}/warehouse"
    if warehouse:
        *spaces, name = landing.table.split(".")
        yield f"{warehouse.rstrip('/')}/{'/'.join(spaces)}/{name}"
        yield f"{warehouse.rstrip('/')}/{'.'.join(spaces)}.db/{name}"


def _inside(path: str, folder: str) -> bool:
    path, folder = (normpath(re.sub(r"^(?:file://|file:)|(?<=^s3)[an](?=:)", "", p)) for p in (path, folder))
    return path == folder or path.startswith(f"{folder}/")


def _times(settings: Settings) -> Iterator[Broken]:
    times, wave = settings.times, settings.wave
    if times.lease_duration < 2 * times.worker_tick:
        yield Broken(
            "times.lease_duration",
            f"is {show(times.lease_duration)}; allowed: at least two worker ticks ({show(2 * times.worker_tick)}), "
            "else a living worker counts as dead",
        )
    if times.leader_lock <= 2 * times.leader_tick:
        yield Broken(
            "times.leader_lock",
            f"is {show(times.leader_lock)}; allowed: more than two leader ticks ({show(2 * times.leader_tick)}), "
            "else leaders come and go",
        )
    if wave.seconds >= times.hung_after:
        yield Broken(
            "wave.seconds",
            f"is {show(wave.seconds)}; allowed: less than times.hung_after ({show(times.hung_after)}), "
            "else a healthy wave counts as hung",
        )
    if wave.every > times.linger:
        yield Broken(
            "wave.every",
            f"is {show(wave.every)}; allowed: at most times.linger ({show(times.linger)}), "
            "else no run ever has a second wave",
        )


def _deadline(settings: Settings) -> Iterator[Broken]:
    deadline = settings.times.leader_deadline
    if deadline >= _SENSOR_LIMIT:
        yield Broken(
            "times.leader_deadline",
            f"is {show(deadline)}; allowed: less than {show(_SENSOR_LIMIT)}, at which Dagster gives a tick up",
        )
