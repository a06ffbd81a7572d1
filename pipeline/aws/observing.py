"""Looking at an application's coordination tables, whoever writes them: DescribeTable and Scan, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pipeline.aws import attributes as av
from pipeline.aws import lease_item, lock_item, migration_item, worker_item
from pipeline.aws.attributes import Item
from pipeline.aws.clients import where
from pipeline.aws.rows import Rows
from pipeline.core.election import LockRow
from pipeline.core.lease import Lease
from pipeline.core.observation import Look, OddRow
from pipeline.core.observe_layout import Place, Tables
from pipeline.core.worker import Worker
from pipeline.errors import TablesMissing, Terminal, WrongShape
from pipeline.kcl.layout import CLIENT_VERSION, LOCK, TABLE_MIGRATION
from pipeline.ports import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_KINDS: Final[Mapping[str, str]] = {
    LOCK: "LEADER",
    CLIENT_VERSION: "CLIENT_VERSION_MIGRATION",
    TABLE_MIGRATION: "TABLE_MIGRATION",
}
"""What KCL before 3.5 writes without a type."""
_PAGE: Final = 1_000
"""Rows of one answer: a slow endpoint answers within our client's patience, which is short for the sake of ticks."""
_TELL_EVERY: Final = 2_000
"""Rows."""


class _Reading:
    """A client that can't write, whoever gets hold of it."""

    def __init__(self, client: DynamoDBClient) -> None:
        self.meta = client.meta
        self.scan = client.scan
        self.describe_table = client.describe_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    lease_table: str
    worker_table: str
    state_table: str


def names_of(
    lease_table: str,
    application: str | None = None,
    *,
    worker_table: str | None = None,
    state_table: str | None = None,
) -> Names:
    """KCL names the tables beside the lease table by the application."""
    application = application or lease_table
    return Names(
        lease_table=lease_table,
        worker_table=worker_table or f"{application}-WorkerMetricStats",
        state_table=state_table or f"{application}-CoordinatorState",
    )


@dataclass(slots=True)
class _Found:
    """What the rows of one table are."""

    table: str
    leases: list[Lease] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    odd: list[OddRow] = field(default_factory=list)
    lock: LockRow | None = None
    states: dict[str, str | None] = field(default_factory=dict)
    typed: bool = False

    def place(self) -> Place:
        return Place(
            lock=self.lock,
            workers=len(self.workers),
            client_version=self.states.get(CLIENT_VERSION),
            table_migration=self.states.get(TABLE_MIGRATION),
        )


class Observer:
    """`progress` hears a sentence now and then while a large table is read."""

    def __init__(
        self,
        client: DynamoDBClient,
        names: Names,
        *,
        clock: Clock,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._client: Any = _Reading(client)
        self._names = names
        self._clock = clock
        self._progress = progress

    def look(self) -> Look:
        """Raises TablesMissing where there is no lease table; whatever else is missing or odd is told in the look."""
        leases = self._read(self._names.lease_table, lease_item.KEY)
        if leases is None:
            raise TablesMissing(
                f"there is no table {self._names.lease_table} in {where(self._client)}. Nothing was written; name the lease "
                "table, which KCL calls as the application, and check region and account"
            )
        workers = self._read_beside(self._names.worker_table, worker_item.KEY)
        state = self._read_beside(self._names.state_table, lock_item.KEY)
        every = [found for found in (leases, workers, state) if found is not None]
        # Where both have one, the coordinator table's counts: a KCL worker that finds that table looks there.
        lock = (state.lock if state else None) or leases.lock
        return Look(
            at=self._clock.now(),
            tables=Tables(
                lease_table=self._names.lease_table,
                state_table=self._names.state_table,
                beside_leases=leases.place(),
                state=None if state is None else state.place(),
                worker_rows=None if workers is None else len(workers.workers),
                typed_leases=leases.typed,
            ),
            leases=tuple(leases.leases),
            workers=tuple(worker for found in every for worker in found.workers),
            lock=lock,
            odd=tuple(row for found in every for row in found.odd),
        )

    def _read_beside(self, table: str, key: str) -> _Found | None:
        """A role that may read the lease table only still sees the leases."""
        try:
            return self._read(table, key)
        except WrongShape:
            raise
        except Terminal as error:
            found = _Found(table)
            found.odd.append(OddRow(table, "all of it", str(error)))
            return found

    def _read(self, table: str, key: str) -> _Found | None:
        """None where there is no such table."""
        rows = Rows(self._client, table, key=key)
        found = _Found(table)
        try:
            self._check(table, key, rows.describe())
            for count, item in enumerate(rows.scan(Limit=_PAGE), start=1):
                _sort(item, key, found)
                if count % _TELL_EVERY == 0:
                    self._progress(f"table {table}: {count:,} rows read")
        except TablesMissing:
            return None
        return found

    def _check(self, table: str, key: str, described: Mapping[str, Any]) -> None:
        keys = [part["AttributeName"] for part in described["KeySchema"]]
        if keys != [key]:
            raise WrongShape(
                f"table {table} in {where(self._client)} has the key {', '.join(keys)}, not {key}: it is some other table. "
                "Nothing was written; name the application's lease table with --table, and the tables beside it with "
                "--worker-table and --state-table"
            )


def _sort(item: Item, key: str, found: _Found) -> None:
    name = str(next(iter(item.get(key, {}).values()), f"a row without {key}"))
    try:
        said = av.text(item, lease_item.ENTITY)
        _put(item, key, said or _kind_by(key, name), name=name, found=found)
        found.typed = found.typed or said == "LEASE"
    except WrongShape as error:
        found.odd.append(OddRow(found.table, name, str(error)))


def _kind_by(key: str, name: str) -> str:
    """What a row is that doesn't say it, as older workers write them: by its key, else by the table that it is in."""
    if key == worker_item.KEY:
        return "WORKER_METRIC_STATS"
    return _KINDS.get(name) or ("LEASE" if key == lease_item.KEY else "unknown")


def _put(item: Item, key: str, kind: str, *, name: str, found: _Found) -> None:
    match kind:
        case "LEASE":
            lease = lease_item.read_lease(item)
            if isinstance(lease, Lease):
                found.leases.append(lease)
            else:
                found.odd.append(OddRow(found.table, lease.key, lease.why))
        case "WORKER_METRIC_STATS":
            worker = worker_item.read_worker(item, key=key)
            if isinstance(worker, Worker):
                found.workers.append(worker)
            else:
                found.odd.append(OddRow(found.table, worker.key, worker.why))
        case "LEADER":
            found.lock = lock_item.read_lock(item)
        case "CLIENT_VERSION_MIGRATION":
            found.states[CLIENT_VERSION] = av.mandatory_text(item, migration_item.CLIENT_VERSION)
        case "TABLE_MIGRATION":
            found.states[TABLE_MIGRATION] = av.mandatory_text(item, migration_item.TABLE_STATUS)
        case "STREAM":
            pass  # which streams are read; the leases tell that too
        case _:
            found.odd.append(OddRow(found.table, name, f"a row of type {kind}", broken=False))
