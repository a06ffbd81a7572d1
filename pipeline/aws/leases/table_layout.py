"""Finds out which tables hold an application's rows, from the tables themselves. The answer is looked up
again once a minute.

To find out takes a few reads of single rows. The lease table is scanned only while no row of the leader's lock
shows the layout, which is the case for the first seconds of an application.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.pipeline.aws.leases import attributes as av
from headrace.pipeline.aws.leases import lease_item, lock_item, migration_item, worker_item
from headrace.pipeline.aws.leases.attributes import Item
from headrace.pipeline.aws.leases.rows import Place, Rows
from headrace.pipeline.aws.leases.table_facts import describe, is_ready
from headrace.pipeline.errors import Transient, WrongShape
from headrace.pipeline.kcl.layout import (
    CLIENT_VERSION,
    LOCK,
    TABLE_MIGRATION,
    Arrangement,
    LayoutEvidence,
    plan_layout,
)
from headrace.pipeline.kcl.migration import TableStatus
from headrace.pipeline.ports.base import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from headrace.pipeline.settings.model import Settings

_KEYS: Final = (LOCK, CLIENT_VERSION, TABLE_MIGRATION)
# Seconds until the next look. KCL's own workers look at the row of a table migration once a minute, too.
_HOLDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Places:
    arrangement: Arrangement
    leases: Place
    workers: Place
    """The table into which workers' rows are written."""
    also_workers: Place | None
    """Another table that may hold workers' rows, while KCL moves them; else None."""
    lock: Place

    @property
    def keys(self) -> Mapping[str, str]:
        """The tables that the application's layout needs, each with the name of its key."""
        return {place.table: place.key for place in (self.leases, self.workers, self.lock)}


class KnownPlaces:
    """The places of the application's rows, at most a minute old; older while AWS can't be reached."""

    def __init__(self, client: DynamoDBClient, settings: Settings, clock: Clock) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._until = 0.0
        self._known: Places | None = None

    def __call__(self) -> Places:
        """The places. Raises where AWS can't be reached and the places aren't known from before."""
        if self._known is not None and self._clock.monotonic() <= self._until:
            return self._known
        try:
            places, is_settled = look_at_layout(self._client, self._settings)
        # The layout doesn't change by an outage. An answer that is older than a minute is better
        # than a tick that writes nothing.
        except Transient:
            if self._known is None:
                raise
            return self._known
        if is_settled:
            self._until, self._known = self._clock.monotonic() + _HOLDS, places
        return places


def look_at_layout(client: DynamoDBClient, settings: Settings) -> tuple[Places, bool]:
    """The places of the application's rows now, and whether to remember them: an application without tables may
    get either layout in a moment.
    """
    evidence = gather(client, settings)
    arranged = plan_layout(evidence, settings.kcl.layout)
    is_settled = evidence.has_leases or evidence.has_state_table or bool(evidence.beside_leases)
    return _places(arranged, settings, has_worker_table=evidence.has_worker_table), is_settled


def gather(client: DynamoDBClient, settings: Settings) -> LayoutEvidence:
    has_worker_table = describe(client, settings.worker_table, key=worker_item.KEY) is not None
    leases = _rows_of(client, settings.lease_table, key=lease_item.KEY)
    state = _rows_of(client, settings.state_table, key=lock_item.KEY)
    decisive = {LOCK, CLIENT_VERSION}
    scanned = _Scanned()
    # The rows of the state table show layout M only where a worker table exists as well: a lone state table
    # may be a stray one.
    shows_three_tables = bool(decisive & (state or {}).keys()) and has_worker_table
    if leases is not None and not decisive & leases.keys() and not shows_three_tables:
        scanned = _scan(Rows(client, settings.lease_table, key=lease_item.KEY))
    return LayoutEvidence(
        lease_table=settings.lease_table,
        state_table=settings.state_table,
        has_state_table=state is not None,
        has_worker_table=has_worker_table,
        status=_status(settings.state_table, state),
        status_beside_leases=_status(settings.lease_table, leases),
        in_state_table=frozenset(decisive & (state or {}).keys()),
        beside_leases=frozenset(decisive & (leases or {}).keys()) | scanned.workers,
        has_leases=scanned.has_leases,
        has_older_leases=scanned.has_older_leases,
        has_own_leases=scanned.has_own_leases,
    )


@dataclass(slots=True)
class _Scanned:
    """The facts that a scan of the lease table gives."""

    workers: frozenset[str] = frozenset()
    has_leases: bool = False
    has_older_leases: bool = False
    has_own_leases: bool = False


def _scan(rows: Rows) -> _Scanned:
    """Scan the whole lease table. While no lock row exists yet, nothing else shows whether KCL 2.x or 3.5
    made the table."""
    scanned = _Scanned()
    workers: set[str] = set()
    for item in rows.scan():
        if lease_item.is_no_lease(item):
            if item[lease_item.ENTITY] == worker_item.WORKER:
                workers.add(av.mandatory_text(item, lease_item.KEY))
            continue
        scanned.has_leases = True
        scanned.has_older_leases = scanned.has_older_leases or not lease_item.has_type(item)
        scanned.has_own_leases = scanned.has_own_leases or lease_item.is_ours(item)
    scanned.workers = frozenset(workers)
    return scanned


def _rows_of(client: DynamoDBClient, table: str, *, key: str) -> dict[str, Item] | None:
    """The rows with KCL's own keys that the table has; None where there is no such table."""
    if not is_ready(describe(client, table, key=key)):
        return None
    return {item[key]["S"]: item for item in Rows(client, table, key=key).get_many(_KEYS)}


def _status(table: str, rows: Mapping[str, Item] | None) -> TableStatus | None:
    item = (rows or {}).get(TABLE_MIGRATION)
    try:
        return None if item is None else migration_item.read_table_status(item)
    except WrongShape as error:
        raise WrongShape(
            f"the row {TABLE_MIGRATION} of table {table}, which KCL writes, can't be understood: {error}. "
            "Nothing was written; check which version of KCL wrote the row, and set kcl.layout to the "
            "layout of that version"
        ) from error


def _places(arranged: Arrangement, settings: Settings, *, has_worker_table: bool) -> Places:
    leases = Place(settings.lease_table, lease_item.KEY)
    apart = Place(settings.worker_table, worker_item.KEY)
    home = leases if arranged.workers_in_lease_table else apart
    second = leases if home is apart else apart if has_worker_table else None
    return Places(
        arranged,
        leases,
        home,
        second if arranged.workers_in_both else None,
        leases if arranged.lock_in_lease_table else Place(settings.state_table, lock_item.KEY),
    )
