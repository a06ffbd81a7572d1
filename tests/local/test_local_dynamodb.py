"""DynamoDB as lease tables use it, in cases in which moto alone would answer differently from AWS."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from headrace.pipeline.local.moto.dynamodb_mended import plain_number

INDEX = "LeaseOwnerToLeaseKeyIndex"
A = {"leaseKey": {"S": "a"}}
ROW = {**A, "leaseOwner": {"S": "w1"}, "leaseCounter": {"N": "4"}}
ATTRIBUTES = [{"AttributeName": name, "AttributeType": "S"} for name in ("leaseKey", "leaseOwner")]


@pytest.fixture(scope="module")
def dynamodb(served):
    return served.client("dynamodb")


@pytest.fixture
def table(dynamodb):
    name = f"t{uuid4().hex}"
    dynamodb.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        AttributeDefinitions=ATTRIBUTES[:1],
        BillingMode="PAY_PER_REQUEST",
    )
    return name


def row(dynamodb, table, key="a"):
    return dynamodb.get_item(TableName=table, Key={"leaseKey": {"S": key}}, ConsistentRead=True).get("Item")


def renew(dynamodb, table, seen, **more):
    expected = {"leaseCounter": {"Value": {"N": str(seen)}}, "checkpointOwner": {"Exists": False}}
    updates = {"leaseCounter": {"Action": "PUT", "Value": {"N": str(seen + 1)}}}
    return dynamodb.update_item(TableName=table, Key=A, Expected=expected, AttributeUpdates=updates, **more)


@pytest.mark.parametrize(("spelled", "plain"), [
    ("9.0E-5", "0.00009"), ("8.85E-4", "0.000885"), ("1E+2", "100"), ("0010.50", "10.5"), ("-1.0", "-1"),
    ("0", "0"), ("-0.0", "0"), ("0E-9", "0"), ("1795243418", "1795243418"), ("1e3", "1000"),
    ("123456789012345678901234567890123456789012", "123456789012345678901234567890123456790000"),
    ("1E+126", "1" + "0" * 126), ("1E-130", "0." + "0" * 129 + "1"),
    ("NaN", "NaN"), ("Infinity", "Infinity"), ("1E+999999", "1E+999999"), ("x", "x"), ("", ""),
])  # fmt: skip
def test_a_number_is_answered_in_plain_decimals(spelled, plain):
    assert plain_number(spelled) == plain


def test_a_double_written_by_java_is_answered_in_plain_decimals_and_text_is_left_alone(dynamodb, table):
    told = '"N": "1.50"'
    dynamodb.put_item(
        TableName=table,
        Item={
            **A,
            "throughputKBps": {"N": "9.0E-5"},
            "text": {"S": told},
            "deep": {"M": {"N": {"L": [{"N": "1.0"}]}}},
        },
    )
    found = row(dynamodb, table)
    assert found["throughputKBps"] == {"N": "0.00009"}
    assert found["text"] == {"S": told}
    assert found["deep"] == {"M": {"N": {"L": [{"N": "1"}]}}}


def test_numbers_are_compared_by_value_whatever_their_notation(dynamodb, table):
    dynamodb.put_item(TableName=table, Item={**A, "size1": {"N": "1.0E1"}})
    dynamodb.update_item(
        TableName=table,
        Key=A,
        ConditionExpression="size1 = :at",
        UpdateExpression="SET x = :at",
        ExpressionAttributeValues={":at": {"N": "10.00"}},
    )
    assert row(dynamodb, table)["x"] == {"N": "10"}


def test_the_answer_to_a_refused_renewal_holds_the_row(dynamodb, table):
    dynamodb.put_item(TableName=table, Item=ROW)
    with pytest.raises(ClientError, match="ConditionalCheckFailed") as refused:
        renew(dynamodb, table, 3, ReturnValuesOnConditionCheckFailure="ALL_OLD")
    assert dict(refused.value.response)["Item"] == ROW
    assert row(dynamodb, table) == ROW


def test_the_answer_to_a_refused_create_holds_the_row(dynamodb, table):
    dynamodb.put_item(TableName=table, Item=ROW)
    with pytest.raises(ClientError, match="ConditionalCheckFailed") as refused:
        dynamodb.put_item(
            TableName=table,
            Item={**A, "x": {"S": "other"}},
            Expected={"leaseKey": {"Exists": False}},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    assert dict(refused.value.response)["Item"] == ROW


def test_the_answer_to_a_refused_write_holds_the_row_only_if_it_was_asked_for(dynamodb, table):
    dynamodb.put_item(TableName=table, Item=ROW)
    with pytest.raises(ClientError, match="ConditionalCheckFailed") as refused:
        renew(dynamodb, table, 3)
    assert "Item" not in refused.value.response


def test_the_answer_to_a_write_refused_for_a_missing_row_holds_no_row(served, dynamodb, table):
    """This test doesn't use boto3, which leaves out an empty item."""
    body = {
        "TableName": table,
        "Key": A,
        "Expected": {"leaseCounter": {"Value": {"N": "3"}}},
        "AttributeUpdates": {"leaseCounter": {"Action": "PUT", "Value": {"N": "4"}}},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    scope = "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request"
    headers = {
        "X-Amz-Target": "DynamoDB_20120810.UpdateItem",
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": f"{scope}, SignedHeaders=host, Signature=0",
    }
    connection = HTTPConnection(served.endpoint.removeprefix("http://"), timeout=30)
    connection.request("POST", "/", json.dumps(body), headers)
    answer = json.load(connection.getresponse())
    connection.close()
    assert "ConditionalCheckFailed" in answer["__type"]
    assert "Item" not in answer


def test_an_assignment_with_expected_and_attribute_updates_is_one_conditional_write(dynamodb, table):
    dynamodb.put_item(TableName=table, Item=ROW)
    found = dynamodb.update_item(
        TableName=table,
        Key=A,
        Expected={
            "leaseKey": {"Value": {"S": "a"}, "Exists": True},
            "leaseOwner": {"Value": {"S": "w1"}, "Exists": True},
            "checkpointOwner": {"Exists": False},
        },
        AttributeUpdates={
            "leaseOwner": {"Action": "PUT", "Value": {"S": "w2"}},
            "checkpointOwner": {"Action": "DELETE"},
            "leaseCounter": {"Action": "ADD", "Value": {"N": "1"}},
        },
        ReturnValues="ALL_NEW",
    )["Attributes"]
    assert found == {**A, "leaseOwner": {"S": "w2"}, "leaseCounter": {"N": "5"}}


def test_bytes_and_booleans_in_attribute_updates_come_back_as_they_were_written(dynamodb, table):
    """KCL writes `pendingCheckpointState` in this way."""
    dynamodb.put_item(TableName=table, Item={**ROW, "gone": {"S": "x"}})
    renew(dynamodb, table, 4)
    updates = {
        "pendingCheckpointState": {"Action": "PUT", "Value": {"B": b"hi\x00\xff"}},
        "is_open": {"Action": "PUT", "Value": {"BOOL": True}},
        "leaseCounter": {"Action": "ADD", "Value": {"N": "2"}},
        "gone": {"Action": "DELETE"},
        "leaseOwner": {"Value": {"S": "w2"}},
    }
    stale = {"leaseCounter": {"Value": {"N": "4"}}}
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        dynamodb.update_item(TableName=table, Key=A, Expected=stale, AttributeUpdates=updates)
    seen = {"leaseCounter": {"Value": {"N": "5"}}}
    dynamodb.update_item(TableName=table, Key=A, Expected=seen, AttributeUpdates=updates)
    assert row(dynamodb, table) == {
        **A,
        "leaseOwner": {"S": "w2"},
        "leaseCounter": {"N": "7"},
        "pendingCheckpointState": {"B": b"hi\x00\xff"},
        "is_open": {"BOOL": True},
    }


def test_creating_an_existing_index_is_refused_with_the_error_of_aws(dynamodb, table):
    index = {
        "IndexName": INDEX,
        "KeySchema": [
            {"AttributeName": "leaseOwner", "KeyType": "HASH"},
            {"AttributeName": "leaseKey", "KeyType": "RANGE"},
        ],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }
    update = {
        "TableName": table,
        "AttributeDefinitions": ATTRIBUTES,
        "GlobalSecondaryIndexUpdates": [{"Create": index}],
    }
    dynamodb.update_table(**update)
    with pytest.raises(ClientError, match="already exists") as refused:
        dynamodb.update_table(**update)
    assert refused.value.response["Error"]["Code"] == "ValidationException"


def test_segments_of_a_scan_share_the_rows(dynamodb, table):
    keys = {f"k{number}" for number in range(40)}
    for key in keys:
        dynamodb.put_item(TableName=table, Item={"leaseKey": {"S": key}})
    found = [
        item["leaseKey"]["S"]
        for segment in range(4)
        for item in dynamodb.scan(TableName=table, Segment=segment, TotalSegments=4)["Items"]
    ]
    assert (len(found), set(found)) == (40, keys)


def test_a_transaction_is_applied_or_refused_completely(dynamodb, table):
    dynamodb.put_item(TableName=table, Item=ROW)

    def check_and_put(owner):
        check = {
            "TableName": table,
            "Key": A,
            "ConditionExpression": "leaseOwner = :o",
            "ExpressionAttributeValues": {":o": {"S": owner}},
        }
        put = {"TableName": table, "Item": {"leaseKey": {"S": owner}}}
        dynamodb.transact_write_items(TransactItems=[{"ConditionCheck": check}, {"Put": put}])

    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        check_and_put("w9")
    check_and_put("w1")
    assert (row(dynamodb, table, "w9"), row(dynamodb, table, "w1")) == (None, {"leaseKey": {"S": "w1"}})


WHOLE = {
    **A,
    "text": {"S": "x"},
    "empty": {"S": ""},
    "number": {"N": "1.5"},
    "bytes": {"B": b"hi\x00\xff"},
    "no": {"BOOL": False},
    "null": {"NULL": True},
    "texts": {"SS": ["a", "b"]},
    "numbers": {"NS": ["1", "2"]},
    "many_bytes": {"BS": [b"\x00", b"\xff"]},
    "deep": {"M": {"S": {"L": [{"B": b"\xfe"}, {"M": {}}, {"L": []}, {"SS": ["c"]}]}}},
}


def _by_put(dynamodb, table):
    return dynamodb.put_item(TableName=table, Item=A, ReturnValues="ALL_OLD")["Attributes"]


def _by_update(dynamodb, table):
    update = {"UpdateExpression": "REMOVE nothing", "ReturnValues": "ALL_NEW"}
    return dynamodb.update_item(TableName=table, Key=A, **update)["Attributes"]


def _by_delete(dynamodb, table):
    return dynamodb.delete_item(TableName=table, Key=A, ReturnValues="ALL_OLD")["Attributes"]


def _by_batch(dynamodb, table):
    (found,) = dynamodb.batch_get_item(RequestItems={table: {"Keys": [A]}})["Responses"][table]
    return found


def _by_scan(dynamodb, table):
    (found,) = dynamodb.scan(TableName=table)["Items"]
    return found


def _by_query(dynamodb, table):
    condition = {
        "KeyConditionExpression": "leaseKey = :k",
        "ExpressionAttributeValues": {":k": A["leaseKey"]},
    }
    (found,) = dynamodb.query(TableName=table, **condition)["Items"]
    return found


def _by_refusal(dynamodb, table):
    refusing = {"ConditionExpression": "leaseKey = :k", "ExpressionAttributeValues": {":k": {"S": "other"}}}
    with pytest.raises(ClientError, match="ConditionalCheckFailed") as refused:
        dynamodb.put_item(TableName=table, Item=A, **refusing, ReturnValuesOnConditionCheckFailure="ALL_OLD")
    return dict(refused.value.response)["Item"]


@pytest.mark.parametrize(
    "read", [row, _by_batch, _by_scan, _by_query, _by_put, _by_update, _by_delete, _by_refusal]
)
def test_each_answer_with_an_item_has_each_type_of_value_as_it_was_written(dynamodb, table, read):
    dynamodb.put_item(TableName=table, Item=WHOLE)
    found = read(dynamodb, table)
    sets = ("texts", "numbers", "many_bytes")
    for name in sets:
        ((kind, values),) = found[name].items()
        found[name] = {kind: sorted(values)}
    assert found == WHOLE


def test_an_expected_value_is_compared_as_its_operator_says(dynamodb, table):
    """KCL 1.15 writes no checkpoint over SHARD_END, with a `Value` instead of a list."""
    dynamodb.put_item(TableName=table, Item={**A, "checkpoint": {"S": "1"}})

    def checkpoint(to):
        return dynamodb.update_item(
            TableName=table,
            Key=A,
            Expected={"checkpoint": {"Value": {"S": "SHARD_END"}, "ComparisonOperator": "NE"}},
            AttributeUpdates={"checkpoint": {"Action": "PUT", "Value": {"S": to}}},
        )

    checkpoint("SHARD_END")
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        checkpoint("2")
