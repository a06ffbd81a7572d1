"""The writes of KCL's workers on the row `Migration3.0`. Headrace only reads the client version on which they have
agreed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headrace.pipeline.aws.leases import attributes as av
from headrace.pipeline.aws.leases import migration_item as wire
from headrace.pipeline.aws.leases.client_version import DynamoClientVersion
from headrace.pipeline.aws.leases.migration_item import VersionRow
from headrace.pipeline.aws.leases.rows import Rows, WrittenRow
from headrace.pipeline.kcl.layout import CLIENT_VERSION
from headrace.pipeline.kcl.migration import ClientVersion

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_KEPT = 10
"""Entries of the history, newest first."""


@dataclass(frozen=True)
class KclClientVersion:
    """The row with the client version, read and written as a KCL worker does."""

    client: DynamoDBClient
    table: str
    key: str = "key"

    @property
    def _rows(self) -> Rows:
        return Rows(self.client, self.table, key=self.key)

    def read(self) -> VersionRow | None:
        return DynamoClientVersion(self.client, self.table, key=self.key).read()

    def change(self, to: ClientVersion, me: str, at: datetime, *, seen: ClientVersion | None) -> bool:
        """Write the version only if the row still holds the version `seen`, which is None if there was no row."""
        return self._create(to, me, at) if seen is None else self._update(to, me, at, seen=seen)

    def _create(self, to: ClientVersion, me: str, at: datetime) -> bool:
        """KCL first writes INIT and then the version, so that INIT is the first entry of the history."""
        began = _entry(VersionRow(ClientVersion.INIT, me, at))
        item = {
            **self._rows.key_of(CLIENT_VERSION),
            wire.CLIENT_VERSION: _version(to),
            wire.BY: av.text_value(me),
            wire.AT: av.moment_value(at, av.MILLISECOND),
            wire.HISTORY: {"L": [began]},
        }
        if self.key == "leaseKey":
            item["entityType"] = av.text_value("CLIENT_VERSION_MIGRATION")
        answer = self._rows.write(
            "put_item",
            Item=item,
            ConditionExpression="attribute_not_exists(#key)",
            ExpressionAttributeNames={"#key": self._rows.key},
        )
        return isinstance(answer, WrittenRow)

    def _update(self, to: ClientVersion, me: str, at: datetime, *, seen: ClientVersion) -> bool:
        found = self.read()
        before = () if found is None else (_entry(found), *found.history)
        answer = self._rows.write(
            "update_item",
            Key=self._rows.key_of(CLIENT_VERSION),
            UpdateExpression=f"SET {wire.CLIENT_VERSION} = :to, {wire.BY} = :me, {wire.AT} = :at, {wire.HISTORY} = :history",
            ConditionExpression=f"attribute_exists(#key) AND {wire.CLIENT_VERSION} = :seen",
            ExpressionAttributeNames={"#key": self._rows.key},
            ExpressionAttributeValues={
                ":to": _version(to),
                ":me": av.text_value(me),
                ":at": av.moment_value(at, av.MILLISECOND),
                ":history": {"L": list(before)[:_KEPT]},
                ":seen": _version(seen),
            },
        )
        return isinstance(answer, WrittenRow)


def _version(version: ClientVersion) -> dict[str, Any]:
    return dict(av.text_value(f"CLIENT_VERSION_{version}"))


def _entry(row: VersionRow) -> dict[str, Any]:
    """An entry of the history."""
    return {
        "M": {
            wire.CLIENT_VERSION: _version(row.version),
            wire.BY: av.text_value(row.by),
            wire.AT: av.moment_value(row.at, av.MILLISECOND),
        }
    }
