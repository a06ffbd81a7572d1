"""The LeaseStore port on DynamoDB's lease table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from headrace.pipeline.aws.clients.error_codes import code_of
from headrace.pipeline.aws.leases.attributes import Item, text_value
from headrace.pipeline.aws.leases.lease_item import (
    CHECKPOINT_OWNER,
    KEY,
    OWNER,
    OWNER_INDEX,
    is_no_lease,
    read_lease,
    write_change,
)
from headrace.pipeline.aws.leases.read_costs import is_scan_cheaper
from headrace.pipeline.aws.leases.rows import NO_INDEX, ConditionFailed, Rows
from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.leases.change import Applied, Change, Outcome, Refused
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.own_write import is_own_write
from headrace.pipeline.errors import HeadraceError, TablesMissing, Transient, WrongShape
from headrace.pipeline.kcl.scan_segments import scan_segments
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.leases import NO_ROWS, Listing, SkippedRow

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


# Seconds for which the table's size is remembered, as in KCL. DynamoDB updates the size every six hours
# only.
_SIZE_HOLDS: Final = 2 * 60 * 60.0
# Writes at the same time. The client has 32 connections, so that beats don't wait for these writes.
_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class _TableFacts:
    """What DynamoDB tells of the table's size, which it counts every six hours."""

    until: float = 0.0
    """Until when, by the monotonic clock, it isn't asked again."""
    bytes: int | None = None
    rows: int | None = None


class DynamoLeaseStore:
    """The lease table. `entity_type`: whether new rows get the attribute entityType. KCL workers before 3.5 don't
    know it.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        *,
        clock: Clock | None = None,
        entity_type: Callable[[], bool] = lambda: True,
    ) -> None:
        self._rows = Rows(client, table, key=KEY)
        self._clock = clock or SystemClock()
        self._entity_type = entity_type
        self._facts = _TableFacts()
        self._scanned: int | None = None
        """How many rows the last scan has found."""
        self._is_indexed = False
        """The owner index was ACTIVE when it was last looked up. It counts as ACTIVE until a query fails."""

    def get(self, key: str) -> Lease | None:
        item = self._rows.get(key)
        return None if item is None else self._understood(item)

    def get_many(self, keys: Sequence[str]) -> Listing:
        return _listing(self._read(keys))

    def scan(self) -> Listing:
        """All leases, by eventually consistent reads, which cost half. A stale row does no harm: every write
        that is decided from it has the row's values as its condition.
        """
        return _listing(self._scan())

    def held_by(self, worker_id: str, known: Mapping[str, Lease] = NO_ROWS) -> Listing:
        """The leases of a worker. Once the owner index is ACTIVE, leases that the worker is handing over are
        missing in the answer, because leaseOwner already names the next owner. A worker that still reads such a
        shard knows the row's key, and reads the row by its key.
        """
        if self._has_index():
            listing = self._held_by_index(worker_id, known)
            if listing is not None:
                return listing
        return self._held_by_scan(worker_id)

    def apply(self, change: Change) -> Applied | Refused:
        # Only a new row needs the answer, which may take requests: an update never touches entityType.
        entity_type = change.create is None or self._entity_type()
        operation, request = write_change(change, entity_type=entity_type)
        answer = self._rows.write(operation, **request)
        if not isinstance(answer, ConditionFailed):
            return Applied(change.create or self._understood(answer.row))
        row = None if answer.row is None else self._understood(answer.row)
        # After a lost answer boto3 sends the request again, and the condition refuses it because the first
        # one was carried out.
        if row is not None and is_own_write(change, row):
            return Applied(row)
        return Refused(row)

    @property
    def at_once(self) -> int:
        return _AT_ONCE

    def apply_all(self, changes: Sequence[Change]) -> tuple[Outcome, ...]:
        """Apply changes at the same time, and not as one transaction: if the change of one row is refused, the
        others are still made.
        """
        trouble: list[Transient] = []
        if len(changes) < 2:
            # One write isn't worth a thread.
            return tuple(self._outcome(trouble, change) for change in changes)
        with ThreadPoolExecutor(min(_AT_ONCE, len(changes)), "headrace-rows") as pool:
            return tuple(pool.map(partial(self._outcome, trouble), changes))

    def _outcome(self, trouble: list[Transient], change: Change) -> Outcome:
        """Apply one change. Once 16 writes in a row have met Transient errors, the rest isn't tried: each
        would wait for a timeout."""
        if len(trouble) >= _AT_ONCE:
            return trouble[-1]
        try:
            done = self.apply(change)
        except HeadraceError as error:
            if isinstance(error, Transient):
                trouble.append(error)
            return error
        # Operations on a list are atomic, so the threads share the list without a lock.
        trouble.clear()
        return done

    def _read(self, keys: Sequence[str]) -> list[Item]:
        """The rows with these keys, consistently, by the requests that cost the fewest units. Both kinds show each
        write that was answered before they were sent."""
        if len(keys) < 2 or not is_scan_cheaper(len(keys), self._count()):
            return self._rows.get_many(keys)
        wanted = frozenset(keys)
        return [item for item in self._scan(consistent=True) if item[KEY]["S"] in wanted]

    def _scan(self, *, consistent: bool = False) -> list[Item]:
        items = self._rows.scan_in_segments(scan_segments(self._bytes()), consistent=consistent)
        self._scanned = len(items)
        return items

    def _count(self) -> int | None:
        """About how many rows the table has; None where nothing tells."""
        return self._table_facts().rows if self._scanned is None else self._scanned

    def _held_by_scan(self, worker_id: str) -> Listing:
        # Consistent, which costs twice as much: a worker must not miss a lease that it has just been given.
        # DynamoDB bills the whole table for a scan, whatever the filter leaves.
        return _listing(
            self._rows.scan(
                consistent=True,
                FilterExpression=f"{OWNER} = :me OR {CHECKPOINT_OWNER} = :me",
                ExpressionAttributeValues={":me": text_value(worker_id)},
            )
        )

    def _held_by_index(self, worker_id: str, known: Mapping[str, Lease]) -> Listing | None:
        """The worker's leases by the owner index; None if the index was deleted. The index lags behind the
        table, so it only gives keys, and rows that aren't known are then read consistently.
        """
        try:
            keys = self._keys_of(worker_id)
        except ClientError as error:
            if code_of(error) not in NO_INDEX:
                raise
            self._is_indexed = False
            return None
        listing = _listing(self._read([key for key in keys if key not in known]))
        # Checked again, because the index may still name this worker for a lease that another worker has by now.
        read = [lease for lease in listing.leases if worker_id in {lease.owner, lease.checkpoint_owner}]
        return Listing((*(known[key] for key in keys if key in known), *read), listing.skipped)

    def _keys_of(self, worker_id: str) -> list[str]:
        rows = self._rows.query(
            OWNER_INDEX,
            KeyConditionExpression=f"{OWNER} = :me",
            ExpressionAttributeValues={":me": text_value(worker_id)},
        )
        return [row[KEY]["S"] for row in rows]

    def _bytes(self) -> int | None:
        """The table's size in bytes; None if it could never be read, in which case the scan runs with a
        default of segments."""
        return self._table_facts().bytes

    def _table_facts(self) -> _TableFacts:
        facts = self._facts
        if facts.bytes is None or self._clock.monotonic() > facts.until:
            try:
                described = self._rows.describe()
            except TablesMissing:
                raise
            except HeadraceError:
                # The size only decides how rows are read: a read must not fail because the size isn't known.
                return facts
            until = self._clock.monotonic() + _SIZE_HOLDS
            size, rows = int(described.get("TableSizeBytes", 0)), int(described.get("ItemCount", 0))
            # A new table has no row for DynamoDB until it counts them.
            self._facts = facts = _TableFacts(until, size, rows or None)
        return facts

    def _has_index(self) -> bool:
        """Whether the owner index is ACTIVE. Looked up until it is: DynamoDB needs minutes to build it for a
        large table."""
        if not self._is_indexed:
            self._is_indexed = any(
                index.get("IndexName") == OWNER_INDEX and index.get("IndexStatus") == "ACTIVE"
                for index in self._rows.describe().get("GlobalSecondaryIndexes", ())
            )
        return self._is_indexed

    def _understood(self, item: Item) -> Lease:
        row = read_lease(item)
        if isinstance(row, SkippedRow):
            raise WrongShape(
                f"row {row.key} of table {self._rows.table} can't be understood: {row.why}. "
                "Nothing was changed and no record is lost; correct the row, or delete it: "
                "the leader then makes it again from the lake table"
            )
        return row


def _listing(items: Iterable[Item]) -> Listing:
    """Leases, and rows that can't be understood. Rows of other known types (workers, the lock) are left out
    silently."""
    leases: list[Lease] = []
    skipped: list[SkippedRow] = []
    for item in items:
        if is_no_lease(item):
            continue
        row = read_lease(item)
        leases.append(row) if isinstance(row, Lease) else skipped.append(row)
    return Listing(tuple(leases), tuple(skipped))
