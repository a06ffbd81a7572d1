"""Lease rows in memory are billed as the rows in DynamoDB are: `bench/coordination.py` counts by them."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.choices import InitialPosition
from headrace.pipeline.settings.model import Settings, StreamSettings, WorkerSettings
from tests.duties.bill import Bill
from tests.duties.virtual_time import Deployment

if TYPE_CHECKING:
    from headrace.pipeline.local.endpoint import LocalAws

SHARDS = 12
"""Together more than 4 KB, so that the sizes of rows count."""


def a_deployment(aws: LocalAws, *, counted: bool) -> Deployment:
    settings = Settings(
        application=f"counted-{uuid.uuid4().hex[:8]}",
        streams=(StreamSettings(name="orders", initial_position=InitialPosition.TRIM_HORIZON),),
        workers=(WorkerSettings(id="w1"),),
        aws=AwsSettings(region=aws.region, endpoint=aws.endpoint),
    )
    times = replace(settings.times, linger=timedelta(seconds=90))
    return Deployment(replace(settings, times=times), SHARDS, counted=counted)


def bills(made: Deployment) -> list[tuple[dict[tuple[str, str], int], float, float]]:
    """A cold start, a run while records flow, a rest, and a look at shards that were quiet for six hours."""
    told: list[Bill] = [made.bill(60)[0]]
    made.flows = True
    told.append(made.bill(60)[0])
    made.flows = False
    told.append(made.bill(60)[0])
    made.clock.advance(timedelta(hours=6))
    told.append(made.bill(30)[0])
    roles = {
        made.settings.lease_table: "leases",
        made.settings.worker_table: "workers",
        made.settings.state_table: "lock",
    }
    return [
        (
            {
                (what, roles[table]): n
                for (what, table), n in bill.requests.items()
                if what != "DescribeTable"
            },
            bill.reads,
            bill.writes,
        )
        for bill in told
    ]


@pytest.mark.slow
def test_rows_in_memory_are_billed_as_the_rows_in_dynamodb_are(
    aws: LocalAws,
) -> None:
    real, counted = (bills(a_deployment(aws, counted=way)) for way in (False, True))
    assert counted == real
    assert all(what in real[1][0] for what in (("UpdateItem", "leases"), ("BatchGetItem", "leases")))
