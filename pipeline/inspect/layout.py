"""Which of KCL's layouts an application's tables have, found from their rows.

    leases only   KCL 1.x and 2.x: one table, which holds only leases
    M             KCL 3.0-3.4: the leader's lock and the workers' rows in two tables of their own
    S             KCL 3.5+: everything in the lease table
    moving        from M to S: the workers' rows have moved to the lease table, the lock hasn't
    trapped       S, but a leftover coordinator table makes each KCL 3.5 worker that starts work as in M

Rows decide, not only which tables exist: an empty second table may be a leftover.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.pipeline.core.leases.election import LockRow

_STATUS: Final = "TABLE_MIGRATION_STATUS_"
_COMPLETE: Final = f"{_STATUS}COMPLETE"
_MOVES: Final = frozenset({f"{_STATUS}DEPLOYED", f"{_STATUS}PENDING"})


class LayoutKind(StrEnum):
    """The layouts of KCL's tables; this module's docstring tells what each means."""

    LEASES_ONLY = "leases-only"
    M = "M"
    S = "S"
    MOVING = "moving"
    TRAPPED = "trapped"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRows:
    """What a table holds beside leases: the rows by which workers coordinate."""

    lock: LockRow | None = None
    workers: int = 0
    client_version: str | None = None
    """The client version in the row `Migration3.0`, by which KCL upgrades from 2.x to 3.x."""
    table_migration: str | None = None
    """The status in the row `TableMigration3.5`, by which KCL moves from layout M to S."""

    @property
    def coordinates(self) -> bool:
        return self.lock is not None or self.workers > 0 or self.client_version is not None


EMPTY: Final = OtherRows()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutFacts:
    """The facts about an application's tables from which the layout is found."""

    lease_table: str
    state_table: str
    beside_leases: OtherRows = EMPTY
    state: OtherRows | None = None
    """The rows of the state table; None where there is no such table."""
    worker_rows: int | None = None
    """Number of rows in the worker table; None: there is no such table."""
    typed_leases: bool = False
    """Whether a lease row has the attribute entityType, as KCL 3.5 and newer write it."""


@dataclass(frozen=True, slots=True)
class LayoutSeen:
    """The layout, with a sentence for people."""

    kind: LayoutKind
    sentence: str
    repair: str | None = None
    """What a person has to do; None where nothing has to be done."""


def layout_of(tables: LayoutFacts) -> LayoutSeen:
    if tables.state is None:
        return _without_state_table(tables)
    status = tables.state.table_migration
    # KCL 3.5 goes by this row alone: what else the side tables hold is left over.
    if status == _COMPLETE:
        return LayoutSeen(
            LayoutKind.S, "one table: its move from three is complete, the two side tables are leftovers"
        )
    if tables.beside_leases.coordinates:
        return _both(tables, tables.state)
    migration = f", table migration {status.removeprefix(_STATUS)}" if status else ""
    return LayoutSeen(LayoutKind.M, f"three tables, as KCL 3.0-3.4{migration}")


def _without_state_table(tables: LayoutFacts) -> LayoutSeen:
    keys_beside = tables.beside_leases
    if keys_beside.coordinates or keys_beside.table_migration is not None:
        return LayoutSeen(LayoutKind.S, "one table, as KCL 3.5 and newer")
    if tables.worker_rows is not None:
        return LayoutSeen(
            LayoutKind.M,
            f"three tables, as KCL 3.0-3.4, but there is no table {tables.state_table}, so no worker can be the leader",
        )
    if tables.typed_leases:
        return LayoutSeen(
            LayoutKind.LEASES_ONLY,
            "only leases, written by KCL 3.5 or newer: it runs beside KCL 2.x workers, "
            "or no worker has been leader yet",
        )
    return LayoutSeen(LayoutKind.LEASES_ONLY, "only leases, as KCL 1.x and 2.x")


def _both(tables: LayoutFacts, state: OtherRows) -> LayoutSeen:
    # KCL moves the lock last.
    if state.table_migration in _MOVES and tables.beside_leases.lock is None:
        return LayoutSeen(
            LayoutKind.MOVING, "moving from three tables to one: only the leader's lock hasn't moved yet"
        )
    stray, lease = tables.state_table, tables.lease_table
    # KCL 3.5 takes the existence of a coordinator table for three tables, whatever is in it, so
    # that nothing here may be written before it is known which layout the running workers use.
    if tables.worker_rows is not None and state.coordinates:
        return LayoutSeen(
            LayoutKind.TRAPPED,
            f"rows of both layouts: in {lease} and in {stray}",
            f"find out which layout the running workers use (their KCL version) before anything writes: a KCL 3.5 "
            f"worker that starts expects the lock in {stray}",
        )
    way_out = "" if state.coordinates else f"; or delete the empty table {stray} while no worker runs"
    return LayoutSeen(
        LayoutKind.TRAPPED,
        f"one table, but the leftover table {stray} makes each KCL 3.5 worker that starts expect three "
        "tables: the worker can't write its metrics, and no lease is assigned any more",
        f"put a row TableMigration3.5 with tm = {_COMPLETE} into table {stray} (such a row in the lease table "
        f"has no effect); running workers see it within seconds{way_out}",
    )
