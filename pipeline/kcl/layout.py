"""The layout of an application: whether its coordination rows are in three tables or in one, judged by existing rows.

    status (TableMigration3.5)  | workers' rows are      |                          | the leader's lock
                                | written to             | read from                | is in
    ----------------------------+------------------------+--------------------------+------------------
    no row, side tables  (M)    | worker table           | worker table             | state table
    INIT                 (M)    | worker table           | worker table             | state table
    DEPLOYED             (M)    | worker table           | worker and lease table   | state table
    PENDING                     | lease table            | worker and lease table   | state table
    COMPLETE             (S)    | lease table            | lease table              | lease table
    no row, no state table (S)  | lease table            | lease table              | lease table

KCL 3.5 asks only whether the state table exists. If an empty state table exists beside a lease table that
holds all rows, each KCL worker that starts uses three tables, and no lease is assigned any more. Headrace
looks at the rows in both tables, and refuses to start where they contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.pipeline.errors import BadSetting, WrongShape
from headrace.pipeline.kcl.migration import TableStatus, table_status
from headrace.pipeline.settings.choices import Layout

# The keys of the rows that KCL writes beside the leases: the leader's lock, and the stages of two migrations.
LOCK: Final = "Leader"
CLIENT_VERSION: Final = "Migration3.0"
TABLE_MIGRATION: Final = "TableMigration3.5"
PREFIX: Final = "TABLE_MIGRATION_STATUS_"
"""What stands before each TableStatus in the row TABLE_MIGRATION."""

_REPAIR: Final = (
    "The repair: put the row {row} with tm = {prefix}COMPLETE into table {state}, where KCL's workers see it within "
    "seconds (the same row in table {lease} doesn't help); or stop all KCL workers and delete table {state}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutEvidence:
    """The tables and rows of an application that tell its layout."""

    lease_table: str
    state_table: str
    has_state_table: bool = False
    has_worker_table: bool = False
    status: TableStatus | None = None
    """The status in the state table. Once a state table exists, KCL acts by this status."""
    status_beside_leases: TableStatus | None = None
    """The status in the lease table."""
    in_state_table: frozenset[str] = frozenset()
    """The keys LOCK and CLIENT_VERSION, where the state table has such a row."""
    beside_leases: frozenset[str] = frozenset()
    """The keys LOCK and CLIENT_VERSION, and the ids of workers, where the lease table has such a row."""
    has_leases: bool = False
    has_older_leases: bool = False
    """Leases without an entityType exist. KCL workers older than 3.5 may be running; one row in the lease
    table that isn't a lease would stop them."""
    has_own_leases: bool = False
    """Leases that Headrace has written exist."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    status: TableStatus
    lease_rows_only: bool = False
    """Only leases may be written into the lease table, and without entityType, because older KCL workers read it."""

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


def plan_layout(evidence: LayoutEvidence, layout: Layout) -> Arrangement:
    """Decides the layout. Raises where no layout is safe: writing would stop KCL workers, or the rows are of
    two layouts."""
    _refuse_mixed_layouts(evidence)
    effective = _status_in_effect(evidence)
    # Only KCL 3.5 and later write a status, and its migration leaves old leases without an entityType.
    has_status = evidence.status is not None or evidence.status_beside_leases is not None
    older = evidence.has_older_leases and not evidence.beside_leases and not has_status
    if effective is None:
        effective = TableStatus.COMPLETE if layout is Layout.S else TableStatus.INIT
    arranged = Arrangement(effective, lease_rows_only=older)
    if layout is Layout.S and older:
        raise BadSetting(
            f"kcl.layout is S, but table {evidence.lease_table} holds leases of KCL workers older than 3.5. "
            "A row in it that isn't a lease would stop all these workers. Nothing was written; "
            "set kcl.layout to auto or M, which keep other rows in tables of their own"
        )
    if layout is not Layout.AUTO and layout is not arranged.layout:
        raise BadSetting(
            f"kcl.layout is {layout}, but the application has layout {arranged.layout} already "
            f"({_why(evidence)}). Nothing was written; set kcl.layout to auto or {arranged.layout}"
        )
    return arranged


def _status_in_effect(evidence: LayoutEvidence) -> TableStatus | None:
    """The status that the existing tables and rows imply; None if they imply none."""
    if evidence.has_state_table and evidence.status is not None:
        # Headrace obeys the stored status and never moves rows itself, so a status of PENDING has to stay PENDING here.
        return table_status(
            evidence.status, legacy_table=True, migrate=evidence.status is TableStatus.PENDING
        )
    if evidence.has_state_table or (evidence.has_worker_table and not evidence.beside_leases):
        return TableStatus.INIT
    if evidence.beside_leases or evidence.status_beside_leases is not None:
        return TableStatus.COMPLETE
    # Only leases exist. KCL 3.5 made them unless they lack an entityType (older KCL workers) or Headrace wrote them and
    # its other tables were deleted.
    if evidence.has_leases and not evidence.has_older_leases and not evidence.has_own_leases:
        return TableStatus.COMPLETE
    return TableStatus.INIT if evidence.has_older_leases else None


def _refuse_mixed_layouts(evidence: LayoutEvidence) -> None:
    if not evidence.has_state_table or evidence.status is TableStatus.COMPLETE:
        return
    # While KCL moves the rows into one table, all rows but the lock may already be in the lease table.
    allowed = evidence.status in {TableStatus.DEPLOYED, TableStatus.PENDING}
    stray = evidence.beside_leases & {LOCK} if allowed else evidence.beside_leases
    if not stray and (allowed or evidence.status_beside_leases is not TableStatus.COMPLETE):
        return
    repair = _REPAIR.format(
        row=TABLE_MIGRATION, prefix=PREFIX, state=evidence.state_table, lease=evidence.lease_table
    )
    stray_rows = ", ".join(sorted(stray)) or TABLE_MIGRATION
    if evidence.in_state_table:
        raise WrongShape(
            f"both table {evidence.lease_table} ({stray_rows}) and table {evidence.state_table} "
            f"({', '.join(sorted(evidence.in_state_table))}) hold coordination rows, and it can't be told "
            "which of them the workers use. Nothing was written and no record is lost. "
            f"Find out which layout the workers use; if it is one table: {repair}"
        )
    raise WrongShape(
        f"table {evidence.lease_table} holds the rows of layout S ({stray_rows}), but there is also the stray table "
        f"{evidence.state_table}: each KCL 3.5 worker that starts looks for the leader's lock there, "
        f"and no lease is assigned any more. Nothing was written and no record is lost. {repair}"
    )


def _why(evidence: LayoutEvidence) -> str:
    if evidence.has_state_table and evidence.status is not None:
        return f"the row {TABLE_MIGRATION} in table {evidence.state_table} says {evidence.status}"
    if evidence.has_state_table:
        return f"there is a table {evidence.state_table}"
    if evidence.beside_leases:
        return f"table {evidence.lease_table} holds {', '.join(sorted(evidence.beside_leases))}"
    if evidence.status_beside_leases is not None:
        return f"table {evidence.lease_table} holds {TABLE_MIGRATION}"
    if evidence.has_worker_table:
        return "there is a table for the workers' rows"
    return f"the leases in table {evidence.lease_table} are of KCL 3.5 or newer"
