"""The states of KCL's two upgrades, as rows in the coordination tables tell them.

CLIENT_VERSION   INIT -> UPGRADE_FROM_2X -> 3X_WITH_ROLLBACK -> 3X      (rows of 2.x, `Migration3.0`)
                               ^-- 2X <----------'  rolled back

TABLE_MIGRATION  INIT -> DEPLOYED -> PENDING -> COMPLETE                (three tables to one, `TableMigration3.5`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from headrace.pipeline.errors import BadSetting


class ClientVersion(StrEnum):
    """The version of KCL's client in the row `Migration3.0`: its attribute `cv`, without the prefix CLIENT_VERSION_."""

    INIT = "INIT"
    UPGRADE_FROM_2X = "UPGRADE_FROM_2X"
    ROLLED_BACK = "2X"
    WITH_ROLLBACK = "3X_WITH_ROLLBACK"
    V3 = "3X"


class TableStatus(StrEnum):
    """The status of the move to one table in the row `TableMigration3.5`: its attribute `tm`, without the prefix
    TABLE_MIGRATION_STATUS_.
    """

    INIT = "INIT"
    DEPLOYED = "DEPLOYED"
    PENDING = "PENDING"
    COMPLETE = "COMPLETE"


ACTS_AS_2X = frozenset({ClientVersion.INIT, ClientVersion.UPGRADE_FROM_2X, ClientVersion.ROLLED_BACK})
"""In these states each KCL worker takes leases for itself; in the others a leader assigns the leases."""


@dataclass(frozen=True, slots=True)
class AgreedVersion:
    """The client version on which the workers of an application have agreed."""

    version: ClientVersion
    since: datetime | None = None
    """When leases began to be shared in the way of this version; None where they always were."""

    @property
    def acts_as_2x(self) -> bool:
        return self.version in ACTS_AS_2X


def agreed_version(decisions: Sequence[tuple[ClientVersion, datetime]]) -> AgreedVersion:
    """The agreed version, by all decisions in the row, newest first. `since` is the time of the last decision
    that changed how leases are shared; later decisions that left it as it was don't count.
    """
    version, since = decisions[0]
    for earlier, moment in decisions[1:]:
        # From 3X_WITH_ROLLBACK to 3X, for example, nobody's behaviour changes, and no pause is
        # needed.
        if (earlier in ACTS_AS_2X) is not (version in ACTS_AS_2X):
            return AgreedVersion(version, since)
        since = moment
    return AgreedVersion(version)


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
