"""Where an application's rows lie: in three tables or in one, by what is there already.

    status (TableMigration3.5)  | workers' rows: written | read          | the lock
    ----------------------------+------------------------+---------------+-------------
    no row, side tables  (M)    | worker table           | there         | state table
    INIT                 (M)    | worker table           | there         | state table
    DEPLOYED             (M)    | worker table           | there, leases | state table
    PENDING                     | lease table            | both          | state table
    COMPLETE             (S)    | lease table            | there         | lease table
    no row, no state table (S)  | lease table            | there         | lease table

KCL 3.5 goes by the state table alone: an empty one that strayed beside the rows of one table makes each worker that
starts believe in three tables, and nothing is assigned any more. Ours looks at the rows of both sides and refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pipeline.errors import BadSetting, WrongShape
from pipeline.kcl.migration import TableStatus, table_status
from pipeline.settings.choices import Layout

LOCK: Final = "Leader"
CLIENT_VERSION: Final = "Migration3.0"
TABLE_MIGRATION: Final = "TableMigration3.5"
PREFIX: Final = "TABLE_MIGRATION_STATUS_"

_REPAIR: Final = (
    "The repair: put the row {row} with tm = {prefix}COMPLETE into table {state}, where KCL's workers see it within "
    "seconds (one in table {lease} doesn't help); or, with no KCL worker running, delete table {state}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutEvidence:
    """What is there of an application."""

    lease_table: str
    state_table: str
    has_state_table: bool = False
    has_worker_table: bool = False
    status: TableStatus | None = None
    """Stored in the state table: this is what KCL goes by, once there is such a table."""
    status_beside_leases: TableStatus | None = None
    legacy: frozenset[str] = frozenset()
    """Of LOCK and CLIENT_VERSION, those in the state table."""
    beside_leases: frozenset[str] = frozenset()
    """Of LOCK, CLIENT_VERSION and the ids of workers with a metric row, those in the lease table."""
    leases: bool = False
    older: bool = False
    """Leases without an entityType are there: workers older than 3.5 may be, too, and one other row stops them."""
    ours: bool = False
    """Leases that we have written ourselves are there."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    status: TableStatus
    lease_rows_only: bool = False
    """Nothing but leases may be written into the lease table, in the older form."""

    @property
    def layout(self) -> Layout:
        return Layout.S if self.status is TableStatus.COMPLETE else Layout.M

    @property
    def workers_in_lease_table(self) -> bool:
        return self.status in {TableStatus.PENDING, TableStatus.COMPLETE}

    @property
    def workers_in_both(self) -> bool:
        return self.status in {TableStatus.DEPLOYED, TableStatus.PENDING}

    @property
    def lock_in_lease_table(self) -> bool:
        return self.status is TableStatus.COMPLETE


def plan_layout(found: LayoutEvidence, wanted: Layout) -> Arrangement:
    """Raises where going on would harm somebody: KCL's workers, or the rows of another layout."""
    _refuse_trap(found)
    effective = _effective(found)
    # A stored status was written by KCL 3.5, whose migration leaves old leases as they are.
    has_status = found.status is not None or found.status_beside_leases is not None
    older = found.older and not found.beside_leases and not has_status
    if effective is None:
        effective = TableStatus.COMPLETE if wanted is Layout.S else TableStatus.INIT
    arranged = Arrangement(effective, lease_rows_only=older)
    if wanted is Layout.S and older:
        raise BadSetting(
            f"kcl.layout is S, but table {found.lease_table} holds leases of KCL workers older than 3.5: one "
            "other row in it would stop them all. Nothing was written; set it to auto or M, which keeps other rows in "
            "tables of their own"
        )
    if wanted is not Layout.AUTO and wanted is not arranged.layout:
        raise BadSetting(
            f"kcl.layout is {wanted}, but the application has layout {arranged.layout} already "
            f"({_why(found)}). Nothing was written; set it to auto or {arranged.layout}"
        )
    return arranged


def _effective(found: LayoutEvidence) -> TableStatus | None:
    """None: nothing there decides it."""
    if found.has_state_table and found.status is not None:
        return table_status(found.status, legacy_table=True, migrate=found.status is TableStatus.PENDING)
    if found.has_state_table or (found.has_worker_table and not found.beside_leases):
        return TableStatus.INIT
    if found.beside_leases or found.status_beside_leases is not None:
        return TableStatus.COMPLETE
    # Leases alone: of workers older than 3.5, of our own whose other tables were lost, or of KCL 3.5.
    if found.leases and not found.older and not found.ours:
        return TableStatus.COMPLETE
    return TableStatus.INIT if found.older else None


def _refuse_trap(found: LayoutEvidence) -> None:
    if not found.has_state_table or found.status is TableStatus.COMPLETE:
        return
    # A migration that is under way has moved everything but the lock.
    allowed = found.status in {TableStatus.DEPLOYED, TableStatus.PENDING}
    stray = found.beside_leases & {LOCK} if allowed else found.beside_leases
    if not stray and (allowed or found.status_beside_leases is not TableStatus.COMPLETE):
        return
    repair = _REPAIR.format(
        row=TABLE_MIGRATION, prefix=PREFIX, state=found.state_table, lease=found.lease_table
    )
    here = ", ".join(sorted(stray)) or TABLE_MIGRATION
    if found.legacy:
        raise WrongShape(
            f"both table {found.lease_table} ({here}) and table {found.state_table} "
            f"({', '.join(sorted(found.legacy))}) hold rows that coordinate: which workers go by which can't be told. "
            f"Nothing was written and no record is lost. Find out which layout the workers use; if it is one table: {repair}"
        )
    raise WrongShape(
        f"table {found.lease_table} holds the rows of one-table coordination ({here}), and beside it lies the stray "
        f"table {found.state_table}: each KCL 3.5 worker that starts takes it for the place of the lock, and nothing is "
        f"assigned any more. Nothing was written and no record is lost. {repair}"
    )


def _why(found: LayoutEvidence) -> str:
    if found.has_state_table and found.status is not None:
        return f"the row {TABLE_MIGRATION} in table {found.state_table} says {found.status}"
    if found.has_state_table:
        return f"there is a table {found.state_table}"
    if found.beside_leases:
        return f"table {found.lease_table} holds {', '.join(sorted(found.beside_leases))}"
    if found.status_beside_leases is not None:
        return f"table {found.lease_table} holds {TABLE_MIGRATION}"
    if found.has_worker_table:
        return "there is a table for the workers' rows"
    return f"the leases in table {found.lease_table} are of KCL 3.5 or newer"
