"""The rows of KCL's two migrations in memory, beside the small world's leases, workers and lock."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.pipeline.kcl.migration import ClientVersion, TableStatus, agreed_version
from headrace.pipeline.migrate.facts import Decided, MemberSeen, MigrationFacts
from headrace.pipeline.migrate.steps import (
    Complete,
    DeleteIndex,
    ForgetStatus,
    MoveBack,
    MoveRow,
    RemoveRow,
    SetStatus,
    SetVersion,
    Step,
)

if TYPE_CHECKING:
    from tests.duties.world import World


@dataclass
class MemoryMigrationTables:
    """A world of three tables, whose rows of workers and lock stay in the world's stores. Only the state moves on."""

    world: World
    index: str | None = "ACTIVE"
    decisions: list[tuple[ClientVersion, datetime]] = field(default_factory=list)
    status: tuple[TableStatus, datetime] | None = None
    status_beside_leases: TableStatus | None = None
    by: str = "headrace-migrate"

    def look(self) -> MigrationFacts:
        rows = self.world.leases.scan().leases
        return MigrationFacts(
            now=self.world.clock.now(),
            lease_table="app",
            state_table="app-CoordinatorState",
            version=None if not self.decisions else Decided(*self._newest),
            tables=None if self.status is None else Decided(self.status[0], self.by, self.status[1]),
            one_table=self.status is not None and self.status[0] is TableStatus.COMPLETE,
            index=self.index,
            owners=Counter(row.owner for row in rows if row.owner is not None),
            open_owners=frozenset(row.holder for row in rows if row.holder is not None and not row.has_ended),
            unowned=tuple(sorted(row.key for row in rows if row.owner is None)),
            workers=tuple(
                MemberSeen(
                    name=row.worker_id,
                    is_ours=row.is_ours,
                    reported=row.last_update,
                    supported=row.last_update,
                    in_lease_table=self.status is not None
                    and self.status[0] in {TableStatus.PENDING, TableStatus.COMPLETE},
                    stopping=row.stopping,
                )
                for row in sorted(self.world.rows.listing().workers, key=lambda row: row.worker_id)
            ),
            lock=self.world.lock.read(),
        )

    @property
    def _newest(self) -> tuple[ClientVersion, str, datetime]:
        version, when = self.decisions[0]
        return version, self.by, when

    def apply(self, step: Step) -> bool:  # noqa: C901 - a case for each kind of step
        match step:
            case SetVersion(to, seen):
                return self._set_version(to, seen)
            case SetStatus(to, seen):
                if (None if self.status is None else self.status[0]) is not seen:
                    return False
                self.status = (to, self.world.clock.now())
            case ForgetStatus(seen):
                if self.status is not None and self.status[0] is not seen:
                    return False
                self.status = None
            case Complete(lock):
                if (
                    self.status is None
                    or self.status[0] is not TableStatus.PENDING
                    or self.world.lock.read() != lock
                ):
                    return False
                self.status = (TableStatus.COMPLETE, self.world.clock.now())
                self.status_beside_leases = TableStatus.COMPLETE
            case DeleteIndex():
                self.index = None
            case RemoveRow():
                self._forget_version()
            case MoveRow() | MoveBack():
                pass
        return True

    def _set_version(self, to: ClientVersion, seen: ClientVersion | None) -> bool:
        if (self.decisions[0][0] if self.decisions else None) is not seen:
            return False
        now = self.world.clock.now()
        self.decisions = [(to, now), *(self.decisions or [(ClientVersion.INIT, now)])][:11]
        agreed = agreed_version(self.decisions)
        self.world.tables.version, self.world.tables.version_since = agreed.version, agreed.since
        return True

    def _forget_version(self) -> None:
        self.decisions.clear()
        self.world.tables.version = self.world.tables.version_since = None
