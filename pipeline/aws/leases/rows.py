"""Reads and conditional writes of one DynamoDB table. A condition that fails is a result (`ConditionFailed`),
not an exception."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from botocore.exceptions import ClientError

from headrace.pipeline.aws.clients.clients import asking_aws, place_of_client
from headrace.pipeline.aws.clients.error_codes import code_of
from headrace.pipeline.aws.leases.attributes import Item
from headrace.pipeline.errors import TablesMissing, Throttled

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Write = Literal["put_item", "update_item", "delete_item"]
_WRITES: Final = frozenset(get_args(Write))

_NO_TABLE: Final = "ResourceNotFoundException"
NO_INDEX: Final = frozenset({"ValidationException", _NO_TABLE})
"""Codes for a missing index: AWS uses the first, local replacements of DynamoDB the second, which may also
mean that the whole table is missing. The caller then scans the table, and learns which it was.
"""
_REFUSED: Final = frozenset({"ConditionalCheckFailedException"})
# Rows of one BatchGetItem, by DynamoDB's limit.
_BATCH: Final = 100
# Segments of a scan, or batches of rows, that are read at the same time: fewer than the client's 32
# connections.
_AT_ONCE: Final = 10
# After so many BatchGetItem answers in a row without any row, the table counts as throttled.
_PATIENCE: Final = 5


@dataclass(frozen=True, slots=True)
class Place:
    """The table that has the rows of one type, and the name of its key."""

    table: str
    key: str


@dataclass(frozen=True, slots=True)
class WrittenRow:
    row: Item
    """The row after an update; for a delete, and for a put over another row, the row before."""


@dataclass(frozen=True, slots=True)
class ConditionFailed:
    """The result of a write whose condition didn't hold; nothing was written."""

    row: Item | None
    """The row that didn't meet the condition; None where there is no such row."""


class Rows:
    """The rows of one table. `table` may be a function, which is called for each request: the rows can move to another
    table while this process runs."""

    def __init__(self, client: DynamoDBClient, table: str | Callable[[], Place], *, key: str) -> None:
        self.client = client
        self._place = Place(table, key) if isinstance(table, str) else table

    @property
    def place(self) -> Place:
        return self._place if isinstance(self._place, Place) else self._place()

    @property
    def table(self) -> str:
        return self.place.table

    @property
    def key(self) -> str:
        return self.place.key

    def get(self, key: str) -> Item | None:
        # Consistent, so that a condition made from this row isn't refused because the row was stale.
        answer = self._ask("get_item", Key=self.key_of(key), ConsistentRead=True)
        item: Item | None = answer.get("Item")
        return item

    def get_many(self, keys: Sequence[str]) -> list[Item]:
        """Read rows by their keys, consistently. Rows that don't exist are left out. More than a hundred take
        several requests, which are sent side by side: a run reads all rows that it keeps twice in each
        wave."""
        batches = [keys[first : first + _BATCH] for first in range(0, len(keys), _BATCH)]
        if len(batches) < 2:
            # One request isn't worth a thread.
            return [item for batch in batches for item in self._get_batch(batch)]
        with ThreadPoolExecutor(min(len(batches), _AT_ONCE), "headrace-rows") as pool:
            return [item for items in pool.map(self._get_batch, batches) for item in items]

    def scan(self, *, consistent: bool = False, **filters: Any) -> Iterator[Item]:
        return self._pages("scan", ConsistentRead=consistent, **filters)

    def scan_in_segments(self, segments: int, **filters: Any) -> list[Item]:
        """Scan a large table in parallel segments."""
        if segments == 1:
            return list(self.scan(**filters))
        segment_keys = [{"Segment": number, "TotalSegments": segments} for number in range(segments)]
        with ThreadPoolExecutor(min(segments, _AT_ONCE)) as pool:
            pages = pool.map(lambda segment: list(self.scan(**segment, **filters)), segment_keys)
            return [item for items in pages for item in items]

    def query(self, index: str, **condition: Any) -> Iterator[Item]:
        """Query an index. Raises ClientError with a code of `NO_INDEX` if the index was deleted, as KCL's
        rollback tool does."""
        return self._pages("query", passing=NO_INDEX, IndexName=index, **condition)

    def write(self, operation: Write, **request: Any) -> WrittenRow | ConditionFailed:
        """Write a row. With a ConditionExpression in the request, the answer may be `ConditionFailed`."""
        returned = "ALL_NEW" if operation == "update_item" else "ALL_OLD"
        # With this, a refusal brings the row that didn't meet the condition: no second read, and no race
        # between the two.
        if "ConditionExpression" in request:
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        try:
            answer = self._ask(operation, passing=_REFUSED, ReturnValues=returned, **request)
        except ClientError as refusal:
            return ConditionFailed(refusal.response.get("Item") or None)  # type: ignore[arg-type]
        return WrittenRow(answer.get("Attributes", {}))

    def describe(self) -> Mapping[str, Any]:
        facts: Mapping[str, Any] = self._ask("describe_table")["Table"]
        return facts

    def key_of(self, key: str) -> Item:
        return {self.key: {"S": key}}

    def _get_batch(self, keys: Iterable[str]) -> list[Item]:
        requested: Any = {self.table: {"Keys": [self.key_of(k) for k in keys], "ConsistentRead": True}}
        items: list[Item] = []
        idle = 0
        while requested:
            answer = self._ask("batch_get_item", table=False, RequestItems=requested)
            brought = answer.get("Responses", {}).get(self.table, [])
            items += brought
            idle = 0 if brought else idle + 1
            # DynamoDB leaves keys out when it throttles or the answer is over 16 MB: they have to be asked for again.
            requested = answer.get("UnprocessedKeys") or {}
            if requested and idle >= _PATIENCE:
                raise Throttled(
                    f"table {self.table}: {_PATIENCE} answers in a row held none of the rows. "
                    "Nothing was written; the next tick tries again"
                )
        return items

    def _pages(self, operation: str, **request: Any) -> Iterator[Item]:
        while True:
            answer = self._ask(operation, **request)
            yield from answer.get("Items", ())
            # A page may have no items and yet not be the last: filters are applied after the page was read.
            if not answer.get("LastEvaluatedKey"):
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def _ask(
        self, operation: str, *, table: bool = True, passing: frozenset[str] = frozenset(), **request: Any
    ) -> Any:
        if table:
            request["TableName"] = self.table
        try:
            with asking_aws(
                f"table {self.table}", passing=passing | {_NO_TABLE}, writes=operation in _WRITES
            ):
                return getattr(self.client, operation)(**request)
        except ClientError as error:
            # A query may get this code for a missing index: then the caller handles it.
            if code_of(error) == _NO_TABLE and _NO_TABLE not in passing:
                raise missing_tables([self.table], self.client) from error
            raise


def missing_tables(names: Sequence[str], client: DynamoDBClient) -> TablesMissing:
    tables = (
        f"the table {names[0]} doesn't exist"
        if len(names) == 1
        else f"the tables {', '.join(names)} don't exist"
    )
    return TablesMissing(
        f"{tables} in {place_of_client(client)}. Nothing was written. No landed record is lost, because its position is in "
        "the lake table; a processor with mode: application has its checkpoints in its lease table alone. "
        "With coordination.create: auto, the default, "
        "the leader's next tick creates missing tables; with never, create them by `headrace tables create`"
    )
