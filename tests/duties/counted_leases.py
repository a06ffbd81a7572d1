"""Lease rows in memory, and a count of the requests that the store on DynamoDB would send for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from headrace.pipeline.aws.leases.attributes import Item, text_value
from headrace.pipeline.aws.leases.lease_item import KEY, OWNER, write_change, write_lease
from headrace.pipeline.aws.leases.read_costs import is_scan_cheaper
from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.ports.leases import NO_ROWS, Listing
from tests.duties.bill import READ_UNIT, WRITE_UNIT, Meter, size_of
from tests.memory.leases import MemoryLeaseStore

_OPERATIONS = {"put_item": "PutItem", "update_item": "UpdateItem", "delete_item": "DeleteItem"}
_BATCH = 100
"""Rows of one BatchGetItem."""
_PAGE = 1024 * 1024
"""Bytes of one page of a scan or query."""


class CountedLeases(MemoryLeaseStore):
    def __init__(self, meter: Meter, table: str) -> None:
        super().__init__()
        self._meter = meter
        self._table = (table,)
        self._sizes: dict[str, tuple[Lease, int]] = {}
        self._known_rows: int | None = None
        """As many rows as the last scan has found."""

    def get(self, key: str) -> Lease | None:
        found = super().get(key)
        self._meter.add("GetItem", self._table, reads=self._units(found, READ_UNIT))
        return found

    def get_many(self, keys: Sequence[str]) -> Listing:
        if is_scan_cheaper(len(keys), self._known_rows):
            self._scan(consistent=True)
            return super().get_many(keys)
        for some in range(0, len(keys), _BATCH):
            rows = (self._rows.get(key) for key in keys[some : some + _BATCH])
            reads = sum(self._units(row, READ_UNIT) for row in rows)
            self._meter.add("BatchGetItem", self._table, reads=reads)
        return super().get_many(keys)

    def scan(self) -> Listing:
        self._scan(consistent=False)
        return super().scan()

    def _scan(self, *, consistent: bool) -> None:
        self._known_rows = len(self._rows)
        self._count_pages("Scan", map(self._size, self._rows.values()), consistent=consistent)

    def held_by(self, worker_id: str, known: Mapping[str, Lease] = NO_ROWS) -> Listing:
        owned = super().held_by(worker_id)
        self._count_pages("Query", (size_of(_indexed(row)) for row in owned.leases))
        self.get_many([row.key for row in owned.leases if row.key not in known])
        return super().held_by(worker_id, known)

    def apply(self, change: Change) -> Applied | Refused:
        outcome = super().apply(change)
        row = outcome.lease if isinstance(outcome, Applied) else outcome.row
        operation, _ = write_change(change)
        self._meter.add(_OPERATIONS[operation], self._table, writes=self._units(row, WRITE_UNIT))
        return outcome

    def _count_pages(self, operation: str, sizes: Iterable[int], *, consistent: bool = False) -> None:
        """Pages of a listing, which costs half where it is eventually consistent."""
        for page in _pages(sizes):
            share = 1.0 if consistent else 0.5
            self._meter.add(operation, self._table, reads=share * max(1, -(-page // READ_UNIT)))

    def _units(self, row: Lease | None, unit: int) -> int:
        return 1 if row is None else max(1, -(-self._size(row) // unit))

    def _size(self, row: Lease) -> int:
        """A row's size in DynamoDB's form; kept until the row changes."""
        kept = self._sizes.get(row.key)
        if kept is None or kept[0] is not row:
            kept = self._sizes[row.key] = (row, size_of(write_lease(row)))
        return kept[1]


def _indexed(row: Lease) -> Item:
    """What the owner index has of a row."""
    return {KEY: text_value(row.key), OWNER: text_value(row.owner or "")}


def _pages(sizes: Iterable[int]) -> Iterator[int]:
    """The bytes of each page; one page at least."""
    page = 0
    for size in sizes:
        page += size
        if page >= _PAGE:
            yield page
            page = 0
    yield page
