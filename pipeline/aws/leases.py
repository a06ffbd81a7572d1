"""The lease table in DynamoDB."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from pipeline.aws.attributes import Item, text_value
from pipeline.aws.clients import code_of
from pipeline.aws.lease_item import (
    CHECKPOINT_OWNER,
    KEY,
    OWNER,
    OWNER_INDEX,
    is_no_lease,
    read_lease,
    write_change,
)
from pipeline.aws.rows import NO_INDEX, Rows, Stood
from pipeline.core.change import Applied, Change, Outcome, Refused, is_own_work
from pipeline.core.lease import Lease
from pipeline.errors import HeadraceError, TablesMissing, Transient, WrongShape
from pipeline.kcl.pace import scan_segments
from pipeline.ports import Listing, SkippedRow

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


_SIZE_HOLDS: Final = 2 * 60 * 60.0
"""Seconds, as in KCL. DynamoDB itself counts a table's bytes every six hours."""
_SIZES: Final[dict[tuple[str, str], tuple[float, int]]] = {}
"""(endpoint, table) -> until when to believe it, bytes. Stores come and go with the ticks of one process."""
_INDEXED: Final[set[tuple[str, str]]] = set()
"""Tables whose owner index was ACTIVE when last asked. It stays so until a query says otherwise."""
_AT_ONCE: Final = 16
"""Writes under way. The client has as many connections again for the beats beside them."""


class DynamoLeaseStore:
    """`entity_type` answers False for a table shared with KCL workers that are older than 3.5."""

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        *,
        entity_type: Callable[[], bool] = lambda: True,
        segments: int | None = None,
    ) -> None:
        self._rows = Rows(client, table, key=KEY)
        self._entity_type = entity_type
        self._segments = segments

    def get(self, key: str) -> Lease | None:
        item = self._rows.get(key)
        return None if item is None else self._understood(item)

    def get_many(self, keys: Sequence[str]) -> Listing:
        return _listing(self._rows.get_many(keys))

    def scan(self) -> Listing:
        """Eventually consistent: every write that follows from it says what it saw."""
        return _listing(self._rows.scan_in_segments(scan_segments(self._bytes(), self._segments or 0)))

    def held_by(self, worker_id: str) -> Listing:
        """Once the index is ACTIVE, rows that this worker is handing over are missing here: the index shows their
        next owner. Whoever claimed such a row knows its key and gets it (protocol: the leader)."""
        if self._has_index():
            found = self._held_by_index(worker_id)
            if found is not None:
                return found
        return self._held_by_scan(worker_id)

    def apply(self, change: Change) -> Applied | Refused:
        entity_type = change.create is None or self._entity_type()
        operation, request = write_change(change, entity_type=entity_type)
        answer = self._rows.write(operation, **request)
        if not isinstance(answer, Stood):
            return Applied(change.create or self._understood(answer.row))
        found = None if answer.row is None else self._understood(answer.row)
        # boto3 asks again when an answer is lost, and is refused by its own first request.
        if found is not None and is_own_work(change, found):
            return Applied(found)
        return Refused(found)

    def apply_all(self, changes: Sequence[Change]) -> tuple[Outcome, ...]:
        """Not as one transaction: each row's condition is its own affair."""
        trouble: list[Transient] = []
        if len(changes) < 2:
            return tuple(self._outcome(trouble, change) for change in changes)
        with ThreadPoolExecutor(min(_AT_ONCE, len(changes)), "headrace-rows") as pool:
            return tuple(pool.map(partial(self._outcome, trouble), changes))

    def _outcome(self, trouble: list[Transient], change: Change) -> Outcome:
        """After a whole round of writes in trouble, and none between that went well, the others don't wait for it too."""
        if len(trouble) >= _AT_ONCE:
            return trouble[-1]
        try:
            done = self.apply(change)
        except HeadraceError as error:
            if isinstance(error, Transient):
                trouble.append(error)
            return error
        trouble.clear()
        return done

    def _held_by_scan(self, worker_id: str) -> Listing:
        return _listing(
            self._rows.scan(
                consistent=True,
                FilterExpression=f"{OWNER} = :me OR {CHECKPOINT_OWNER} = :me",
                ExpressionAttributeValues={":me": text_value(worker_id)},
            )
        )

    def _held_by_index(self, worker_id: str) -> Listing | None:
        """None when the index has gone meanwhile. The index is late, so the rows themselves have the last word."""
        try:
            keys = self._keys_of(worker_id)
        except ClientError as error:
            if code_of(error) not in NO_INDEX:
                raise
            _INDEXED.discard(self._name)
            return None
        found = _listing(self._rows.get_many(keys))
        return Listing(
            tuple(lease for lease in found.leases if worker_id in {lease.owner, lease.checkpoint_owner}),
            found.skipped,
        )

    def _keys_of(self, worker_id: str) -> list[str]:
        rows = self._rows.query(
            OWNER_INDEX,
            KeyConditionExpression=f"{OWNER} = :me",
            ExpressionAttributeValues={":me": text_value(worker_id)},
        )
        return [row[KEY]["S"] for row in rows]

    def _bytes(self) -> int | None:
        """The table's size; None where it was never to be had: a scan is worth doing even so."""
        if self._segments is not None:
            return None
        until, size = _SIZES.get(self._name, (0.0, None))
        if size is None or time.monotonic() > until:
            try:
                size = int(self._rows.describe().get("TableSizeBytes", 0))
            except TablesMissing:
                raise
            except HeadraceError:
                return size
            _SIZES[self._name] = (time.monotonic() + _SIZE_HOLDS, size)
        return size

    def _has_index(self) -> bool:
        """Asked until the answer is yes: building the index of a full table takes minutes."""
        if self._name not in _INDEXED and any(
            index.get("IndexName") == OWNER_INDEX and index.get("IndexStatus") == "ACTIVE"
            for index in self._rows.describe().get("GlobalSecondaryIndexes", ())
        ):
            _INDEXED.add(self._name)
        return self._name in _INDEXED

    @property
    def _name(self) -> tuple[str, str]:
        return (self._rows.client.meta.endpoint_url, self._rows.table)

    def _understood(self, item: Item) -> Lease:
        found = read_lease(item)
        if isinstance(found, SkippedRow):
            raise WrongShape(
                f"row {found.key} of table {self._rows.table} can't be understood: {found.why}. This call changed nothing "
                "and no record is lost; correct the row, or delete it and it is made again from the lake table"
            )
        return found


def _listing(items: Iterable[Item]) -> Listing:
    """Rows of the other kinds that KCL knows are simply no leases; anything else that isn't understood is told."""
    leases: list[Lease] = []
    skipped: list[SkippedRow] = []
    for item in items:
        if is_no_lease(item):
            continue
        found = read_lease(item)
        leases.append(found) if isinstance(found, Lease) else skipped.append(found)
    return Listing(tuple(leases), tuple(skipped))
