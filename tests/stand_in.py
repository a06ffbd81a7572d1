"""The stand-in, served once for the tests of one process, and clients made as the product makes them.

tests/conftest.py gives these fixtures to all tests.
"""

import os
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.task_identity import DriverIdentity

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient


OTHER_DYNAMODB_VARIABLE = "HEADRACE_TEST_DYNAMODB"
"""The variable with the endpoint of another DynamoDB, for tests without faults. `make contract DYNAMODB=local` sets it."""


@pytest.fixture(scope="session", autouse=True)
def only_the_stand_ins_credentials() -> Iterator[None]:
    """Take AWS's variables of the shell away, so that no test reaches a real account or the endpoint of another stand-in."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ACCESS_KEY_ID", "local")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "local")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


@pytest.fixture(scope="session")
def aws() -> Iterator[LocalAws]:
    """Each test uses its own names of streams and tables, also in faults. A test that resets the stand-in, moves its clock or
    needs a fixed name starts a stand-in of its own.
    """
    with local_aws("--transition", "0") as served:
        yield served


def access_to(aws: LocalAws, profile: str | None = None) -> KinesisAccess:
    """The access of a Spark task to a stand-in, with the identity of this process or with a profile."""
    return KinesisAccess(aws.region, aws.endpoint, DriverIdentity(profile).now())


@pytest.fixture(scope="session")
def dynamodb(aws: LocalAws) -> "DynamoDBClient":
    from headrace.pipeline.aws.clients.clients import (
        dynamodb_client,  # here, so that tests without AWS needn't import boto3
    )

    endpoint = os.environ.get(OTHER_DYNAMODB_VARIABLE, aws.endpoint)
    client = dynamodb_client(AwsSettings(region=aws.region, endpoint=endpoint))
    # The stand-in imports moto for its first request. On a busy machine that takes longer than boto3 waits for an answer, and
    # boto3 asks again: a table that is created twice exists already.
    client.list_tables()
    return client


@pytest.fixture(scope="session")
def kinesis(aws: LocalAws) -> "KinesisClient":
    from headrace.pipeline.aws.clients.clients import kinesis_client

    return kinesis_client(AwsSettings(region=aws.region, endpoint=aws.endpoint))


@pytest.fixture
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let boto3 repeat requests without a pause."""
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)


def a_table(client: "DynamoDBClient", key: str, *, name: str | None = None) -> str:
    """Make a table with only a key. If no name is given, the table gets one that no other test uses."""
    name = name or f"t-{uuid.uuid4().hex[:12]}"
    client.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return name


def table_names(client: "DynamoDBClient") -> set[str]:
    """The names of all tables of the stand-in. One answer may hold only some of them, so all pages are read."""
    pages = client.get_paginator("list_tables").paginate()
    return {name for page in pages for name in page["TableNames"]}
