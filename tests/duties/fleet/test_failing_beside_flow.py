"""A shard that failed for a while is tried again soon, also where the others have so many records that no run ends by itself."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.choices import InitialPosition
from headrace.pipeline.settings.model import Settings, StreamSettings, WorkerSettings
from tests.duties.virtual_time import Deployment

if TYPE_CHECKING:
    from headrace.pipeline.local.endpoint import LocalAws


def a_deployment(aws: LocalAws) -> Deployment:
    settings = Settings(
        application=f"failing-{uuid.uuid4().hex[:8]}",
        streams=(StreamSettings(name="orders", initial_position=InitialPosition.TRIM_HORIZON),),
        workers=(WorkerSettings(id="w1"),),
        aws=AwsSettings(region=aws.region, endpoint=aws.endpoint),
    )
    return Deployment(settings, shards=3, flows=True, may_fail=True)


def failing_from(made: Deployment, bad: ShardKey, *, seconds: float) -> list[float]:
    """From now on the shard fails for so long. Returns the moments of the tries that fail, as they come."""
    began, tries = made.clock.monotonic(), list[float]()

    def fault(key: ShardKey) -> None:
        now = made.clock.monotonic() - began
        if key == bad and now < seconds:
            tries.append(now)
            raise Unreachable("no answer")

    made.ports.memory_stage.fault = fault
    return tries


def last_landed(made: Deployment, bad: ShardKey) -> int:
    position = made.ports.lake.load().positions.of(bad)
    assert position is not None
    return position.sequence or 0


def test_a_shard_that_failed_for_half_a_minute_lands_again_within_two_minutes(aws: LocalAws) -> None:
    made = a_deployment(aws)
    made.let_pass(60)
    bad = ShardKey(made.life, "shardId-000000000001")
    failing_from(made, bad, seconds=30)
    before = last_landed(made, bad)
    seen: list[float] = []
    began = made.clock.monotonic()

    def look() -> None:
        if not seen and last_landed(made, bad) > before:
            seen.append(made.clock.monotonic() - began)

    with made.clock.beating(look, timedelta(seconds=1)):
        made.let_pass(400)
    assert seen
    assert seen[0] < 120


def test_a_shard_that_goes_on_failing_makes_few_runs(aws: LocalAws) -> None:
    made = a_deployment(aws)
    made.let_pass(60)
    tries = failing_from(made, ShardKey(made.life, "shardId-000000000001"), seconds=1200)
    before = made.runs_made
    made.let_pass(1200)
    # Twelve runs an hour linger to their end. Those that make room for the first tries are a few more.
    # Four runs would linger to their end; the others make room for the next try, at first once a minute.
    assert made.runs_made - before <= 10
    assert 6 <= len(tries) <= 10
