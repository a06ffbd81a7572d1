"""What `headrace doctor` finds in AWS, at an application of the stand-in."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.core.landing.applications import LandedBy
from headrace.pipeline.core.landing.expiry_plan import Shape
from headrace.pipeline.doctor.case import Case, LiveCase
from headrace.pipeline.doctor.checks import live_diagnoses_of
from headrace.pipeline.doctor.consumers import consumers_are_active
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health
from headrace.pipeline.doctor.invariants import commit_findings
from headrace.pipeline.doctor.upkeep import upkeep_findings
from headrace.pipeline.iam.roles import Role
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.settings.file import parse_settings
from headrace.pipeline.settings.model import Settings
from tests.iam.roles_at_work import RolesAtWork

YAML = """
application: shop
streams: [{name: orders}]
workers: [{id: w1}]
landing: {home: lake}
"""
SHARD = "shardId-000000000000"


@pytest.fixture(scope="module")
def served() -> Iterator[LocalAws]:
    with local_aws("--transition", "0") as aws:
        yield aws


@pytest.fixture
def work(served: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RolesAtWork]:
    """An application at rest, whose leases are assigned."""
    served.reset()
    monkeypatch.chdir(tmp_path)
    served.client("kinesis").create_stream(StreamName="orders", ShardCount=2)
    work = RolesAtWork(served, tmp_path, monkeypatch, YAML)
    work.ticks(5)
    yield work
    work.close()


def found(work: RolesAtWork, role: Role | None = None, **case: Any) -> list[Diagnosis]:
    loaded = Case.of(str(work.folder / "headrace.yaml"), {})
    with work.as_role(role) if role else pytest.MonkeyPatch.context():
        wiring = work.wirings[role or Role.LEADER]
        return list(live_diagnoses_of(LiveCase(replace(loaded, **case), work.settings, wiring.ports)))


def ill(diagnoses: list[Diagnosis]) -> list[Diagnosis]:
    return [each for each in diagnoses if each.health is Health.ILL]


def rows(work: RolesAtWork, table: str = "shop") -> list[Any]:
    return sorted(work.aws.client("dynamodb").scan(TableName=table)["Items"], key=str)


def test_an_application_without_trouble_is_well_and_stays_as_it_was(work: RolesAtWork):
    tables = ("shop", "shop-WorkerMetricStats", "shop-CoordinatorState")
    before = [rows(work, table) for table in tables]
    diagnoses = found(work, roles=tuple(Role))
    assert ill(diagnoses) == []
    assert "orders is there; it keeps records for 24 h" in {each.sentence for each in diagnoses}
    assert {each.check for each in diagnoses} >= {
        "streams", "clock", "rights", "coordination tables", "workers and leader", "leases and shards", "lake table", "upkeep",
    }  # fmt: skip
    assert [rows(work, table) for table in tables] == before


def test_a_right_that_is_missing_is_named_with_the_role_that_needs_it(work: RolesAtWork):
    diagnoses = found(work, Role.READER, roles=(Role.READER, Role.WORKER))
    [refused] = [each for each in ill(diagnoses) if each.check == "rights"]
    assert refused.sentence.startswith("worker: AWS refuses dynamodb:PutItem on shop, shop-WorkerMetricStats")
    assert "dynamodb:Query on shop/index/" in refused.sentence
    assert "kinesis:GetShardIterator on orders" in refused.sentence
    # Without an iterator nothing shows whether records may be read.
    assert "kinesis:GetRecords" in refused.sentence.partition("; not tried: ")[2]
    assert "headrace iam --role worker" in refused.advice


@pytest.mark.parametrize(("seconds", "health"), [(0, Health.WELL), (-12, Health.NOTE), (45, Health.ILL)])
def test_a_clock_that_is_off_is_told_before_commits_are_refused(
    work: RolesAtWork, seconds: int, health: Health
):
    work.clock.ahead += timedelta(seconds=seconds)
    [clock] = [each for each in found(work) if each.check == "clock"]
    assert clock.health is health, clock.sentence


def test_an_open_shard_without_a_lease_and_an_open_lease_without_a_shard_are_told(work: RolesAtWork):
    dynamodb = work.aws.client("dynamodb")
    item = dynamodb.delete_item(TableName="shop", Key={"leaseKey": {"S": SHARD}}, ReturnValues="ALL_OLD")[
        "Attributes"
    ]
    dynamodb.put_item(TableName="shop", Item={**item, "leaseKey": {"S": "shardId-000000000099"}})
    told = [each.sentence for each in ill(found(work)) if each.check == "leases and shards"]
    lost = "their end was never read, and records may be lost"
    assert told == [
        f"1 open lease of shards that Kinesis doesn't list (shardId-000000000099): {lost}",
        f"1 open shard of orders without a lease row ({SHARD}): nobody reads them",
    ]


def test_a_leader_whose_lock_stands_still_is_told_once_it_was_watched(
    work: RolesAtWork, monkeypatch: pytest.MonkeyPatch
):
    def pause(seconds: float) -> None:
        work.clock.ahead += timedelta(seconds=seconds)

    monkeypatch.setattr(work.clock, "pause", pause)
    told = [each for each in found(work) if each.check == "workers and leader"]
    assert [each.health for each in told] == [Health.NOTE]
    assert "--for 30s" in told[0].advice
    told = [each for each in found(work, watch=timedelta(seconds=30)) if each.check == "workers and leader"]
    [dead] = [each for each in told if each.sentence.startswith("leader-dead")]
    assert dead.health is Health.ILL
    assert "Start the leader's sensor" in dead.advice


def test_nobody_was_seen_to_beat_where_nobody_leads(work: RolesAtWork, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(work.clock, "pause", lambda _: None)
    work.aws.client("dynamodb").delete_item(TableName="shop-CoordinatorState", Key={"key": {"S": "Leader"}})
    told = [each for each in found(work, watch=timedelta(seconds=1)) if each.check == "workers and leader"]
    assert any(each.sentence.startswith("nobody-leads") for each in told)
    assert [each.sentence for each in told if each.health is Health.WELL] == []


def test_a_missing_table_and_a_missing_stream_are_told_and_the_other_checks_go_on(work: RolesAtWork):
    work.aws.client("dynamodb").delete_table(TableName="shop-CoordinatorState")
    work.aws.client("kinesis").delete_stream(StreamName="orders")
    checks = {each.check for each in ill(found(work))}
    assert checks >= {"streams"}


def test_a_lake_table_that_is_gone_isnt_taken_for_one_that_the_leader_makes(work: RolesAtWork):
    catalog = work.folder / "lake"
    work.close()
    catalog.rename(work.folder / "elsewhere")
    [told] = [each for each in found(work) if each.check == "lake table"]
    assert told.health is Health.ILL
    assert "lease rows (shardId-000000000000, ...) show that Headrace has worked" in told.sentence
    for row in rows(work):
        work.aws.client("dynamodb").delete_item(TableName="shop", Key={"leaseKey": row["leaseKey"]})
    [told] = [each for each in found(work) if each.check == "lake table"]
    assert told.health is Health.NOTE


def test_an_endpoint_that_answers_nobody_ends_the_checks_with_one_sentence(
    work: RolesAtWork, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    work.aws.inject("lost", service="kinesis")
    diagnoses = found(work)
    assert [each.check for each in diagnoses] == ["AWS"]
    assert "Nothing else was asked" in diagnoses[0].advice


@pytest.mark.parametrize(
    ("snapshots", "health"), [(100, Health.WELL), (350, Health.NOTE), (1200, Health.ILL)]
)
def test_an_upkeep_that_is_behind_is_told(snapshots: int, health: Health):
    assert upkeep_findings(Shape(snapshots=snapshots), stay=100).health is health


def test_a_second_application_on_the_lake_table_is_told():
    arn = frozenset({"arn:aws:kinesis:eu-west-1:123456789012:stream/orders"})
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    commits = [
        LandedBy(noon + timedelta(minutes=n), name, arn) for n, name in enumerate(["shop", "other"] * 2)
    ]
    found_one = commit_findings(commits, Settings(application="shop"))
    assert (found_one.health, "other (orders; last at" in found_one.sentence) == (Health.ILL, True)
    assert commit_findings(commits[:1], Settings(application="shop")).health is Health.WELL


def fanned_out(work: RolesAtWork, more: str = "") -> LiveCase:
    """The case with settings that read by fan-out."""
    with_fan_out = (
        f"{YAML.replace('{name: orders}', '{name: orders, retrieval: fanout, consumer: own}')}{more}"
    )
    (work.folder / "headrace.yaml").write_text(with_fan_out)
    settings = parse_settings(with_fan_out, {}, name="headrace.yaml").settings
    case = Case.of(str(work.folder / "headrace.yaml"), {})
    return LiveCase(case, settings, work.wirings[Role.LEADER].ports)


PROCESSOR = "processors: [{name: totals, mode: application, application: totals-app, callable: 'a:b'}]\n"


def test_the_consumer_of_a_processors_application_is_looked_at_too(work: RolesAtWork):
    live = fanned_out(work, PROCESSOR)
    assert [diagnosis.sentence.split(" of ")[0] for diagnosis in consumers_are_active(live)] == [
        "the consumer own",
        "the consumer totals-app",
    ]


def test_a_consumer_that_isnt_registered_is_told_and_one_that_is_active_is_well(work: RolesAtWork):
    live = fanned_out(work)
    [missing] = consumers_are_active(live)
    assert missing.health is Health.ILL
    assert "the consumer own of orders isn't registered" in missing.sentence
    stream = live.ports.source("doctor").describe("orders").stream
    live.ports.consumers(stream.name).register(stream, "own")
    [active] = consumers_are_active(live)
    live.ports.consumers(stream.name).deregister(live.ports.consumers(stream.name).of(stream)[0])
    assert active.health is Health.WELL
    assert list(consumers_are_active(replace(live, settings=work.settings))) == []
