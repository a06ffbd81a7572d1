"""Describe a request to AWS in the words of IAM: the caller, the actions, and the resources.

IAM's name of an action is that of the operation for all services but S3, whose protocol has no operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

from headrace.pipeline.local.errors import AwsError
from headrace.pipeline.local.http_reader import HttpRequest
from headrace.pipeline.local.kinesis.kinesis import DEFAULT_REGION, Kinesis
from headrace.pipeline.local.routing import KINESIS_TARGET, region_of, service_of
from headrace.pipeline.local.wires import JSON, wire_of

ACCOUNT = "123456789012"
"""The account of everything in the stand-in."""
# IAM's name of a service where it isn't the name in a signature.
_SERVICES = {"monitoring": "cloudwatch"}
# Operations of Kinesis that name no stream, so that IAM knows no other resource for them than `*`.
_WITHOUT_STREAM = frozenset({"DescribeAccountSettings", "ListStreams", "UpdateAccountSettings"})
# Operations of Kinesis on a consumer.
_ON_CONSUMERS = frozenset({"DescribeStreamConsumer", "DeregisterStreamConsumer", "SubscribeToShard"})
# Parts of a transaction on DynamoDB whose right isn't named like PutItem.
_PARTS = {"ConditionCheck": "ConditionCheckItem"}
_WITHOUT_A_RIGHT = frozenset({"sts:GetCallerIdentity"})


@dataclass(frozen=True, slots=True, order=True)
class Asked:
    """An action that a request needs a right for, and the resource."""

    action: str
    resource: str


def caller_of(request: HttpRequest) -> str:
    """Give the access key of the request's signature, which identifies the caller."""
    words = request.headers.get("authorization", "").partition("Credential=")[2]
    return words.partition("/")[0]


def asked_by(request: HttpRequest, kinesis: Kinesis) -> frozenset[Asked]:
    """Give the actions, each with its resource, for which IAM would demand a right."""
    region, target = region_of(request) or DEFAULT_REGION, request.headers.get("x-amz-target", "")
    if target.startswith(KINESIS_TARGET):
        every = _of_kinesis(request, kinesis, region)
    else:
        every = _of_others(request, region)
    return frozenset(asked for asked in every if asked.action not in _WITHOUT_A_RIGHT)


def _of_kinesis(request: HttpRequest, kinesis: Kinesis, region: str) -> Iterator[Asked]:
    operation = request.headers["x-amz-target"].removeprefix(KINESIS_TARGET)
    call = kinesis.call_of(operation, request.body, wire_of(request.headers.get("content-type")))
    stream = f"arn:aws:kinesis:{region}:{ACCOUNT}:stream/{call.resource}"
    resource = _consumer_in(request, stream) if operation in _ON_CONSUMERS else stream
    yield Asked(f"kinesis:{operation}", "*" if operation in _WITHOUT_STREAM else resource)


def _consumer_in(request: HttpRequest, stream: str) -> str:
    """Give the ARN of the consumer that a request names. One that isn't named by its ARN has the rest of it unknown."""
    try:
        given = wire_of(request.headers.get("content-type")).read(request.body)
    except AwsError:
        return stream
    return str(given.get("ConsumerARN") or f"{stream}/consumer/{given.get('ConsumerName', '')}:0")


def _of_others(request: HttpRequest, region: str) -> Iterator[Asked]:
    match _SERVICES.get(service_of(request), service_of(request)):
        case "dynamodb":
            return _of_dynamodb(request, region)
        case "glue":
            return _of_glue(request, region)
        case "s3":
            return _of_s3(request)
        case service:
            return _of_another(request, service)


def _of_dynamodb(request: HttpRequest, region: str) -> Iterator[Asked]:
    operation, body = _operation(request), _body(request)
    for part in body.get("TransactItems", ()):
        # IAM knows no right on a transaction: each part needs that of its own action.
        for name, content in part.items():
            action = _PARTS.get(name, f"{name}Item")
            yield Asked(
                f"dynamodb:{action}", f"arn:aws:dynamodb:{region}:{ACCOUNT}:table/{content['TableName']}"
            )
    names = [body["TableName"]] if "TableName" in body else list(body.get("RequestItems", ()))
    index = f"/index/{body['IndexName']}" if "IndexName" in body else ""
    for name in names:
        table = f"arn:aws:dynamodb:{region}:{ACCOUNT}:table/{name}"
        yield Asked(f"dynamodb:{operation}", table + index)
        if operation == "CreateTable" and body.get("Tags"):
            yield Asked("dynamodb:TagResource", table)


def _of_glue(request: HttpRequest, region: str) -> Iterator[Asked]:
    operation, body = _operation(request), _body(request)
    of_input = next(
        (body[name].get("Name") for name in ("TableInput", "DatabaseInput") if name in body), None
    )
    database = body.get("DatabaseName") or (of_input or body.get("Name") if "Database" in operation else None)
    table = (body.get("Name") or of_input) if operation.endswith("Table") else None
    # Glue asks for the right on a thing and on all that it lies in.
    place = f"arn:aws:glue:{region}:{ACCOUNT}"
    yield Asked(f"glue:{operation}", f"{place}:catalog")
    if database:
        yield Asked(f"glue:{operation}", f"{place}:database/{database}")
    if table:
        yield Asked(f"glue:{operation}", f"{place}:table/{database}/{table}")


def _of_s3(request: HttpRequest) -> Iterator[Asked]:
    path, _, query = request.target.partition("?")
    bucket, _, key = unquote(path).lstrip("/").partition("/")
    arguments = parse_qs(query, keep_blank_values=True)
    if key:
        action = {"GET": "GetObject", "HEAD": "GetObject", "PUT": "PutObject", "DELETE": "DeleteObject"}
        yield Asked(f"s3:{action.get(request.method, 'PutObject')}", f"arn:aws:s3:::{bucket}/{key}")
        return
    if request.method == "POST" and "delete" in arguments:
        for deleted in _keys_in(request.body):
            yield Asked("s3:DeleteObject", f"arn:aws:s3:::{bucket}/{deleted}")
        return
    of_bucket = {"GET": "ListBucket", "HEAD": "ListBucket", "PUT": "CreateBucket", "DELETE": "DeleteBucket"}
    yield Asked(f"s3:{of_bucket.get(request.method, request.method)}", f"arn:aws:s3:::{bucket}")


def _keys_in(body: bytes) -> Iterator[str]:
    from xml.etree import ElementTree as ET

    for element in ET.fromstring(body).iter():  # noqa: S314 (a request of the tests' own)
        if element.tag.rpartition("}")[2] == "Key":
            yield element.text or ""


def _of_another(request: HttpRequest, service: str) -> Iterator[Asked]:
    form = parse_qs(request.body.decode(errors="replace")) if not _operation(request) else {}
    operation = _operation(request) or next(iter(form.get("Action", ())), request.method)
    yield Asked(f"{service}:{operation}", "*")


def _operation(request: HttpRequest) -> str:
    return request.headers.get("x-amz-target", "").rpartition(".")[2]


def _body(request: HttpRequest) -> dict[str, Any]:
    try:
        return dict(JSON.read(request.body))
    except AwsError:
        return {}
