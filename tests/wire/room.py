"""Real tables in the stand-in's DynamoDB, one for each key attribute of KCL's rows. They are emptied between cases."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from headrace.pipeline.aws.clients.clients import dynamodb_client
from headrace.pipeline.aws.leases.rows import Place
from headrace.pipeline.aws.leases.tables import DynamoTables
from headrace.pipeline.local.endpoint import local_aws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.blocks.kcl import KclSettings
from headrace.pipeline.settings.choices import Layout
from headrace.pipeline.settings.model import Settings
from tests.eventually import eventually

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Row = Mapping[str, Any]


class Room:
    """`refused` counts the conditions that didn't hold."""

    def __init__(self, client: DynamoDBClient) -> None:
        self.client = client
        self.refused = 0
        three = Settings(
            application=f"wire-{uuid.uuid4().hex[:8]}",
            streams=(),
            kcl=KclSettings(layout=Layout.M),
        )
        tables = DynamoTables(client, three)
        tables.create()
        # The product doesn't wait for the index, but AWS's DynamoDB Local fails writes while it makes one.
        eventually(lambda: tables.describe()[0].index == "ACTIVE", "the owner index is ACTIVE")
        self._places = {
            "leaseKey": Place(three.lease_table, "leaseKey"),
            "wid": Place(three.worker_table, "wid"),
            "key": Place(three.state_table, "key"),
        }
        client.meta.events.register("after-call.dynamodb", self._count_refusals)

    def _count_refusals(self, parsed: Mapping[str, Any], **_: Any) -> None:
        self.refused += parsed.get("Error", {}).get("Code") == "ConditionalCheckFailedException"

    def place_of(self, *rows: Row | None) -> Place:
        """The table for rows like these; the lease table if there are none."""
        names = (name for row in rows if row for name in self._places if name in row)
        return self._places[next(names, "leaseKey")]

    def put(self, place: Place, *rows: Row) -> None:
        for row in rows:
            self.client.put_item(TableName=place.table, Item=dict(row))

    def rows(self, place: Place) -> list[Row]:
        return list(self.client.scan(TableName=place.table, ConsistentRead=True)["Items"])

    def clear(self) -> None:
        self.refused = 0
        for place in self._places.values():
            for row in self.rows(place):
                self.client.delete_item(TableName=place.table, Key={place.key: row[place.key]})


@contextmanager
def a_room() -> Iterator[Room]:
    with local_aws("--transition", "0") as served, patch.dict(os.environ, served.environment):
        yield Room(dynamodb_client(AwsSettings(region=served.region, endpoint=served.endpoint)))
