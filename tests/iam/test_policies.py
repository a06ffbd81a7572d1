"""Each role's policy allows what its duties ask for, and has nothing that none of them asks for."""

from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.app.wiring import NoDagster
from headrace.pipeline.console.wiring import console_of, of_settings
from headrace.pipeline.core.landing import expiry_plan
from headrace.pipeline.duties.waves import expire
from headrace.pipeline.iam.roles import Role
from headrace.pipeline.lake.spark.session import DISCOVERY
from headrace.pipeline.lake.table import summary
from headrace.pipeline.local.endpoint import local_aws
from tests.iam.roles_at_work import RolesAtWork
from tests.spark import SparkServer

ALONE = """
application: shop
streams: [{name: orders}]
workers: [{id: w1}]
landing:
  table: lake.orders
  catalog: {type: glue, warehouse: "s3://my-lake/warehouse"}
  state: "s3://my-lake/state"
parse: [{name: typed, table: lake.typed, format: json, schema: "id BIGINT"}]
upkeep: {keep_snapshots: 1, keep_for: 1h, orphans_after: 1d, compact: false, retention: 30d}
times: {idle: 1s}
wave: {every: 1s}
metrics: {to: cloudwatch}
"""
BESIDE_KCL = """
application: many
streams_mode: multi
discovery: {prefix: found-, tags: {team: shop}, initial_position: LATEST, retrieval: fanout, consumer: many-headrace}
workers: [{id: w1}, {id: w2}]
landing: {home: lake}
coordination: {point_in_time_recovery: true, tags: {team: shop}}
kcl: {failover: 20s, heartbeat: lease, allow_foreign_checkpoints: true}
"""

ROLES = [role for role in Role if role is not Role.MIGRATE]
"""`test_migrate_role` drives the migrations, which need no Spark."""
NEEDED_FOR_A_TRUE_ANSWER = {"s3:ListBucket"}
"""Without it S3 answers *forbidden* where an object doesn't exist, also to somebody who never lists anything."""


pytestmark = pytest.mark.slow  # Minutes beside other work: a whole application, with Spark.


@dataclass(frozen=True)
class Seen:
    """What a role asked for while its duties were done, and what its policies allow."""

    asked: frozenset[tuple[str, str]]
    statements: tuple[dict[str, Any], ...]


@pytest.fixture(scope="module")
def seen(spark_server: SparkServer, tmp_path_factory: pytest.TempPathFactory) -> dict[Role, Seen]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DISCOVERY, str(spark_server.discovery))
        patch.delenv("DAGSTER_HOME", raising=False)
        every = [
            _work(tmp_path_factory.mktemp("alone"), ALONE, patch),
            _work(tmp_path_factory.mktemp("kcl"), BESIDE_KCL, patch),
        ]
    return {
        role: Seen(
            frozenset().union(*(asked[role] for asked, _ in every)),
            tuple(statement for _, policies in every for statement in policies[role]["Statement"]),
        )
        for role in ROLES
    }


def _work(folder: Path, yaml: str, patch: pytest.MonkeyPatch) -> tuple[dict[Role, Any], dict[Role, Any]]:
    with local_aws("--transition", "0") as aws:
        patch.chdir(folder)
        work = RolesAtWork(aws, folder, patch, yaml)
        try:
            (_alone if yaml is ALONE else _beside_kcl)(work)
        finally:
            work.close()
        asked = dict(work.asked())
        return asked, {role: work.policy(role) if asked[role] else {"Statement": []} for role in Role}


def _alone(work: RolesAtWork) -> None:
    # So that a few commits have what a thousand would: snapshots that are due, and positions too large for a summary.
    work.patch.setattr(expiry_plan, "AT_LEAST", 1)
    work.patch.setattr(expire, "AT_LEAST", 1)
    work.patch.setattr(expire, "_LEADER_LATE", 1)
    work.patch.setattr(summary, "LIMIT", 16)
    work.aws.client("s3").create_bucket(Bucket="my-lake")
    kinesis = work.aws.client("kinesis")
    kinesis.create_stream(StreamName="orders", ShardCount=2)
    _put(kinesis, "orders")
    work.ticks(5)
    _read_and_parse(work)
    shard = f"shardId-{0:012d}"
    kinesis.split_shard(StreamName="orders", ShardToSplit=shard, NewStartingHashKey=str(2**126))
    _put(kinesis, "orders")
    work.ticks(5)
    _read_and_parse(work)
    work.command(Role.WORKER, "redrive", "--target", "typed")
    work.command(Role.WORKER, "window", "create", "--from", "2020-01-01", "--to", "2099-01-01")
    [kept] = work.wirings[Role.READER].ports.windows().all()
    work.command(Role.WORKER, "window", "run", kept.window.id)
    work.command(Role.WORKER, "lineage", "--rebuild")
    _only_looks(work, "window", "list")
    work.command(Role.READER, "prove")
    _upkeep_of_days(work)


def _read_and_parse(work: RolesAtWork) -> None:
    with work.as_role(Role.WORKER) as wiring:
        reading = wiring.reading("run", NoDagster(), on_wave=lambda _: None, on_waiting=lambda _: None)
        ending = reading.everything_due("w1")
        assert (ending.failed, ending.error) == ({}, None)
        assert list(wiring.targets.parsing(work.settings.parse[0], "run").waves())


def _leave_a_file_without_a_name(work: RolesAtWork) -> None:
    """As a run does that is killed before its commit."""
    s3 = work.aws.client("s3")
    stored = s3.list_objects_v2(Bucket="my-lake", Prefix="warehouse/lake.db/orders/data/")["Contents"]
    key = next(each["Key"] for each in stored if each["Key"].endswith(".parquet"))
    stem = key.removesuffix(".parquet")
    beside = f"{stem[:-1]}{'0' if stem[-1] != '0' else '1'}.parquet"
    s3.copy_object(Bucket="my-lake", CopySource={"Bucket": "my-lake", "Key": key}, Key=beside)


def _upkeep_of_days(work: RolesAtWork) -> None:
    # From here on only what goes by the moved clock works: a command would find this host's clock far behind AWS's.
    work.advance(timedelta(hours=2))
    work.ticks(5)
    _upkeep(work)
    _put(work.aws.client("kinesis"), "orders")
    work.ticks(5)
    _read_and_parse(work)
    _leave_a_file_without_a_name(work)
    for period in (timedelta(hours=8), *[timedelta(days=2)] * 3):
        work.advance(period)
        work.ticks(5)
        _upkeep(work)


def _upkeep(work: RolesAtWork) -> None:
    with work.as_role(Role.UPKEEP) as wiring:
        report = wiring.upkeep.run()
        assert not report.troubles, report.troubles


def _beside_kcl(work: RolesAtWork) -> None:
    kinesis = work.aws.client("kinesis")
    kinesis.create_stream(StreamName="found-1", ShardCount=2)
    kinesis.add_tags_to_stream(StreamName="found-1", Tags={"team": "shop"})
    work.ticks(6)
    _only_looks(work, "stop", "--help")


def _only_looks(work: RolesAtWork, *more: str) -> None:
    for words in (("status",), ("plan", "--for", "1ms"), ("tables", "describe")):
        work.command(Role.READER, *words)
    if "catalog" in work.yaml:
        work.command(Role.READER, *more)
        work.command(Role.READER, "lineage")
    _look_at_the_console(work)


def _look_at_the_console(work: RolesAtWork) -> None:
    with work.as_role(Role.READER):
        console = console_of(of_settings(work.settings))
        report = console.watch.report(at_once=True)
        assert report.trouble is None
        assert report.picture is not None
        assert not [stream.trouble for stream in report.picture.streams if stream.trouble]
        for lease in report.leases:
            assert console.shard(lease.key) is not None


def _put(kinesis: Any, stream: str) -> None:
    for n in range(20):
        data = b"no json" if n == 0 else b'{"id": %d}' % n
        kinesis.put_record(StreamName=stream, Data=data, PartitionKey=str(n))


@pytest.mark.parametrize("role", ROLES)
def test_a_policy_allows_each_call_of_its_role(seen: dict[Role, Seen], role: Role):
    def is_allowed(action: str, resource: str) -> bool:
        return any(
            action in statement["Action"]
            and any(fnmatchcase(resource, each) for each in statement["Resource"])
            for statement in seen[role].statements
        )

    assert [asked for asked in sorted(seen[role].asked) if not is_allowed(*asked)] == []


@pytest.mark.parametrize("role", ROLES)
def test_a_policy_has_no_action_that_its_role_doesnt_call(seen: dict[Role, Seen], role: Role):
    allowed = {
        action for each in seen[role].statements for action in each["Action"]
    } - NEEDED_FOR_A_TRUE_ANSWER
    assert sorted(allowed - {action for action, _ in seen[role].asked}) == []


@pytest.mark.parametrize("role", ROLES)
def test_a_policy_has_no_resource_that_its_role_doesnt_reach(seen: dict[Role, Seen], role: Role):
    def is_reached(statement: dict[str, Any], pattern: str) -> bool:
        return any(
            action in statement["Action"] and fnmatchcase(resource, pattern)
            for action, resource in seen[role].asked
        )

    assert [
        (statement["Sid"], pattern)
        for statement in seen[role].statements
        if set(statement["Action"]) != NEEDED_FOR_A_TRUE_ANSWER
        for pattern in statement["Resource"]
        if not is_reached(statement, pattern)
    ] == []
