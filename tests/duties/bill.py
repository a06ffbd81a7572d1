"""What DynamoDB would charge: requests are counted as they leave the client, units by the sizes of the items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

READ_UNIT, WRITE_UNIT = 4096, 1024
"""Bytes."""
_WRITES = {"PutItem", "UpdateItem", "DeleteItem"}
_LISTS = {"Scan", "Query"}


@dataclass
class Bill:
    """The requests and units of one tick, or of many."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many requests there were, by operation and table."""
    reads: float = 0
    writes: float = 0
    """Units. A consistent read costs one for each 4 KB, an eventually consistent read half of that, a write one for
    each 1 KB."""

    def of(self, operation: str, table: str | None = None) -> int:
        return sum(n for (op, on), n in self.requests.items() if op == operation and table in {None, on})

    @property
    def scans(self) -> int:
        return self.of("Scan")

    @property
    def written(self) -> int:
        return sum(n for (op, _), n in self.requests.items() if op in _WRITES)

    def add(self, other: Bill) -> None:
        self.requests.update(other.requests)
        self.reads += other.reads
        self.writes += other.writes

    def times(self, factor: float) -> Bill:
        requests = Counter({what: round(n * factor) for what, n in self.requests.items()})
        return Bill(requests, self.reads * factor, self.writes * factor)

    def __str__(self) -> str:
        names = ("Scan", "Query", "GetItem", "BatchGetItem")
        asked = "  ".join(f"{name} {self.of(name):4}" for name in names)
        return f"{asked}  writes {self.written:4}  | units: read {self.reads:8.1f}  write {self.writes:6.1f}"


class Meter:
    """Counts the requests of a client, and adds them to all bills that are open."""

    def __init__(self, client: DynamoDBClient) -> None:
        self._open: list[Bill] = []
        self._adding = Lock()  # many rows are written by sixteen threads
        self._events = client.meta.events

    @contextmanager
    def listening(self) -> Iterator[Meter]:
        asked, answered = "provide-client-params.dynamodb", "after-call.dynamodb"
        self._events.register(asked, self._note)
        self._events.register(answered, self._charge)
        try:
            yield self
        finally:
            self._events.unregister(asked, self._note)
            self._events.unregister(answered, self._charge)

    @contextmanager
    def bill(self) -> Iterator[Bill]:
        bill = Bill()
        self._open.append(bill)
        try:
            yield bill
        finally:
            self._open.remove(bill)

    @staticmethod
    def _note(params: Mapping[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["asked"] = params

    def _charge(self, model: Any, parsed: Mapping[str, Any], context: Mapping[str, Any], **_: Any) -> None:
        asked = context["asked"]
        tables = list(asked.get("RequestItems", ())) or [asked.get("TableName", "")]
        reads, writes = _read_units(model.name, asked, parsed), _write_units(model.name, asked, parsed)
        self.add(model.name, tables, reads=reads, writes=writes)

    def add(self, operation: str, tables: Sequence[str], *, reads: float = 0.0, writes: float = 0.0) -> None:
        """Add one request to all bills that are open."""
        with self._adding:
            for bill in self._open:
                bill.requests.update((operation, table) for table in tables)
                bill.reads += reads
                bill.writes += writes


def _read_units(operation: str, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> float:
    """The units of a read. The size of a listing is rounded up as a whole, that of single rows one by one; a
    missing row costs one unit. Rows that a filter hides would cost units too, which this doesn't count."""
    if operation in _LISTS:
        return _share(asked) * max(1, ceil(sum(map(size_of, answer["Items"])) / READ_UNIT))
    if operation == "GetItem":
        return _share(asked) * units_of(answer.get("Item", {}), READ_UNIT)
    if operation == "BatchGetItem":
        found = answer.get("Responses", {})
        return sum(_batch(said, found.get(table, ())) for table, said in asked["RequestItems"].items())
    return 0.0


def _batch(said: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> float:
    """The units of a batch of rows."""
    units = sum(units_of(item, READ_UNIT) for item in found) + len(said["Keys"]) - len(found)
    return units * _share(said)


def _share(said: Mapping[str, Any]) -> float:
    """An eventually consistent read costs half."""
    return 1.0 if said.get("ConsistentRead") else 0.5


def _write_units(operation: str, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> float:
    """The units of a write. A refused write costs as many as the row that is there."""
    if operation not in _WRITES:
        return 0.0
    written = asked.get("Item") or answer.get("Attributes") or answer.get("Item") or {}
    return units_of(written, WRITE_UNIT)


def units_of(item: Mapping[str, Any], unit: int) -> int:
    return max(1, ceil(size_of(item) / unit))


def size_of(item: Mapping[str, Any]) -> int:
    """An item's size as DynamoDB's guide counts it: names and texts in UTF-8, at most 21 bytes for a number, 3 for
    a list or map and 1 for each of its members."""
    return sum(len(name.encode()) + _value(value) for name, value in item.items())


def _value(value: Mapping[str, Any]) -> int:
    ((kind, said),) = value.items()
    match kind:
        case "S":
            return len(said.encode())
        case "N":
            return min(21, (len(said) + 1) // 2 + 2)
        case "B":
            return len(said)
        case "SS" | "NS" | "BS":
            return sum(len(each) for each in said)
        case "M":
            return 3 + sum(1 + len(name.encode()) + _value(each) for name, each in said.items())
        case "L":
            return 3 + sum(1 + _value(each) for each in said)
        case _:
            return 1
