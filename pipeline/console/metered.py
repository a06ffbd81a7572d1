"""Counts what a boto3 client asks, by botocore's events."""

from __future__ import annotations

from typing import Any

from headrace.pipeline.console.pace import LookCost


class DynamoDbMeter:
    """Counts requests and read units of DynamoDB, and finds out for how many units the lease table is provisioned."""

    def __init__(self, client: Any) -> None:
        self._requests = 0
        self._units = 0.0
        self._provisioned: dict[str, int] = {}
        events = client.meta.events
        events.register("before-parameter-build.dynamodb.Scan", _ask_for_units)
        events.register("request-created.dynamodb", self._count)
        events.register_last("after-call.dynamodb.Scan", self._add_units)
        events.register_last("after-call.dynamodb.DescribeTable", self._note_provision)

    def taken(self) -> LookCost:
        """What was counted since the last call."""
        cost = LookCost(
            cpu=0.0,
            units=self._units,
            scans=self._requests,
            provisioned=min(self._provisioned.values(), default=0),
        )
        self._requests, self._units = 0, 0.0
        return cost

    def _count(self, **_: object) -> None:
        self._requests += 1

    def _add_units(self, parsed: dict[str, Any], **_: object) -> None:
        self._units += float((parsed.get("ConsumedCapacity") or {}).get("CapacityUnits", 0.0))

    def _note_provision(self, parsed: dict[str, Any], **_: object) -> None:
        table = parsed.get("Table", {})
        units = int(table.get("ProvisionedThroughput", {}).get("ReadCapacityUnits", 0))
        if units:
            self._provisioned[table["TableName"]] = units


def _ask_for_units(params: dict[str, Any], **_: object) -> None:
    params["ReturnConsumedCapacity"] = "TOTAL"


class RequestMeter:
    """Counts the requests of a Kinesis client."""

    def __init__(self, client: Any) -> None:
        self._requests = 0
        client.meta.events.register("request-created.kinesis", self._count)

    def taken(self) -> int:
        requests, self._requests = self._requests, 0
        return requests

    def _count(self, **_: object) -> None:
        self._requests += 1
