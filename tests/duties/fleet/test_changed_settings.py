"""Each setting is changed between two starts of an application that has landed records.

`headrace.pipeline.settings.changes` says of each setting what happens then. A setting that is refused is changed here, and nothing may be
read or written. Each other one is changed, too, and the application has to go on: each record lands once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyiceberg.types import LongType, NestedField, StringType

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.kcl.layout import LayoutEvidence, plan_layout
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.settings.changes import CHANGES, Takes
from headrace.pipeline.settings.choices import Layout
from headrace.pipeline.settings.file import parse_settings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.values import knobs
from headrace.pipeline.typed.table import IcebergTyped
from tests.duties.two_streams import RETURNS
from tests.duties.world import STREAM, World
from tests.lake.samples import ORIGIN, a_key, a_landing
from tests.lake.tables import IcebergLake
from tests.memory.table import MemoryTable

KEYS = [key for key, _, _ in knobs(Settings, index="N")]
BASE: Mapping[str, Any] = {"application": "app", "streams": [{"name": STREAM}], "workers": [{"id": "w1"}]}
TARGET = {"name": "ids", "table": "lake.ids", "schema": "id BIGINT"}
PROCESSOR = {"name": "ids", "table": "lake.ids", "callable": "ids:rows"}
BY_ITSELF = {"name": "ids", "callable": "ids:Ids", "mode": "application", "application": "ids-app"}
MULTI = {"streams_mode": "multi"}
JOINED = {"kcl": {"failover": "20s", "heartbeat": "lease", "allow_foreign_checkpoints": True}}

ROLE = "arn:aws:iam::123456789012:role/reader"

CHANGED: Mapping[str, Any] = {
    "streams.0.external_id": "shop",
    "aws.kinesis.external_id": "shop",
    "aws.client": {"read_timeout": "3"},
    **{
        f"aws.{service}.{name}": value
        for service in ("dynamodb", "cloudwatch")
        for name, value in {
            "region": "us-west-2",
            "endpoint": "http://127.0.0.1:1",
            "profile": "tables",
            "role": ROLE,
            "external_id": "shop",
        }.items()
    },
    "application": "renamed",
    "dagster.key_prefix.0": "team",
    "streams.0.initial_position": "LATEST",
    "streams.0.timestamp": "2026-01-31T00:00:00Z",
    "streams.0.on_data_loss": "continue",
    "streams.0.retrieval": "fanout",
    "streams.0.consumer": "another",
    "discovery.prefix": "ord",
    "discovery.tags": {"team": "shop"},
    "discovery.tracker": "our_streams:streams",
    "hooks": "our_hooks:Hooks",
    "discovery.initial_position": "LATEST",
    "discovery.timestamp": "2026-01-31T00:00:00Z",
    "discovery.on_data_loss": "continue",
    "discovery.retrieval": "fanout",
    "discovery.consumer": "another",
    "former_streams": "auto",
    "former_streams_delete.0": RETURNS,
    "workers.0.id": "w2",
    "workers.0.spark.remote": "sc://elsewhere:15002",
    "workers.0.spark.master": "spark://elsewhere:7077",
    "workers.0.spark.conf": {"spark.executor.memory": "2g"},
    "coordination.lease_table": "app-leases",
    "coordination.worker_table": "app-workers",
    "coordination.state_table": "app-state",
    "coordination.create": "never",
    "coordination.billing": "PROVISIONED",
    "coordination.tags": {"team": "shop"},
    "assignment.strategy": "lease-count",
    "assignment.max_leases": 5,
    "assignment.tolerance": 0.2,
    "kcl.mode": "2.x",
    "kcl.failover": "20s",
    "kcl.beat": "process",
    "kcl.heartbeat": "lease",
    "kcl.allow_foreign_checkpoints": True,
    "kcl.max_throughput_kbps": 100.0,
    "kcl.max_utilisation": 80,
    "kcl.network_mbps": 100,
    "kcl.dampening": 0.5,
    "kcl.ema_alpha": 0.4,
    "landing.aggregates": "keep",
    "parse.0.name": "numbers",
    "parse.0.table": "lake.numbers",
    "parse.0.format": "avro",
    "parse.0.columns": "evolving",
    "parse.0.schemas": "schemas",
    "parse.0.compression": "auto",
    "parse.0.callable": "package.module:function",
    "parse.0.message": "package.Message",
    "parse.0.stream": STREAM,
    "parse.0.filter": "record IS NOT NULL",
    "parse.0.unique.by": "id",
    "parse.0.unique.within": "1h",
    "parse.0.latest.delete_when": "id = 1",
    "parse.0.version": "2",
    "parse.0.stop_above": 0.1,
    "processors.0.name": "numbers",
    "processors.0.callable": "ids:Ids",
    "processors.0.mode": "application",
    "processors.0.application": "numbers-app",
    "processors.0.consumer": "numbers-consumer",
    "processors.0.failover": "20s",
    "processors.0.beat": "process",
    "processors.0.leases": "2.x",
    "processors.0.command": "node ids.js",
    "processors.0.table": "lake.numbers",
    "processors.0.stream": STREAM,
    "processors.0.parallelism": 2,
    "processors.0.records": 100,
    "processors.0.limits.memory": 1 << 30,
    "processors.0.limits.cpu": "60s",
    "processors.0.on_error": "retry",
    "processors.0.as_amazon_kclpy": True,
    "processors.0.imports": "shared",
    "processors.0.version": "2",
    "upkeep.retention": "30d",
    "prices": "prices.toml",
    "dagster.group": "shop",
    "dagster.owners.0": "team:data",
    "dagster.tags": {"team": "shop"},
    "dagster.complete_from": "2026-01-31T00:00:00Z",
    "dagster.freshness.warn": "1h",
    "dagster.freshness.fail": "2h",
    "dagster.checks.proof": "1d",
    "dagster.checks.quarantined": 0.02,
    "dagster.backfill.by": "day",
    "dagster.backfill.since": "2026-01-31T00:00:00Z",
    "dagster.backfill.copies": True,
    "dagster.schedules.upkeep": "7 * * * *",
    "dagster.schedules.proof": "never",
    "dagster.pools": {"proof": "nightly"},
    "dagster.checks.blocking.0": "no_gaps",
    "wire": "json",
    "wave.shard_share": 0.5,
    "times.linger": "10m",
    "times.idle": "25s",
    "metrics.to": "cloudwatch",
    "metrics.namespace": "shop",
    "metrics.level": "DETAILED",
    "metrics.dimensions": "ShardId",
}
"""The new value of a setting. Of others, it is made of the default: twice the number or the time, or the other boolean."""
WITH: Mapping[str, Mapping[str, Any]] = {
    "streams.0.external_id": {"streams": [{"name": STREAM, "role": ROLE}]},
    **{
        f"aws.{service}.external_id": {"aws": {service: {"role": ROLE}}}
        for service in ("kinesis", "dynamodb", "cloudwatch")
    },
    "streams.0.consumer": {"streams": [{"name": STREAM, "retrieval": "fanout"}]},
    "discovery.consumer": {**MULTI, "discovery": {"retrieval": "fanout"}},
    "streams.0.timestamp": {"streams": [{"name": STREAM, "initial_position": "AT_TIMESTAMP"}]},
    "discovery.timestamp": {**MULTI, "discovery": {"initial_position": "AT_TIMESTAMP"}},
    "former_streams_delete.0": {**MULTI, "former_streams": "provided"},
    "dagster.backfill.by": {"dagster": {"backfill": {"since": "2026-01-01T00:00:00Z"}}},
    "dagster.backfill.since": {"dagster": {"backfill": {"by": "hour"}}},
    "dagster.backfill.copies": {"dagster": {"backfill": {"by": "hour", "since": "2026-01-01T00:00:00Z"}}},
    "dagster.freshness.warn": {"dagster": {"freshness": {"fail": "2h"}}},
    "kcl.mode": {"kcl": {"heartbeat": "lease"}},
    "kcl.failover": JOINED,
    "kcl.allow_foreign_checkpoints": JOINED,
    "kcl.beat": JOINED,
    "processors.0.mode": {"processors": [BY_ITSELF]},
    "processors.0.application": {"processors": [BY_ITSELF]},
    "processors.0.consumer": {
        "streams": [{"name": STREAM, "retrieval": "fanout", "consumer": "landing"}],
        "processors": [BY_ITSELF],
    },
    "processors.0.failover": {"processors": [BY_ITSELF]},
    "processors.0.beat": {"processors": [{**BY_ITSELF, "failover": "20s"}]},
    "processors.0.leases": {"processors": [BY_ITSELF]},
    "processors.0.imports": {"processors": [BY_ITSELF]},
    "parse.0.format": {
        "parse": [
            {
                **TARGET,
                "schema": '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}',
            }
        ]
    },
    "parse.0.schemas": {
        "parse": [
            {
                **TARGET,
                "format": "avro-confluent",
                "schema": '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}',
            }
        ]
    },
    "parse.0.callable": {"parse": [{**TARGET, "format": "callable"}]},
    "parse.0.message": {"parse": [{**TARGET, "format": "protobuf", "schema": "orders.desc"}]},
    "parse.0.unique.by": {"parse": [{**TARGET, "unique": {"within": "1h"}}]},
    "parse.0.unique.within": {"parse": [{**TARGET, "unique": {"by": "id"}}]},
    "parse.0.latest.delete_when": {"parse": [{**TARGET, "into": "latest", "latest": {}}]},
    "processors.0.command": {"processors": [{**PROCESSOR, "callable": None}]},
}
"""What the new value needs beside it. It is only in the settings of the second start."""


def merged(one: Any, two: Any) -> Any:
    if isinstance(one, dict) and isinstance(two, dict):
        return one | {key: merged(one.get(key), value) for key, value in two.items()}
    return deepcopy(two)


def with_value(values: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """These settings with another value of one of them."""
    at: Any = values
    *path, last = [int(name) if name.isdigit() else name for name in key.split(".")]
    for name, following in pairwise([*path, last]):
        if isinstance(name, str) and name not in at:
            at[name] = [] if isinstance(following, int) else {}
        at = at[name]
    if isinstance(last, int):
        at.append(value)
    else:
        at[last] = value
    return values


def settings_of(values: Mapping[str, Any]) -> Settings:
    return parse_settings(yaml.safe_dump(dict(values)), {}, name="headrace.yaml").settings


def around(key: str) -> Any:
    """The settings that the change of this one needs at both starts."""
    if key.startswith("parse."):
        return merged(dict(BASE), {"parse": [TARGET]})
    if key.startswith("processors."):
        return merged(dict(BASE), {"processors": [PROCESSOR]})
    if key.startswith(("discovery.", "former_streams")):
        return merged(dict(BASE), MULTI)
    return deepcopy(dict(BASE))


def value_after(key: str, before: Settings) -> Any:
    if key in CHANGED:
        return CHANGED[key]
    value: Any = before
    for name in key.split("."):
        value = value[int(name)] if name.isdigit() else getattr(value, name)
    if isinstance(value, bool):
        return not value
    if isinstance(value, timedelta):
        return f"{int(value.total_seconds()) * 2}s"
    assert isinstance(value, int), f"{key} needs a line in CHANGED"
    return value * 2


def restart(world: World, settings: Settings) -> None:
    world.settings = settings
    world.workers = tuple(worker.id for worker in settings.workers)
    world.leader_memory = {name: LeaderMemory() for name in world.leader_memory}
    world.worker_memory = {name: WorkerMemory() for name in world.worker_memory}


def a_started_application(settings: Settings) -> World:
    world = World()
    world.source.create_stream(RETURNS, 2)
    restart(world, settings)
    world.settle()
    world.produce(0)
    world.wave(run="first")
    return world


def test_each_setting_has_a_line_and_no_line_is_of_a_setting_that_is_gone():
    assert list(CHANGES) == KEYS


@pytest.mark.parametrize(
    "key",
    [key.replace(".N", ".0") for key in KEYS if key in CHANGES and CHANGES[key].takes is not Takes.REFUSED],
)
def test_after_the_change_the_application_goes_on_and_each_record_lands_once(key: str):
    values = around(key)
    before = settings_of(values)
    after = settings_of(with_value(merged(values, WITH.get(key, {})), key, value_after(key, before)))
    assert after != before
    world = a_started_application(before)
    if key in {"application", "coordination.lease_table"}:
        # The application has other tables in DynamoDB from now on.
        world.leases, world.rows, world.lock = (
            getattr(World(clock=world.clock), name) for name in ("leases", "rows", "lock")
        )
    world.clock.advance(timedelta(minutes=3))  # a worker that is gone counts as dead
    restart(world, after)
    world.produce(1)
    for n in range(3):
        world.settle()
        world.clock.advance(timedelta(minutes=1))
        world.wave(world.workers[0], run=f"after-{n}")
    world.check()


# -- what is refused -----------------------------------------------------------------------------------------------


def refused_by_the_leader(change: Callable[[World], None]) -> str:
    """What the leader says. Nothing is written."""
    world = a_started_application(settings_of(BASE))
    change(world)
    restart(world, world.settings)
    rows, commits = world.leases.scan(), len(world.table.snapshots)
    try:
        report = world.lead()
        said = str(report.trouble)
    except HeadraceError as error:
        said = str(error)
    assert (world.leases.scan(), len(world.table.snapshots)) == (rows, commits)
    return said


def _with(key: str, value: Any) -> Callable[[World], None]:
    return lambda world: restart(world, settings_of(with_value(deepcopy(dict(BASE)), key, value)))


def _in_another_place(world: World) -> None:
    world.table = MemoryTable(world.clock)
    world.table.is_there = False


def _in_an_empty_table(world: World) -> None:
    world.table = MemoryTable(world.clock)


def _elsewhere(arn: str) -> Callable[[World], None]:
    def change(world: World) -> None:
        describe = world.source.describe

        def there(name: str) -> StreamFacts:
            return replace(describe(name), stream=StreamId(arn, world.stream.epoch + 7))

        world.source.describe = there  # type: ignore[method-assign]

    return change


REFUSED: dict[str, tuple[Callable[[World], None], str]] = {
    "streams.N.name": (
        _with("streams.0.name", RETURNS),
        "the settings name the stream returns, but the lease rows",
    ),
    "streams_mode": (
        _with("streams_mode", "multi"),
        "streams_mode is multi, but the application's 2 lease rows",
    ),
    "landing.table": (_in_another_place, "landing.table, landing.catalog or landing.home was changed"),
    "landing.catalog": (_in_an_empty_table, "the table was replaced"),
    "landing.home": (_in_another_place, "landing.table, landing.catalog or landing.home was changed"),
    "aws.region": (
        _elsewhere("arn:aws:kinesis:us-west-2:123456789012:stream/orders"),
        "Set aws.region, aws.profile, aws.endpoint",
    ),
    "aws.profile": (
        _elsewhere("arn:aws:kinesis:us-east-1:210987654321:stream/orders"),
        "Set aws.region, aws.profile, aws.endpoint",
    ),
    "aws.endpoint": (
        _elsewhere("arn:aws:kinesis:us-east-1:000000000000:stream/orders"),
        "Set aws.region, aws.profile, aws.endpoint",
    ),
}
for key, common in {
    "aws.kinesis.region": "aws.region",
    "aws.kinesis.profile": "aws.profile",
    "aws.kinesis.role": "aws.profile",
    "aws.kinesis.endpoint": "aws.endpoint",
    "streams.N.role": "aws.profile",
}.items():
    REFUSED[key] = REFUSED[common]
ELSEWHERE = {
    *("kcl.layout", "landing.state", "parse.N.schema", "parse.N.into", "parse.N.latest.key"),
    "processors.N.schema",
}
"""These are refused by a table's own code, in the tests below, in `tests/processors`, `tests/typed/latest` and
`tests/settings`."""


def test_each_refused_setting_is_changed_here():
    refused = {key for key, change in CHANGES.items() if change.takes is Takes.REFUSED}
    assert refused == REFUSED.keys() | ELSEWHERE
    assert refused.isdisjoint(CHANGED)


@pytest.mark.parametrize("key", REFUSED)
def test_the_change_is_refused_with_a_sentence_and_nothing_is_written(key: str):
    change, sentence = REFUSED[key]
    assert sentence in refused_by_the_leader(change)


def test_the_other_layout_is_refused():
    found = LayoutEvidence(
        lease_table="app", state_table="app-CoordinatorState", has_state_table=True, has_worker_table=True
    )
    with pytest.raises(HeadraceError, match=r"kcl.layout is S, but the application has layout M already"):
        plan_layout(found, Layout.S)


def test_another_folder_for_large_positions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "headrace.pipeline.lake.table.summary.LIMIT", 10
    )  # so that the positions of one shard are large
    lake = IcebergLake(tmp_path)
    lake.iceberg.commit(ORIGIN)
    lake.iceberg.commit(a_landing(lake.iceberg.staging_spec(), a_key(), after=None, numbers=[1]))
    (tmp_path / "state").rename(tmp_path / "moved")
    with pytest.raises(
        HeadraceError, match=r"or landing.state was changed. Nothing was committed; set landing.state back"
    ):
        lake.handle().load()
    with pytest.raises(HeadraceError, match=r"landing.state was changed"):
        lake.handle().commit(
            Proposal(ranges=a_landing(lake.iceberg.staging_spec(), a_key(), after=1, numbers=[2]).ranges)
        )


def test_a_type_into_which_a_column_cant_be_widened_is_refused(tmp_path: Path):
    lake = IcebergLake(tmp_path)
    typed = IcebergTyped(lake.properties, "lake.ids", state=str(tmp_path / "state"), clock=lake.clock)
    typed.ensure(create=True)
    typed.with_columns([NestedField(1, "id", LongType())])
    snapshots = len(typed.open().metadata.schemas)
    with pytest.raises(HeadraceError, match="the column id"):
        typed.with_columns([NestedField(1, "id", StringType())])
    assert len(typed.open().metadata.schemas) == snapshots
