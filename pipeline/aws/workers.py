"""The worker table in DynamoDB."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pipeline.aws import attributes as av
from pipeline.aws import worker_item as wire
from pipeline.aws.attributes import Item
from pipeline.aws.rows import Rows, Stood, Written
from pipeline.core.worker import Worker
from pipeline.errors import WrongShape
from pipeline.ports import Clock, SkippedRow

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_FORGET: Final = 100
"""Claims of one write: an expression has 4 KB."""

_FILL: Final = (
    f"{wire.STATS} = if_not_exists({wire.STATS}, :empty), "
    f"{wire.RANGES} = if_not_exists({wire.RANGES}, :empty), "
    f"{wire.RUN_BEATS} = if_not_exists({wire.RUN_BEATS}, :empty)"
)
"""Empty maps are KCL's worker without a metric source; without them its leader takes the row for a broken one."""
_EMPTY: Final[Item] = {":empty": {"M": {}}}


class DynamoWorkerStore:
    def __init__(self, client: DynamoDBClient, table: str, *, clock: Clock, key: str = wire.KEY) -> None:
        self._rows = Rows(client, table, key=key)
        self._clock = clock

    def list(self) -> tuple[Worker, ...]:
        found = (wire.read_worker(item, key=self._rows.key) for item in self._rows.scan(consistent=True))
        return tuple(each for each in found if isinstance(each, Worker))

    def get(self, worker_id: str) -> Worker | None:
        item = self._rows.get(worker_id)
        return None if item is None else self._understood(item)

    def beat(self, worker_id: str, instance: str, *, found: str | None) -> Worker | None:
        condition = f"{wire.INSTANCE} = :found" if found else f"attribute_not_exists({wire.INSTANCE})"
        values = {":instance": av.text_value(instance), **({":found": av.text_value(found)} if found else {})}
        answer = self._upsert(
            worker_id,
            f"SET {_FILL}, {wire.LAST_UPDATE} = :now, {wire.INSTANCE} = :instance ADD {wire.BEAT} :one",
            ConditionExpression=condition,
            values={**values, **_EMPTY, ":now": self._now(), ":one": av.number_value(1)},
        )
        if isinstance(answer, Written):
            return self._understood(answer.row)
        # It is this instance's already: it restarted, or boto3 asked again when the first answer was lost.
        if found != instance and answer.row is not None and self._understood(answer.row).instance == instance:
            return self.beat(worker_id, instance, found=instance)
        return None

    def beat_run(self, worker_id: str, run_claim: str) -> None:
        if isinstance(self._beat_run(worker_id, run_claim), Stood):
            self._upsert(
                worker_id,
                f"SET {_FILL}, {wire.LAST_UPDATE} = if_not_exists({wire.LAST_UPDATE}, :now)",
                values={**_EMPTY, ":now": self._now()},
            )
            self._beat_run(worker_id, run_claim)

    def _beat_run(self, worker_id: str, run_claim: str) -> Written | Stood:
        """Refused where the map is missing: DynamoDB takes a path into nothing for a mistake."""
        beats = f"{wire.RUN_BEATS}.#claim"
        return self._upsert(
            worker_id,
            f"SET {beats} = if_not_exists({beats}, :zero) + :one",
            ConditionExpression=f"attribute_exists({wire.RUN_BEATS})",
            ExpressionAttributeNames={"#claim": run_claim},
            values={":zero": av.number_value(0), ":one": av.number_value(1)},
        )

    def forget_runs(self, worker_id: str, claims: Iterable[str]) -> None:
        gone = sorted(set(claims))
        for first in range(0, len(gone), _FORGET):
            names = {f"#c{i}": claim for i, claim in enumerate(gone[first : first + _FORGET])}
            self._upsert(
                worker_id,
                f"REMOVE {', '.join(f'{wire.RUN_BEATS}.{name}' for name in names)}",
                ConditionExpression=f"attribute_exists({wire.RUN_BEATS})",
                ExpressionAttributeNames=names,
            )

    def set_stopping(self, worker_id: str, *, stopping: bool) -> None:
        self._upsert(
            worker_id,
            f"SET {_FILL}, {wire.LAST_UPDATE} = if_not_exists({wire.LAST_UPDATE}, :now), {wire.STOPPING} = :stopping",
            values={**_EMPTY, ":now": self._now(), ":stopping": {"BOOL": stopping}},
        )

    def count_assign_pass(self, worker_id: str) -> None:
        self._upsert(
            worker_id,
            f"SET {_FILL}, {wire.LAST_UPDATE} = if_not_exists({wire.LAST_UPDATE}, :now) ADD {wire.ASSIGN_PASS} :one",
            values={**_EMPTY, ":now": self._now(), ":one": av.number_value(1)},
        )

    def _upsert(
        self, worker_id: str, update: str, *, values: Mapping[str, Item] | None = None, **request: Any
    ) -> Written | Stood:
        if values:
            request["ExpressionAttributeValues"] = values
        return self._rows.write(
            "update_item", Key=self._rows.key_of(worker_id), UpdateExpression=update, **request
        )

    def _now(self) -> Item:
        return av.moment_value(self._clock.now(), av.SECOND)

    def _understood(self, item: Item) -> Worker:
        found = wire.read_worker(item, key=self._rows.key)
        if isinstance(found, SkippedRow):
            raise WrongShape(
                f"row {found.key} of table {self._rows.table} can't be understood: {found.why}. No lease changed; "
                "delete the row, the worker writes a new one with its next beat"
            )
        return found
