"""Where an application keeps its rows, as seen from outside: which of KCL's layouts its tables have.

    leases only   KCL 2.x: one table, nothing in it but leases
    M             KCL 3.0-3.4: the leader's lock and the workers' rows in two tables of their own
    S             KCL 3.5+: everything in the lease table
    moving        from M to S: the workers' rows have moved, the lock hasn't
    trapped       S, but a stray coordinator table makes each KCL 3.5 worker that starts believe in M

Rows decide, not the presence of tables alone: an empty side table may be a stray one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pipeline.core.election import LockRow

_STATUS: Final = "TABLE_MIGRATION_STATUS_"
_COMPLETE: Final = f"{_STATUS}COMPLETE"
_MOVES: Final = frozenset({f"{_STATUS}DEPLOYED", f"{_STATUS}PENDING"})


class Seen(StrEnum):
    LEASES_ONLY = "leases-only"
    M = "M"
    S = "S"
    MOVING = "moving"
    TRAPPED = "trapped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a table holds beside leases."""

    lock: LockRow | None = None
    workers: int = 0
    client_version: str | None = None
    """Of the row `Migration3.0`, from 2.x to 3.x."""
    table_migration: str | None = None
    """Of the row `TableMigration3.5`, from M to S."""

    @property
    def coordinates(self) -> bool:
        return self.lock is not None or self.workers > 0 or self.client_version is not None


EMPTY: Final = Place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    lease_table: str
    state_table: str
    beside_leases: Place = EMPTY
    state: Place | None = None
    """None: there is no such table."""
    worker_rows: int | None = None
    """Of the worker table; None: there is no such table."""
    typed_leases: bool = False
    """Whether a lease row says that it is one, as KCL 3.5 and newer write."""


@dataclass(frozen=True, slots=True)
class LayoutSeen:
    kind: Seen
    sentence: str
    repair: str | None = None
    """What a person has to do about it; None: nothing."""


def layout_of(tables: Tables) -> LayoutSeen:
    if tables.state is None:
        return _without_state_table(tables)
    status = tables.state.table_migration
    if status == _COMPLETE:
        return LayoutSeen(
            Seen.S, "one table: its move from three is complete, the two side tables are leftovers"
        )
    if tables.beside_leases.coordinates:
        return _both(tables, tables.state)
    known = f", table migration {status.removeprefix(_STATUS)}" if status else ""
    return LayoutSeen(Seen.M, f"three tables, as KCL 3.0-3.4{known}")


def _without_state_table(tables: Tables) -> LayoutSeen:
    here = tables.beside_leases
    if here.coordinates or here.table_migration is not None:
        return LayoutSeen(Seen.S, "one table, as KCL 3.5 and newer")
    if tables.worker_rows is not None:
        return LayoutSeen(
            Seen.M, f"three tables, as KCL 3.0-3.4, but there is no table {tables.state_table}: nobody leads"
        )
    if tables.typed_leases:
        return LayoutSeen(
            Seen.LEASES_ONLY,
            "nothing but leases, written by KCL 3.5 or newer: it runs beside 2.x workers, or nobody has led yet",
        )
    return LayoutSeen(Seen.LEASES_ONLY, "nothing but leases, as KCL 2.x")


def _both(tables: Tables, state: Place) -> LayoutSeen:
    if state.table_migration in _MOVES and tables.beside_leases.lock is None:
        return LayoutSeen(Seen.MOVING, "moving from three tables to one: the lock is the last to move")
    stray, lease = tables.state_table, tables.lease_table
    if tables.worker_rows is not None and state.coordinates:
        return LayoutSeen(
            Seen.TRAPPED,
            f"rows of both layouts: in {lease} and in {stray}",
            f"find out which layout the running workers use (their KCL version) before anything writes: a KCL 3.5 "
            f"worker that starts takes {stray} for the place of the lock",
        )
    way_out = "" if state.coordinates else f"; or delete the empty table {stray} while no worker runs"
    return LayoutSeen(
        Seen.TRAPPED,
        f"one table, but the stray table {stray} makes each KCL 3.5 worker that starts believe in three: "
        "it can't write its metrics, and no lease is assigned any more",
        f"put a row TableMigration3.5 with tm = {_COMPLETE} into table {stray} (one in the lease table doesn't "
        f"help); running workers see it within seconds{way_out}",
    )
