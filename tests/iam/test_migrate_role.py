"""The role of `headrace migrate`: what its policy allows is what the command asks for, in each direction of both migrations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import boto3
import pytest

from headrace.pipeline.iam.places import ApplicationArns, account_of
from headrace.pipeline.iam.policy import role_policy
from headrace.pipeline.iam.roles import Role
from headrace.pipeline.local.actions import ACCOUNT
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.migrate.steps import Action
from tests.migrate.test_dynamo_migration import (
    Application,
    kcl_fleet,
    make_index,
    our_fleet,
    to_pending,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

pytestmark = pytest.mark.slow  # Twenty seconds: three migrations over HTTP.

MINUTE, DAY = timedelta(seconds=61), timedelta(hours=24)


def client_of(aws: LocalAws, key: str) -> DynamoDBClient:
    client: DynamoDBClient = boto3.client(
        "dynamodb",
        endpoint_url=aws.endpoint,
        region_name=aws.region,
        aws_access_key_id=key,
        aws_secret_access_key="secret",
    )
    return client


def to_one_table(app: Application) -> None:
    to_pending(app)
    app.clock.advance(DAY)
    app.beat()
    app.do(Action.FINISH)


def back_to_three_tables(app: Application) -> None:
    to_pending(app)
    app.do(Action.ROLLBACK)
    app.clock.advance(MINUTE)
    app.beat()
    app.do(Action.ROLLBACK)


def back_to_2x(app: Application) -> None:
    make_index(app)
    app.do(Action.ROLLBACK)
    app.clock.advance(MINUTE)
    app.do(Action.ROLLBACK)
    app.do(Action.FINISH)


FLIGHTS: list[tuple[Callable[[DynamoDBClient], Application], Callable[[Application], None]]] = [
    (our_fleet, to_one_table),
    (our_fleet, back_to_three_tables),
    (kcl_fleet, back_to_2x),
]


def test_the_role_has_the_rights_of_both_migrations_and_no_other() -> None:
    asked: set[tuple[str, str]] = set()
    allowed: set[tuple[str, str]] = set()
    with local_aws("--transition", "0") as aws:
        for n, (make, drive) in enumerate(FLIGHTS):
            app, caller = make(client_of(aws, "anybody")), f"migrate-{n}"
            account = account_of(app.settings, number=ACCOUNT, region=aws.region)
            policy = role_policy([Role.MIGRATE], ApplicationArns(app.settings, account))
            aws.limit(caller, policy)
            app.tables = replace(app.tables, client=client_of(aws, caller))
            drive(app)
            asked |= {(action, where.replace(app.name, "app")) for action, where in aws.asked()[caller]}
            allowed |= {
                (action, where.replace(app.name, "app"))
                for statement in policy["Statement"]
                for action in statement["Action"]
                for where in statement["Resource"]
            }
    assert asked - allowed == set(), "the stand-in refuses what a policy lacks, so that the command fails"
    assert allowed - asked == set(), "what nobody asks for isn't allowed"
