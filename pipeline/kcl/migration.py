"""The states of KCL's two upgrades, as rows in the coordination tables tell them.

CLIENT_VERSION   INIT -> UPGRADE_FROM_2X -> 3X_WITH_ROLLBACK -> 3X      (rows of 2.x, `Migration3.0`)
                               ^-- 2X <----------'  rolled back

TABLE_MIGRATION  INIT -> DEPLOYED -> PENDING -> COMPLETE                (three tables to one, `TableMigration3.5`)
"""

from __future__ import annotations

from enum import StrEnum

from headrace.pipeline.errors import BadSetting


class ClientVersion(StrEnum):
    """The row's `cv`, without its prefix CLIENT_VERSION_."""

    INIT = "INIT"
    UPGRADE_FROM_2X = "UPGRADE_FROM_2X"
    ROLLED_BACK = "2X"
    WITH_ROLLBACK = "3X_WITH_ROLLBACK"
    V3 = "3X"


class TableStatus(StrEnum):
    """The row's `tm`, without its prefix TABLE_MIGRATION_STATUS_."""

    INIT = "INIT"
    DEPLOYED = "DEPLOYED"
    PENDING = "PENDING"
    COMPLETE = "COMPLETE"


ACTS_AS_2X = frozenset({ClientVersion.INIT, ClientVersion.UPGRADE_FROM_2X, ClientVersion.ROLLED_BACK})
"""In these states each KCL worker takes leases for itself; in the others a leader assigns the leases."""


def table_status(stored: TableStatus | None, *, legacy_table: bool, migrate: bool) -> TableStatus:
    """The status by which a KCL worker acts when it starts.

    `legacy_table`: whether the coordinator table of KCL 3.0 to 3.4 exists. `migrate`: the worker's setting
    migrateAllEntitiesToLeaseTable.
    """
    match stored:
        case None if not legacy_table:
            return TableStatus.COMPLETE
        case None | TableStatus.INIT:
            # KCL 3.5 fails to start in this state, too.
            if migrate:
                raise BadSetting(
                    "migrateAllEntitiesToLeaseTable is on, but not every worker supports the move to one table yet. "
                    "Nothing was moved. Start with the setting off, and turn it on once the status is DEPLOYED"
                )
            return TableStatus.INIT
        case TableStatus.DEPLOYED | TableStatus.PENDING:
            return TableStatus.PENDING if migrate else TableStatus.DEPLOYED
        case TableStatus.COMPLETE:
            return stored
