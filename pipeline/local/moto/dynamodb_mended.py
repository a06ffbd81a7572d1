"""Corrections of moto's DynamoDB, where it differs from AWS's in ways that matter for lease tables.

| moto 5.2 | AWS |
|---|---|
| returns a number as it was written: `9.0E-5`, `1.50` | returns plain decimals: `0.00009`, `1.5` |
| leaves the old item out of the answer when an `Expected` fails | returns the old item |
| fails internally on the creation of an existing index | refuses it |
| takes the `Value` of an `Expected` for equal, whatever its `ComparisonOperator` says | compares as it says |
| stores bytes and booleans of an `AttributeUpdates` as text | stores them with their types |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import orjson

from headrace.pipeline.local.http_answer import HttpAnswer
from headrace.pipeline.local.http_reader import HttpRequest

TARGET = "DynamoDB_20120810."
_NUMBER = re.compile(rb'("N"\s*:\s*")([^"]*)"')
# moto raises a ValueError with this beginning, where AWS answers with an error.
_INDEX_IS_THERE = "Global Secondary Index already exists"
_FAILED = b"ConditionalCheckFailedException"
_UPDATES = b'"AttributeUpdates"'
_COMPARES = b'"ComparisonOperator"'
_KEPT_AS_TEXT = frozenset({"B", "BS", "BOOL"})
_VERBS = {"PUT": ("SET", " = "), "ADD": ("ADD", " "), "DELETE": ("DELETE", " ")}
# Places before or after the point. AWS's numbers reach from 1E-130 to 1E+126 with 38 digits.
_LONGEST = 130
# DynamoDB keeps 38 digits of a number.
_DIGITS = Context(prec=38)


def mended(request: HttpRequest, ask: Callable[[HttpRequest], HttpAnswer]) -> HttpAnswer:
    """Answer a DynamoDB request as AWS would: moto answers it, and both request and answer are corrected."""
    request = replace(request, body=_NUMBER.sub(_plain, request.body))
    if _UPDATES in request.body:
        request = replace(request, body=_by_expression(request.body))
    if _COMPARES in request.body and b'"Expected"' in request.body:
        request = replace(request, body=_with_value_lists(request.body))
    try:
        answer = ask(request)
    except ValueError as error:
        if not str(error).startswith(_INDEX_IS_THERE):
            raise
        return _refusal("ValidationException", "Attempting to create an index which already exists")
    if answer.status == 400 and _FAILED in answer.body and b'"Expected"' in request.body:
        return _with_old_item(request, answer, ask)
    return answer


def plain_number(text: str) -> str:
    """Write a number as DynamoDB returns it. Text that isn't a number is left for moto to refuse."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    if not number.is_finite() or abs(number.adjusted()) > _LONGEST:
        return text
    return f"{number.normalize(_DIGITS):f}" if number else "0"


def _plain(match: re.Match[bytes]) -> bytes:
    return match[1] + plain_number(match[2].decode("utf-8", "replace")).encode() + b'"'


def _with_value_lists(body: bytes) -> bytes:
    """Write each compared `Value` of an `Expected` as a list of one, as KCL 1.x's checkpoint doesn't."""
    write = orjson.loads(body)
    for expected in write["Expected"].values():
        if "ComparisonOperator" in expected and "Value" in expected:
            expected["AttributeValueList"] = [expected.pop("Value")]
    return orjson.dumps(write)


def _by_expression(body: bytes) -> bytes:
    """Write an update's AttributeUpdates as an UpdateExpression, where moto would store one of the values as text."""
    update_request = orjson.loads(body)
    updates: Mapping[str, Any] = update_request.get("AttributeUpdates") or {}
    if not any(_KEPT_AS_TEXT & update.get("Value", {}).keys() for update in updates.values()):
        return body
    clauses: dict[str, list[str]] = {}
    names, values = {}, {}
    for n, (name, update) in enumerate(updates.items()):
        names[f"#u{n}"] = name
        verb, joined = _VERBS[update.get("Action", "PUT")]
        if "Value" not in update:
            verb, joined = "REMOVE", ""
        else:
            values[f":u{n}"] = update["Value"]
        clauses.setdefault(verb, []).append(f"#u{n}{joined}:u{n}" if joined else f"#u{n}")
    del update_request["AttributeUpdates"]
    update_request["UpdateExpression"] = " ".join(
        f"{verb} {', '.join(actions)}" for verb, actions in clauses.items()
    )
    return orjson.dumps(
        update_request | {"ExpressionAttributeNames": names, "ExpressionAttributeValues": values}
    )


def _with_old_item(
    request: HttpRequest, answer: HttpAnswer, ask: Callable[[HttpRequest], HttpAnswer]
) -> HttpAnswer:
    write: Mapping[str, Any] = orjson.loads(request.body)
    refused = orjson.loads(answer.body)
    if write.get("ReturnValuesOnConditionCheckFailure") != "ALL_OLD" or "Item" in refused:
        return answer
    key = write.get("Key") or _key_of(request, write, ask)
    reading = {"TableName": write["TableName"], "Key": key, "ConsistentRead": True}
    stored_item = orjson.loads(ask(_other(request, "GetItem", reading)).body).get("Item")
    # moto's checksum and length headers belong to the body without the item.
    headers = tuple(
        item for item in answer.headers if item[0].lower() not in {"x-amz-crc32", "content-length"}
    )
    body = orjson.dumps(refused if stored_item is None else refused | {"Item": stored_item})
    return HttpAnswer(answer.status, headers, body)


def _key_of(
    request: HttpRequest, write: Mapping[str, Any], ask: Callable[[HttpRequest], HttpAnswer]
) -> Mapping[str, Any]:
    described = orjson.loads(ask(_other(request, "DescribeTable", {"TableName": write["TableName"]})).body)
    return {
        column["AttributeName"]: write["Item"][column["AttributeName"]]
        for column in described["Table"]["KeySchema"]
    }


def _other(request: HttpRequest, operation: str, body: Mapping[str, Any]) -> HttpRequest:
    return replace(
        request, headers={**request.headers, "x-amz-target": TARGET + operation}, body=orjson.dumps(body)
    )


def _refusal(code: str, message: str) -> HttpAnswer:
    body = orjson.dumps({"__type": f"com.amazon.coral.validate#{code}", "message": message})
    return HttpAnswer(400, (("Content-Type", "application/x-amz-json-1.0"),), body)
