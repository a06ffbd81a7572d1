"""The leader's lock in DynamoDB, with the conditions of AWS's lock client for Java, so that KCL's workers can
use the same lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.pipeline.aws.leases import lock_item as wire
from headrace.pipeline.aws.leases.attributes import Item, text_value
from headrace.pipeline.aws.leases.lease_item import KEY as LEASE_KEY
from headrace.pipeline.aws.leases.rows import ConditionFailed, Place, Rows, WrittenRow
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.errors import WrongShape

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class DynamoLeaderLock:
    """The leader's lock. With the key `leaseKey` the lock is in the lease table (layout S), and its row has
    the attribute entityType."""

    def __init__(
        self, client: DynamoDBClient, table: str | Callable[[], Place], *, key: str = wire.KEY
    ) -> None:
        self._rows = Rows(client, table, key=key)

    def read(self) -> LockRow | None:
        item = self._rows.get(wire.LEADER)
        return None if item is None else self._understood(item)

    def take(self, mine: LockRow, *, seen: LockRow | None) -> bool:
        # The three conditions under which AWS's lock client takes a lock: no row, a released one, or an
        # expired one whose version hasn't changed since it was seen to stand still. `#key` stands for the
        # key's name, because `key` is a reserved word of DynamoDB's expressions.
        values: dict[str, Item] = {}
        if seen is None:
            condition = "attribute_not_exists(#key)"
        elif seen.released:
            condition = f"attribute_exists(#key) AND {wire.RELEASED} = :released"
            values = {":released": text_value("1")}
        else:
            condition = f"attribute_exists(#key) AND {wire.VERSION} = :seen"
            values = {":seen": text_value(seen.version)}
        answer = self._rows.write(
            "put_item",
            Item=wire.write_lock(mine, key=self._rows.key, entity_type=self._rows.key == LEASE_KEY),
            ConditionExpression=condition,
            ExpressionAttributeNames={"#key": self._rows.key},
            **({"ExpressionAttributeValues": values} if values else {}),
        )
        return self._is_mine(answer, mine.owner, mine.version)

    def beat(self, mine: LockRow, version: str) -> bool:
        answer = self._mine(
            "update_item",
            mine,
            UpdateExpression=f"SET {wire.DURATION} = :duration, {wire.VERSION} = :version",
            values={":duration": wire.duration_value(mine.duration), ":version": text_value(version)},
        )
        return self._is_mine(answer, mine.owner, version)

    def release(self, mine: LockRow) -> bool:
        """Delete the lock. Returns True also where the row is gone already, because boto3 retries after a lost
        answer and then finds no row.
        """
        answer = self._mine("delete_item", mine)
        return isinstance(answer, WrittenRow) or answer.row is None

    def _mine(
        self, operation: Any, mine: LockRow, *, values: Any = None, **request: Any
    ) -> WrittenRow | ConditionFailed:
        """A write that is refused unless the row is as this worker last wrote it."""
        me = {":seen": text_value(mine.version), ":me": text_value(mine.owner)}
        return self._rows.write(
            operation,
            Key=self._rows.key_of(wire.LEADER),
            ConditionExpression=f"attribute_exists(#key) AND {wire.VERSION} = :seen AND {wire.OWNER} = :me",
            ExpressionAttributeNames={"#key": self._rows.key},
            ExpressionAttributeValues={**me, **(values or {})},
            **request,
        )

    def _is_mine(self, answer: WrittenRow | ConditionFailed, owner: str, version: str) -> bool:
        """Whether this worker's write arrived. Each write has a new version: a row that has it was written by
        this call, also where boto3 lost the first answer and its own retry was refused.
        """
        if isinstance(answer, WrittenRow):
            return True
        if answer.row is None:
            return False
        row = self._understood(answer.row)
        return (row.owner, row.version) == (owner, version)

    def _understood(self, item: Item) -> LockRow:
        try:
            return wire.read_lock(item)
        except WrongShape as error:
            raise WrongShape(
                f"the row {wire.LEADER} of table {self._rows.table} can't be understood: {error}. There is no leader "
                "meanwhile, and runs go on; delete the row, then the next tick of a leader's sensor takes the lock"
            ) from error
