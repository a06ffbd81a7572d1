"""Reads an application's coordination tables, of KCL or of Headrace. Only DescribeTable and Scan are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headrace.pipeline.aws.clients.clients import place_of_client
from headrace.pipeline.aws.leases import attributes as av
from headrace.pipeline.aws.leases import lease_item, lock_item, migration_item, worker_item
from headrace.pipeline.aws.leases.attributes import Item
from headrace.pipeline.aws.leases.rows import Rows
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.errors import TablesMissing, Terminal, WrongShape
from headrace.pipeline.inspect.layout import LayoutFacts, OtherRows
from headrace.pipeline.inspect.observation import OddRow, TablesRead
from headrace.pipeline.kcl.layout import CLIENT_VERSION, LOCK, TABLE_MIGRATION
from headrace.pipeline.ports.base import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# Key of a row -> its type, for rows that KCL before 3.5 writes without the attribute entityType.
_KINDS: Final[Mapping[str, str]] = {
    LOCK: "LEADER",
    CLIENT_VERSION: "CLIENT_VERSION_MIGRATION",
    TABLE_MIGRATION: "TABLE_MIGRATION",
}
# Rows of one answer. Larger answers of a slow endpoint could take longer than the client's read timeout,
# which is short because Dagster's ticks use the same client settings.
_PAGE: Final = 1_000
# Rows between two progress lines.
_TELL_EVERY: Final = 2_000


class _ReadOnlyClient:
    """A client that has only these two calls, which read."""

    def __init__(self, client: DynamoDBClient) -> None:
        self.meta = client.meta
        self.scan = client.scan
        self.describe_table = client.describe_table


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNames:
    """The tables of one application."""

    lease_table: str
    worker_table: str
    state_table: str

    @classmethod
    def of(
        cls, lease_table: str, *, worker_table: str | None = None, state_table: str | None = None
    ) -> TableNames:
        """The names that KCL chooses: the lease table has the application's name, and the two others begin with it."""
        return cls(
            lease_table=lease_table,
            worker_table=worker_table or f"{lease_table}-WorkerMetricStats",
            state_table=state_table or f"{lease_table}-CoordinatorState",
        )


@dataclass(slots=True)
class _TableRows:
    """The rows of one table, sorted by type."""

    table: str
    leases: list[Lease] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    odd: list[OddRow] = field(default_factory=list)
    lock: LockRow | None = None
    states: dict[str, str | None] = field(default_factory=dict)
    typed: bool = False

    def other_rows(self) -> OtherRows:
        return OtherRows(
            lock=self.lock,
            workers=len(self.workers),
            client_version=self.states.get(CLIENT_VERSION),
            table_migration=self.states.get(TABLE_MIGRATION),
        )


class TableReader:
    """Reads the tables of one application. While it reads a large table, it calls `progress` with a sentence
    now and then."""

    def __init__(
        self,
        client: DynamoDBClient,
        names: TableNames,
        *,
        clock: Clock,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._client: Any = _ReadOnlyClient(client)
        self._names = names
        self._clock = clock
        self._progress = progress
        self._provisioned: dict[str, int] = {}

    @property
    def provisioned(self) -> int:
        """Read units a second for which the table with the fewest is provisioned; 0 where DynamoDB bills each request."""
        return min(filter(None, self._provisioned.values()), default=0)

    def read(self) -> TablesRead:
        """Read all tables. Raises TablesMissing without a lease table; other missing tables and odd rows are
        part of the answer."""
        leases = self._read(self._names.lease_table, lease_item.KEY)
        if leases is None:
            raise TablesMissing(
                f"there is no table {self._names.lease_table} in {place_of_client(self._client)}. "
                "Nothing was written. A new application of Headrace has its tables from the leader's first tick on; "
                "of another one, name the lease table (in KCL it has the application's name), and check region and account"
            )
        workers = self._read_beside(self._names.worker_table, worker_item.KEY)
        state = self._read_beside(self._names.state_table, lock_item.KEY)
        every = [table_rows for table_rows in (leases, workers, state) if table_rows is not None]
        # If both tables hold a lock, the coordinator table's counts: a KCL worker uses that table where it exists.
        lock = (state.lock if state else None) or leases.lock
        return TablesRead(
            read_at=self._clock.now(),
            tables=LayoutFacts(
                lease_table=self._names.lease_table,
                state_table=self._names.state_table,
                beside_leases=leases.other_rows(),
                state=None if state is None else state.other_rows(),
                worker_rows=None if workers is None else len(workers.workers),
                typed_leases=leases.typed,
            ),
            leases=tuple(leases.leases),
            workers=tuple(worker for table_rows in every for worker in table_rows.workers),
            lock=lock,
            odd=tuple(row for table_rows in every for row in table_rows.odd),
        )

    def _read_beside(self, table: str, key: str) -> _TableRows | None:
        """Read a table beside the lease table. A role that isn't allowed to read it still gets to see the leases."""
        try:
            return self._read(table, key)
        # A table of another form is a wrong name, and no matter of what the role may read.
        except WrongShape:
            raise
        except Terminal as error:
            rows = _TableRows(table)
            rows.odd.append(OddRow(table, "all of it", str(error)))
            return rows

    def _read(self, table: str, key: str) -> _TableRows | None:
        """The rows of a table, sorted by type; None where there is no such table."""
        rows = Rows(self._client, table, key=key)
        sorted_rows = _TableRows(table)
        try:
            described = rows.describe()
            self._check(table, key, described)
            self._provisioned[table] = int(
                described.get("ProvisionedThroughput", {}).get("ReadCapacityUnits", 0)
            )
            for count, item in enumerate(rows.scan(Limit=_PAGE), start=1):
                _sort(item, key, sorted_rows)
                if count % _TELL_EVERY == 0:
                    self._progress(f"table {table}: {count:,} rows read")
        except TablesMissing:
            return None
        return sorted_rows

    def _check(self, table: str, key: str, described: Mapping[str, Any]) -> None:
        keys = [column["AttributeName"] for column in described["KeySchema"]]
        if keys != [key]:
            raise WrongShape(
                f"table {table} in {place_of_client(self._client)} has the key {', '.join(keys)}, not {key}: "
                "it isn't a coordination table. Nothing was written; "
                "name the application's lease table with --table, and the tables beside it with "
                "--worker-table and --state-table"
            )


def _sort(item: Item, key: str, rows: _TableRows) -> None:
    name = str(next(iter(item.get(key, {}).values()), f"a row without {key}"))
    try:
        kind = av.text(item, lease_item.ENTITY)
        _put(item, key, kind or _kind_by(key, name), name=name, rows=rows)
        rows.typed = rows.typed or kind == "LEASE"
    except WrongShape as error:
        rows.odd.append(OddRow(rows.table, name, str(error)))


def _kind_by(key: str, name: str) -> str:
    """The type of a row without the attribute entityType, as KCL before 3.5 writes rows: found by its key,
    else its table."""
    if key == worker_item.KEY:
        return "WORKER_METRIC_STATS"
    return _KINDS.get(name) or ("LEASE" if key == lease_item.KEY else "unknown")


def _put(item: Item, key: str, kind: str, *, name: str, rows: _TableRows) -> None:
    match kind:
        case "LEASE":
            lease = lease_item.read_lease(item)
            if isinstance(lease, Lease):
                rows.leases.append(lease)
            else:
                rows.odd.append(OddRow(rows.table, lease.key, lease.why))
        case "WORKER_METRIC_STATS":
            worker = worker_item.read_worker_row(item, key=key)
            if isinstance(worker, Worker):
                rows.workers.append(worker)
            else:
                rows.odd.append(OddRow(rows.table, worker.key, worker.why))
        case "LEADER":
            rows.lock = lock_item.read_lock(item)
        case "CLIENT_VERSION_MIGRATION":
            rows.states[CLIENT_VERSION] = av.mandatory_text(item, migration_item.CLIENT_VERSION)
        case "TABLE_MIGRATION":
            rows.states[TABLE_MIGRATION] = av.mandatory_text(item, migration_item.TABLE_STATUS)
        case "STREAM":
            # The row of a stream; lease rows name their streams as well.
            pass
        case _:
            rows.odd.append(OddRow(rows.table, name, f"a row of type {kind}", broken=False))
