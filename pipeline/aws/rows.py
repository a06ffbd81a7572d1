"""One DynamoDB table as rows: consistent reads, all pages of a list, conditional writes whose refusal is an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from botocore.exceptions import ClientError

from pipeline.aws.attributes import Item
from pipeline.aws.clients import asking, code_of, where
from pipeline.errors import TablesMissing, Throttled

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Write = Literal["put_item", "update_item", "delete_item"]
_WRITES: Final = frozenset(get_args(Write))

_NO_TABLE: Final = "ResourceNotFoundException"
NO_INDEX: Final = frozenset({"ValidationException", _NO_TABLE})
"""AWS says the first, stand-ins the second; who then scans learns whether the table itself is missing."""
_REFUSED: Final = frozenset({"ConditionalCheckFailedException"})
_BATCH: Final = 100
"""Rows of one BatchGetItem, by DynamoDB's limit."""
_AT_ONCE: Final = 10
"""Parts of a scan under way: the client has a few connections more."""
_PATIENCE: Final = 5
"""Answers in a row that bring no row, before the rest counts as throttled."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where rows of one kind lie."""

    table: str
    key: str


@dataclass(frozen=True, slots=True)
class Written:
    row: Item
    """As it is now; for a delete, and a put over another row, as it was."""


@dataclass(frozen=True, slots=True)
class Stood:
    """The condition didn't hold; nothing was written."""

    row: Item | None
    """The row that stood in the way; None when there is none."""


class Rows:
    """`table` may be a question instead of a name, asked once: rows that KCL's workers may move to another table."""

    def __init__(self, client: DynamoDBClient, table: str | Callable[[], Place], *, key: str) -> None:
        self.client = client
        self._where = Place(table, key) if isinstance(table, str) else table

    @property
    def place(self) -> Place:
        if not isinstance(self._where, Place):
            self._where = self._where()
        return self._where

    @property
    def table(self) -> str:
        return self.place.table

    @property
    def key(self) -> str:
        return self.place.key

    def get(self, key: str) -> Item | None:
        answer = self._ask("get_item", Key=self.key_of(key), ConsistentRead=True)
        found: Item | None = answer.get("Item")
        return found

    def get_many(self, keys: Sequence[str]) -> list[Item]:
        """Consistently; rows that aren't there are left out."""
        found: list[Item] = []
        for first in range(0, len(keys), _BATCH):
            found += self._get_batch(keys[first : first + _BATCH])
        return found

    def scan(self, *, consistent: bool = False, **filters: Any) -> Iterator[Item]:
        return self._pages("scan", ConsistentRead=consistent, **filters)

    def scan_in_segments(self, segments: int, **filters: Any) -> list[Item]:
        """All parts at once, for tables whose pages would take long one by one."""
        if segments == 1:
            return list(self.scan(**filters))
        parts = [{"Segment": number, "TotalSegments": segments} for number in range(segments)]
        with ThreadPoolExecutor(min(segments, _AT_ONCE)) as pool:
            found = pool.map(lambda part: list(self.scan(**part, **filters)), parts)
            return [item for items in found for item in items]

    def query(self, index: str, **condition: Any) -> Iterator[Item]:
        """A ClientError of `NO_INDEX` passes: somebody has deleted the index, as KCL's rollback tool does."""
        return self._pages("query", passing=NO_INDEX, IndexName=index, **condition)

    def write(self, operation: Write, **request: Any) -> Written | Stood:
        """Needs a ConditionExpression in the request to be refused at all."""
        wanted = "ALL_NEW" if operation == "update_item" else "ALL_OLD"
        if "ConditionExpression" in request:
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        try:
            answer = self._ask(operation, passing=_REFUSED, ReturnValues=wanted, **request)
        except ClientError as refusal:
            return Stood(refusal.response.get("Item") or None)  # type: ignore[arg-type]
        return Written(answer.get("Attributes", {}))

    def describe(self) -> Mapping[str, Any]:
        facts: Mapping[str, Any] = self._ask("describe_table")["Table"]
        return facts

    def key_of(self, key: str) -> Item:
        return {self.key: {"S": key}}

    def _get_batch(self, keys: Iterable[str]) -> list[Item]:
        asked: Any = {self.table: {"Keys": [self.key_of(k) for k in keys], "ConsistentRead": True}}
        found: list[Item] = []
        idle = 0
        while asked:
            answer = self._ask("batch_get_item", table=False, RequestItems=asked)
            brought = answer.get("Responses", {}).get(self.table, [])
            found += brought
            idle = 0 if brought else idle + 1
            asked = answer.get("UnprocessedKeys") or {}
            if asked and idle >= _PATIENCE:
                raise Throttled(
                    f"table {self.table}: {_PATIENCE} answers brought none of the rows. Nothing was written"
                )
        return found

    def _pages(self, operation: str, **request: Any) -> Iterator[Item]:
        while True:
            answer = self._ask(operation, **request)
            yield from answer.get("Items", ())
            if not answer.get("LastEvaluatedKey"):
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def _ask(
        self, operation: str, *, table: bool = True, passing: frozenset[str] = frozenset(), **request: Any
    ) -> Any:
        if table:
            request["TableName"] = self.table
        try:
            with asking(f"table {self.table}", passing=passing | {_NO_TABLE}, writes=operation in _WRITES):
                return getattr(self.client, operation)(**request)
        except ClientError as error:
            if code_of(error) == _NO_TABLE and _NO_TABLE not in passing:
                raise missing_tables([self.table], self.client) from error
            raise


def missing_tables(names: Sequence[str], client: DynamoDBClient) -> TablesMissing:
    tables = f"the table {names[0]} isn't" if len(names) == 1 else f"the tables {', '.join(names)} aren't"
    return TablesMissing(
        f"{tables} in {where(client)}. Nothing was written and no record is lost: positions are in the lake table. "
        "With coordination.create: auto, the default, the leader's next tick makes them; with never, `headrace tables create` "
        "makes them"
    )
