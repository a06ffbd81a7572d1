"""The WorkerStore port on DynamoDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from headrace.pipeline.aws.leases import attributes as av
from headrace.pipeline.aws.leases import worker_item as wire
from headrace.pipeline.aws.leases.attributes import Item
from headrace.pipeline.aws.leases.rows import ConditionFailed, Place, Rows, WrittenRow
from headrace.pipeline.core.leases.worker import BACKDATE_STOPPING, THROUGHPUT, Metrics, Worker
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.kcl.report import is_outdated
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.leases import SkippedRow, WorkerListing

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# The most claims that one write removes: DynamoDB limits an expression to 4 KB.
_FORGET: Final = 100

_NONE: Final[Item] = {"M": {}}
# Attributes that every row needs. For KCL's leader, empty maps mean a worker without metrics; without the
# maps it would find the row broken.
_DEFAULTS: Final[Mapping[str, Item]] = {
    wire.STATS: _NONE,
    wire.RANGES: _NONE,
    wire.MEASURED_BY: av.text_value(THROUGHPUT),
    wire.RUN_BEATS: _NONE,
}
_DEFAULTS_35: Final[Mapping[str, Item]] = {wire.ENTITY: wire.WORKER, wire.SUPPORT: wire.SUPPORT_CODE}


# A scan's filter for the lease table in layout S, where rows that aren't leases have the attribute
# entityType.
_ONLY_WORKERS: Final[Mapping[str, Any]] = {
    "FilterExpression": f"{wire.ENTITY} = :kind",
    "ExpressionAttributeValues": {":kind": wire.WORKER},
}


class DynamoWorkerStore:
    """The rows of all workers. `as_in_35`: write entityType and KCL's support code, as KCL 3.5 does; rows in the
    lease table always have both. `also`: another table, from or to which KCL is moving the rows. It is read too,
    and never written.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        table: str | Callable[[], Place],
        *,
        clock: Clock,
        key: str = wire.KEY,
        as_in_35: bool = False,
        also: Callable[[], Place | None] = lambda: None,
    ) -> None:
        self._rows = Rows(client, table, key=key)
        self._also = also
        self._clock = clock
        self._always_as_in_35 = as_in_35

    def listing(self) -> WorkerListing:
        return self._both(_all)

    def glance(self, known: Iterable[str]) -> WorkerListing:
        ids = tuple(dict.fromkeys(known))
        # In a worker table a scan is cheap; a scan of the lease table would read all leases.
        return self._both(lambda rows: _all(rows) if rows.key == wire.KEY else rows.get_many(ids))

    def get_many(self, worker_ids: Sequence[str]) -> WorkerListing:
        return self._both(lambda rows: rows.get_many(worker_ids))

    def get(self, worker_id: str) -> Worker | None:
        for rows in self._tables():
            item = rows.get(worker_id)
            if item is not None:
                return self._understood(item, rows)
        return None

    def beat(
        self,
        worker_id: str,
        instance: str,
        *,
        found: str | None,
        leaving: bool = False,
        ticking_since: datetime | None = None,
    ) -> Worker | None:
        # A stopping worker keeps the stamp that `set_stopping` wrote, an hour in the past.
        stamp = {} if leaving else self._stamp()
        condition = f"{wire.INSTANCE} = :found" if found else f"attribute_not_exists({wire.INSTANCE})"
        if found and self._also() is not None:
            # The row that was found may be in the table from which rows are moving: the first beat makes the new one.
            condition += f" OR attribute_not_exists({self._rows.key})"
        answer = self._put(
            worker_id,
            {**stamp, wire.INSTANCE: av.text_value(instance), **self._tick(ticking_since)},
            more=f"ADD {wire.BEAT} :one",
            condition=condition,
            values={":one": av.number_value(1), **({":found": av.text_value(found)} if found else {})},
        )
        if isinstance(answer, WrittenRow):
            return self._without_outdated(self._understood(answer.row))
        # The row names this instance already: the process restarted, or boto3 sent the write again after a lost answer.
        if found != instance and answer.row is not None and self._understood(answer.row).instance == instance:
            return self.beat(
                worker_id, instance, found=instance, leaving=leaving, ticking_since=ticking_since
            )
        return None

    def _tick(self, ticking_since: datetime | None) -> dict[str, Item]:
        ticked_at = {wire.TICKED_AT: av.moment_value(self._clock.now(), av.MILLISECOND)}
        if ticking_since is None:
            return ticked_at
        return {**ticked_at, wire.TICKING_SINCE: av.moment_value(ticking_since, av.MILLISECOND)}

    def beat_run(self, worker_id: str, run_claim: str) -> None:
        if isinstance(self._beat_run(worker_id, run_claim), ConditionFailed):
            # The worker has no row yet, as in a run that a person started before any sensor ticked.
            self._put(worker_id, {})
            self._beat_run(worker_id, run_claim)

    def _beat_run(self, worker_id: str, run_claim: str) -> WrittenRow | ConditionFailed:
        """Count a beat of this run in the row's map. Refused where the row has no map yet: DynamoDB rejects a
        path into a missing map as an error, so the condition comes first.
        """
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
        # A time in the past: KCL's leader then counts the worker as gone, and assigns no leases to it.
        gone = av.moment_value(self._clock.now() - BACKDATE_STOPPING, av.SECOND)
        stamp = {wire.LAST_UPDATE: gone} if stopping else self._stamp()
        self._put(worker_id, {**stamp, wire.STOPPING: {"BOOL": stopping}})

    def count_assign_pass(self, worker_id: str) -> None:
        self._put(worker_id, {}, more=f"ADD {wire.ASSIGN_PASS} :one", values={":one": av.number_value(1)})

    def ask(self, worker_id: str) -> None:
        # Only Headrace's rows have this map. A row of a KCL worker stays as it is, and no row is made.
        self._upsert(
            worker_id,
            f"ADD {wire.ASKED} :one",
            ConditionExpression=f"attribute_exists({wire.RUN_BEATS})",
            values={":one": av.number_value(1)},
        )

    def note_beater(self, worker_id: str) -> None:
        # Not `lut`: KCL's leader would take the process for a worker that lives.
        self._upsert(
            worker_id,
            f"SET {wire.BEATEN_AT} = :now",
            ConditionExpression=f"attribute_exists({wire.RUN_BEATS})",
            values={":now": av.moment_value(self._clock.now(), av.MILLISECOND)},
        )

    def set_notice(self, worker_id: str, notice: str | None) -> None:
        if notice is None:
            self._upsert(
                worker_id, f"REMOVE {wire.NOTICE}", ConditionExpression=f"attribute_exists({wire.NOTICE})"
            )
        else:
            self._put(worker_id, {wire.NOTICE: av.text_value(notice)})

    def report(self, worker_id: str, metrics: Metrics, *, seen: datetime | None) -> bool:
        measured_at = metrics.measured_at
        written = {**wire.metrics_values(metrics), **self._stamp()}
        answer = self._put(
            worker_id,
            written
            if measured_at is None
            else {**written, wire.MEASURED_AT: av.moment_value(measured_at, av.SECOND)},
            more=f"REMOVE {wire.MEASURED_AT}" if measured_at is None else "",
            condition=f"{wire.MEASURED_AT} = :seen" if seen else f"attribute_not_exists({wire.MEASURED_AT})",
            values={":seen": av.moment_value(seen, av.SECOND)} if seen else {},
        )
        if isinstance(answer, WrittenRow):
            return True
        # The row has a measurement of this very second: nearly always of this call, whose first answer was lost.
        return answer.row is not None and self._understood(answer.row).measured_at == measured_at

    def delete_stale(self, worker: Worker) -> bool:
        if worker.last_update is None:
            return False
        answer = self._rows.write(
            "delete_item",
            Key=self._rows.key_of(worker.worker_id),
            ConditionExpression=f"{wire.LAST_UPDATE} = :seen AND attribute_exists({self._rows.key})",
            ExpressionAttributeValues={":seen": av.moment_value(worker.last_update, av.SECOND)},
        )
        # The condition also refuses a row that is gone already, and then there is nothing left to delete.
        return isinstance(answer, WrittenRow) or answer.row is None

    def _without_outdated(self, row: Worker) -> Worker:
        """The worker's row without metrics that are too old. They are removed from DynamoDB, too."""
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
    ) -> WrittenRow | ConditionFailed:
        """Set attributes. A row that is new also gets the attributes without which KCL's workers can't read it."""
        defaults = {**_DEFAULTS, **(_DEFAULTS_35 if self._as_in_35 else {}), **self._stamp()}
        missing = {name: value for name, value in defaults.items() if name not in put}
        sets = [f"{name} = :{name}" for name in put]
        sets += [f"{name} = if_not_exists({name}, :{name})" for name in missing]
        return self._upsert(
            worker_id,
            f"SET {', '.join(sets)} {more}".rstrip(),
            values={f":{name}": value for name, value in {**put, **missing}.items()} | dict(values or {}),
            **({"ConditionExpression": condition} if condition else {}),
        )

    @property
    def _as_in_35(self) -> bool:
        return self._always_as_in_35 or self._rows.key != wire.KEY

    def _stamp(self) -> dict[str, Item]:
        now = av.moment_value(self._clock.now(), av.SECOND)
        return {wire.LAST_UPDATE: now, **({wire.SUPPORTED_AT: now} if self._as_in_35 else {})}

    def _upsert(
        self, worker_id: str, update: str, *, values: Mapping[str, Item] | None = None, **request: Any
    ) -> WrittenRow | ConditionFailed:
        if values:
            request["ExpressionAttributeValues"] = values
        return self._rows.write(
            "update_item", Key=self._rows.key_of(worker_id), UpdateExpression=update, **request
        )

    def _tables(self) -> tuple[Rows, ...]:
        """The tables to read. The table that is written comes first: if a worker has a row in both, the row
        in that table is current."""
        also = self._also()
        return (
            (self._rows,) if also is None else (self._rows, Rows(self._rows.client, also.table, key=also.key))
        )

    def _both(self, ask: Callable[[Rows], Iterable[Item]]) -> WorkerListing:
        rows_by_key: dict[str, Worker | SkippedRow] = {}
        for rows in self._tables():
            for item in ask(rows):
                row = wire.read_worker_row(item, key=rows.key)
                rows_by_key.setdefault(row.worker_id if isinstance(row, Worker) else row.key, row)
        return WorkerListing(
            tuple(row for row in rows_by_key.values() if isinstance(row, Worker)),
            tuple(row for row in rows_by_key.values() if isinstance(row, SkippedRow)),
        )

    def _understood(self, item: Item, rows: Rows | None = None) -> Worker:
        rows = rows or self._rows
        row = wire.read_worker_row(item, key=rows.key)
        if isinstance(row, SkippedRow):
            raise WrongShape(
                f"row {row.key} of table {rows.table} can't be understood: {row.why}. No lease changed; "
                "delete the row: the worker writes a new one with its next beat"
            )
        return row


def _all(rows: Rows) -> Iterable[Item]:
    return rows.scan(consistent=True, **({} if rows.key == wire.KEY else _ONLY_WORKERS))
