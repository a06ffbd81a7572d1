"""The stand-in refuses a caller what its policy lacks, and keeps what it has asked for."""

from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError

import boto3
import pytest
from botocore.exceptions import ClientError

from headrace.pipeline.local.actions import ACCOUNT
from headrace.pipeline.local.endpoint import LocalAws, local_aws

STREAM = f"arn:aws:kinesis:us-east-1:{ACCOUNT}:stream/orders"


@pytest.fixture(scope="module")
def served() -> Iterator[LocalAws]:
    with local_aws("--transition", "0") as aws:
        aws.client("kinesis").create_stream(StreamName="orders", ShardCount=1)
        aws.client("s3").create_bucket(Bucket="lake")
        yield aws


@pytest.fixture
def limited(served: LocalAws) -> Iterator[LocalAws]:
    served.limit("reader", policy("kinesis:ListShards", STREAM))
    yield served
    served._ask("DELETE", "callers")


def policy(action: str, resource: str, effect: str = "Allow") -> dict[str, Any]:
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": effect, "Action": action, "Resource": resource}],
    }


def client(aws: LocalAws, service: str, key: str = "reader") -> Any:
    make: Any = boto3.client
    keys = {"aws_access_key_id": key, "aws_secret_access_key": "x"}
    return make(service, region_name=aws.region, endpoint_url=aws.endpoint, **keys)


def test_a_caller_may_do_what_its_policy_allows_and_nothing_else(limited: LocalAws):
    kinesis = client(limited, "kinesis")
    assert len(kinesis.list_shards(StreamName="orders")["Shards"]) == 1
    with pytest.raises(
        ClientError, match=r"AccessDeniedException.*kinesis:DescribeStreamSummary on resource: .*orders"
    ):
        kinesis.describe_stream_summary(StreamName="orders")
    with pytest.raises(ClientError, match=r"AccessDenied.*s3:PutObject on resource: arn:aws:s3:::lake/a/b"):
        client(limited, "s3").put_object(Bucket="lake", Key="a/b", Body=b"")
    assert client(limited, "kinesis", "another").describe_stream_summary(StreamName="orders")


def test_what_was_asked_is_kept_with_its_resources_allowed_or_not(limited: LocalAws):
    client(limited, "kinesis").list_shards(StreamName="orders")
    for deleting in (
        lambda: client(limited, "s3").delete_objects(Bucket="lake", Delete={"Objects": [{"Key": "a"}]}),
        lambda: client(limited, "dynamodb").create_table(
            TableName="t",
            KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            Tags=[{"Key": "a", "Value": "b"}],
        ),
    ):
        with pytest.raises(ClientError):
            deleting()
    table = f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/t"
    assert limited.asked() == {
        "reader": {
            ("kinesis:ListShards", STREAM),
            ("s3:DeleteObject", "arn:aws:s3:::lake/a"),
            ("dynamodb:CreateTable", table),
            ("dynamodb:TagResource", table),
        }
    }


def test_a_policy_that_the_stand_in_doesnt_understand_is_refused(served: LocalAws):
    with pytest.raises(HTTPError, match="400"):
        served.limit("reader", policy("*", "*", effect="Deny"))
    assert served.asked() == {}
