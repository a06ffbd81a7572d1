"""Where an application's rows lie, as its tables tell. Looked at once a while: a few reads, and no scan while there is
a lock's row to go by (of three tables, beside a worker table).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pipeline.aws import attributes as av
from pipeline.aws import lease_item, lock_item, migration_item, worker_item
from pipeline.aws.attributes import Item
from pipeline.aws.rows import Place, Rows
from pipeline.aws.table_facts import describe, is_ready
from pipeline.errors import Transient, WrongShape
from pipeline.kcl.layout import CLIENT_VERSION, LOCK, TABLE_MIGRATION, Arrangement, Evidence, plan_layout
from pipeline.kcl.migration import TableStatus

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from pipeline.settings import Settings

_KEYS: Final = (LOCK, CLIENT_VERSION, TABLE_MIGRATION)
_HOLDS: Final = 60.0
"""Seconds. KCL's own workers look at the row of a migration once a minute."""


@dataclass(frozen=True, slots=True)
class Places:
    arrangement: Arrangement
    leases: Place
    workers: Place
    """Where they are written."""
    also_workers: Place | None
    """Where some may lie, besides."""
    lock: Place

    @property
    def keys(self) -> Mapping[str, str]:
        """The tables that have to be there, each with its key."""
        return {place.table: place.key for place in (self.leases, self.workers, self.lock)}


_KNOWN: Final[dict[tuple[str, ...], tuple[float, Places]]] = {}
"""By endpoint, region, tables and setting: until when to believe it. Stores come and go with the ticks of one process."""


def places(client: DynamoDBClient, settings: Settings) -> Places:
    """As they were at most a minute ago; for longer while AWS can't be asked."""
    name = _name(client, settings)
    until, known = _KNOWN.get(name, (0.0, None))
    if known is not None and time.monotonic() <= until:
        return known
    try:
        found, is_settled = look(client, settings)
    except Transient:
        if known is None:
            raise
        return known
    if is_settled:
        _KNOWN[name] = (time.monotonic() + _HOLDS, found)
    return found


def look(client: DynamoDBClient, settings: Settings) -> tuple[Places, bool]:
    """The places now, and whether they are worth remembering: an application without tables has none yet."""
    evidence = gather(client, settings)
    arranged = plan_layout(evidence, settings.coordination.layout)
    is_settled = evidence.leases or evidence.has_state_table or bool(evidence.beside_leases)
    return _places(arranged, settings, has_worker_table=evidence.has_worker_table), is_settled


def gather(client: DynamoDBClient, settings: Settings) -> Evidence:
    has_worker_table = describe(client, settings.worker_table, key=worker_item.KEY) is not None
    leases = _rows_of(client, settings.lease_table, key=lease_item.KEY)
    state = _rows_of(client, settings.state_table, key=lock_item.KEY)
    decisive = {LOCK, CLIENT_VERSION}
    seen = _Scanned()
    # Three tables have a worker table, too: without one the rows that coordinate in the state table may be astray.
    is_told = bool(decisive & (state or {}).keys()) and has_worker_table
    if leases is not None and not decisive & leases.keys() and not is_told:
        seen = _scan(Rows(client, settings.lease_table, key=lease_item.KEY))
    return Evidence(
        lease_table=settings.lease_table,
        state_table=settings.state_table,
        has_state_table=state is not None,
        has_worker_table=has_worker_table,
        status=_status(settings.state_table, state),
        status_beside_leases=_status(settings.lease_table, leases),
        legacy=frozenset(decisive & (state or {}).keys()),
        beside_leases=frozenset(decisive & (leases or {}).keys()) | seen.workers,
        leases=seen.leases,
        older=seen.older,
        ours=seen.ours,
    )


@dataclass(slots=True)
class _Scanned:
    """What the lease table holds."""

    workers: frozenset[str] = frozenset()
    leases: bool = False
    older: bool = False
    ours: bool = False


def _scan(rows: Rows) -> _Scanned:
    """All of it. Without a lock's row, which is a matter of the first seconds, nothing else tells 2.x from 3.5."""
    found = _Scanned()
    workers: set[str] = set()
    for item in rows.scan():
        if lease_item.is_no_lease(item):
            if item[lease_item.ENTITY] == worker_item.WORKER:
                workers.add(av.mandatory_text(item, lease_item.KEY))
            continue
        found.leases = True
        found.older = found.older or not lease_item.has_type(item)
        found.ours = found.ours or lease_item.is_ours(item)
    found.workers = frozenset(workers)
    return found


def _rows_of(client: DynamoDBClient, table: str, *, key: str) -> dict[str, Item] | None:
    """Those of KCL's own keys that are there; None: there is no such table."""
    if not is_ready(describe(client, table, key=key)):
        return None
    return {item[key]["S"]: item for item in Rows(client, table, key=key).get_many(_KEYS)}


def _status(table: str, rows: Mapping[str, Item] | None) -> TableStatus | None:
    item = (rows or {}).get(TABLE_MIGRATION)
    try:
        return None if item is None else migration_item.read_table_status(item)
    except WrongShape as error:
        raise WrongShape(
            f"the row {TABLE_MIGRATION} of table {table} can't be understood: {error}. Nothing was written; it is KCL's: "
            "see which version of KCL wrote it, and set coordination.layout to what that uses"
        ) from error


def _places(arranged: Arrangement, settings: Settings, *, has_worker_table: bool) -> Places:
    leases = Place(settings.lease_table, lease_item.KEY)
    apart = Place(settings.worker_table, worker_item.KEY)
    home = leases if arranged.workers_in_lease_table else apart
    other = leases if home is apart else apart if has_worker_table else None
    return Places(
        arranged,
        leases,
        home,
        other if arranged.workers_in_both else None,
        leases if arranged.lock_in_lease_table else Place(settings.state_table, lock_item.KEY),
    )


def _name(client: DynamoDBClient, settings: Settings) -> tuple[str, ...]:
    return (
        client.meta.endpoint_url,
        client.meta.region_name,
        settings.lease_table,
        settings.worker_table,
        settings.state_table,
        settings.coordination.layout,
    )
