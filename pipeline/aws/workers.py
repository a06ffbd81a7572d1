"""The worker table in DynamoDB."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pipeline.aws import attributes as av
from pipeline.aws import worker_item as wire
from pipeline.aws.attributes import Item
from pipeline.aws.rows import Rows, Stood, Written
from pipeline.core.worker import THROUGHPUT, Metrics, Worker
from pipeline.errors import WrongShape
from pipeline.kcl.report import is_outdated
from pipeline.ports import Clock, SkippedRow

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_FORGET: Final = 100
"""Claims of one write: an expression has 4 KB."""

_NONE: Final[Item] = {"M": {}}
_FILLING: Final[Mapping[str, Item]] = {
    wire.STATS: _NONE,
    wire.RANGES: _NONE,
    wire.MEASURED_BY: av.text_value(THROUGHPUT),
    wire.RUN_BEATS: _NONE,
}
"""Empty maps are KCL's worker without a metric source; without them its leader takes the row for a broken one."""
_FILLING_35: Final[Mapping[str, Item]] = {wire.ENTITY: wire.WORKER, wire.SUPPORT: wire.SUPPORT_CODE}


class DynamoWorkerStore:
    """Rows as KCL 3.5 writes them have a type and its support code; in the lease table they always have."""

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        *,
        clock: Clock,
        key: str = wire.KEY,
        as_in_35: bool = False,
    ) -> None:
        self._rows = Rows(client, table, key=key)
        self._clock = clock
        self._as_in_35 = as_in_35 or key != wire.KEY

    def list(self) -> tuple[Worker, ...]:
        found = (wire.read_worker(item, key=self._rows.key) for item in self._rows.scan(consistent=True))
        return tuple(each for each in found if isinstance(each, Worker))

    def get(self, worker_id: str) -> Worker | None:
        item = self._rows.get(worker_id)
        return None if item is None else self._understood(item)

    def beat(self, worker_id: str, instance: str, *, found: str | None) -> Worker | None:
        answer = self._put(
            worker_id,
            {**self._stamp(), wire.INSTANCE: av.text_value(instance)},
            more=f"ADD {wire.BEAT} :one",
            condition=f"{wire.INSTANCE} = :found" if found else f"attribute_not_exists({wire.INSTANCE})",
            values={":one": av.number_value(1), **({":found": av.text_value(found)} if found else {})},
        )
        if isinstance(answer, Written):
            return self._without_outdated(self._understood(answer.row))
        # It is this instance's already: it restarted, or boto3 asked again when the first answer was lost.
        if found != instance and answer.row is not None and self._understood(answer.row).instance == instance:
            return self.beat(worker_id, instance, found=instance)
        return None

    def beat_run(self, worker_id: str, run_claim: str) -> None:
        if isinstance(self._beat_run(worker_id, run_claim), Stood):
            self._put(worker_id, {})
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
        self._put(worker_id, {wire.STOPPING: {"BOOL": stopping}})

    def count_assign_pass(self, worker_id: str) -> None:
        self._put(worker_id, {}, more=f"ADD {wire.ASSIGN_PASS} :one", values={":one": av.number_value(1)})

    def report(self, worker_id: str, metrics: Metrics, *, seen: datetime | None) -> bool:
        at = metrics.measured_at
        written = {**wire.metrics_values(metrics), **self._stamp()}
        answer = self._put(
            worker_id,
            written if at is None else {**written, wire.MEASURED_AT: av.moment_value(at, av.SECOND)},
            more=f"REMOVE {wire.MEASURED_AT}" if at is None else "",
            condition=f"{wire.MEASURED_AT} = :seen" if seen else f"attribute_not_exists({wire.MEASURED_AT})",
            values={":seen": av.moment_value(seen, av.SECOND)} if seen else {},
        )
        if isinstance(answer, Written):
            return True
        # Said for this very second already: mostly by this call, whose first answer was lost.
        return answer.row is not None and self._understood(answer.row).measured_at == at

    def delete_stale(self, worker: Worker) -> bool:
        if worker.last_update is None:
            return False
        answer = self._rows.write(
            "delete_item",
            Key=self._rows.key_of(worker.worker_id),
            ConditionExpression=f"{wire.LAST_UPDATE} = :seen AND attribute_exists({self._rows.key})",
            ExpressionAttributeValues={":seen": av.moment_value(worker.last_update, av.SECOND)},
        )
        return isinstance(answer, Written) or answer.row is None

    def _without_outdated(self, row: Worker) -> Worker:
        if not is_outdated(row, self._clock.now()):
            return row
        self.report(row.worker_id, Metrics(), seen=row.measured_at)
        return replace(row, stats={}, ranges={}, measured_by=THROUGHPUT, measured_at=None)

    def _put(
        self,
        worker_id: str,
        put: Mapping[str, Item],
        *,
        more: str = "",
        condition: str | None = None,
        values: Mapping[str, Item] | None = None,
    ) -> Written | Stood:
        """Set these attributes, and fill in those that a KCL reader misses where there is no row yet."""
        filling = {**_FILLING, **(_FILLING_35 if self._as_in_35 else {}), **self._stamp()}
        missing = {name: value for name, value in filling.items() if name not in put}
        sets = [f"{name} = :{name}" for name in put]
        sets += [f"{name} = if_not_exists({name}, :{name})" for name in missing]
        return self._upsert(
            worker_id,
            f"SET {', '.join(sets)} {more}".rstrip(),
            values={f":{name}": value for name, value in {**put, **missing}.items()} | (values or {}),
            **({"ConditionExpression": condition} if condition else {}),
        )

    def _stamp(self) -> dict[str, Item]:
        now = av.moment_value(self._clock.now(), av.SECOND)
        return {wire.LAST_UPDATE: now, **({wire.SUPPORTED_AT: now} if self._as_in_35 else {})}

    def _upsert(
        self, worker_id: str, update: str, *, values: Mapping[str, Item] | None = None, **request: Any
    ) -> Written | Stood:
        if values:
            request["ExpressionAttributeValues"] = values
        return self._rows.write(
            "update_item", Key=self._rows.key_of(worker_id), UpdateExpression=update, **request
        )

    def _understood(self, item: Item) -> Worker:
        found = wire.read_worker(item, key=self._rows.key)
        if isinstance(found, SkippedRow):
            raise WrongShape(
                f"row {found.key} of table {self._rows.table} can't be understood: {found.why}. No lease changed; "
                "delete the row, the worker writes a new one with its next beat"
            )
        return found
