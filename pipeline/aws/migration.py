"""The row `Migration3.0`: which version of KCL's client the workers of an application have agreed on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from pipeline.aws import attributes as av
from pipeline.aws import lock_item
from pipeline.aws import migration_item as wire
from pipeline.aws.lease_item import KEY as LEASE_KEY
from pipeline.aws.migration_item import VersionRow
from pipeline.aws.rows import Place, Rows, Written
from pipeline.errors import WrongShape
from pipeline.kcl.layout import CLIENT_VERSION
from pipeline.kcl.migration import ClientVersion

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class DynamoClientVersion:
    """`key` leaseKey: it lies in the lease table, and says what it is."""

    def __init__(
        self, client: DynamoDBClient, table: str | Callable[[], Place], *, key: str = lock_item.KEY
    ) -> None:
        self._rows = Rows(client, table, key=key)

    def read(self) -> VersionRow | None:
        item = self._rows.get(CLIENT_VERSION)
        try:
            return None if item is None else wire.read_version(item)
        except WrongShape as error:
            raise WrongShape(
                f"the row {CLIENT_VERSION} of table {self._rows.table} can't be understood: {error}. Nothing was written; "
                "it is KCL's, so look there which versions its workers have"
            ) from error

    def change(self, to: ClientVersion, me: str, at: datetime, *, seen: ClientVersion | None) -> bool:
        """Only if the row still says what was seen; None: there was no row."""
        return self._create(to, me, at) if seen is None else self._update(to, me, at, seen=seen)

    def _create(self, to: ClientVersion, me: str, at: datetime) -> bool:
        """KCL's begins with INIT and goes on at once, so that the first entry of the history is that."""
        began = wire.entry(VersionRow(ClientVersion.INIT, me, at))
        item = {
            **self._rows.key_of(CLIENT_VERSION),
            wire.CLIENT_VERSION: wire.version_value(to),
            wire.BY: av.text_value(me),
            wire.AT: av.moment_value(at, av.MILLISECOND),
            wire.HISTORY: wire.history_value([began]),
        }
        if self._rows.key == LEASE_KEY:
            item[wire.ENTITY] = av.text_value(wire.CLIENT_VERSION_TYPE)
        answer = self._rows.write(
            "put_item",
            Item=item,
            ConditionExpression="attribute_not_exists(#key)",
            ExpressionAttributeNames={"#key": self._rows.key},
        )
        return isinstance(answer, Written)

    def _update(self, to: ClientVersion, me: str, at: datetime, *, seen: ClientVersion) -> bool:
        found = self.read()
        before = () if found is None else (wire.entry(found), *found.history)
        answer = self._rows.write(
            "update_item",
            Key=self._rows.key_of(CLIENT_VERSION),
            UpdateExpression=f"SET {wire.CLIENT_VERSION} = :to, {wire.BY} = :me, {wire.AT} = :at, {wire.HISTORY} = :history",
            ConditionExpression=f"attribute_exists(#key) AND {wire.CLIENT_VERSION} = :seen",
            ExpressionAttributeNames={"#key": self._rows.key},
            ExpressionAttributeValues={
                ":to": wire.version_value(to),
                ":me": av.text_value(me),
                ":at": av.moment_value(at, av.MILLISECOND),
                ":history": wire.history_value(before),
                ":seen": wire.version_value(seen),
            },
        )
        return isinstance(answer, Written)
