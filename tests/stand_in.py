"""The stand-in for the tests of the adapters, and clients made as the product makes them."""

import os
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pipeline.aws.clients import dynamodb_client, kinesis_client
from pipeline.local.endpoint import LocalAws, local_aws
from pipeline.settings.model import AwsSettings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient


SECOND_OPINION = "HEADRACE_TEST_DYNAMODB"
"""The endpoint of another DynamoDB for tests without faults. `make contract DYNAMODB=local` sets it."""


@pytest.fixture(scope="session")
def aws() -> Iterator[LocalAws]:
    """Each test uses its own names of streams and tables, also in faults."""
    with local_aws("--transition", "0") as served:
        yield served


@pytest.fixture(scope="session")
def dynamodb(aws: LocalAws) -> Iterator["DynamoDBClient"]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in aws.environment.items():
            patch.setenv(name, value)
        endpoint = os.environ.get(SECOND_OPINION, aws.endpoint)
        yield dynamodb_client(AwsSettings(region=aws.region, endpoint=endpoint))


@pytest.fixture(scope="session")
def kinesis(aws: LocalAws) -> Iterator["KinesisClient"]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in aws.environment.items():
            patch.setenv(name, value)
        yield kinesis_client(AwsSettings(region=aws.region, endpoint=aws.endpoint))


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
