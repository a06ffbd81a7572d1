"""The coordination tables: made as KCL makes them, looked at by everybody, written to here only when they are made."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pipeline.aws import lease_item, lock_item, worker_item
from pipeline.aws.clients import where
from pipeline.aws.layout import look, places
from pipeline.aws.migration import DynamoClientVersion
from pipeline.aws.rows import missing_tables
from pipeline.aws.table_facts import Found, Table, TableFacts, describe, facts_of, index_of, is_ready
from pipeline.aws.table_making import has_backups, make_index, make_table, switch_backups_on
from pipeline.errors import Unreachable
from pipeline.kcl.layout import Arrangement
from pipeline.kcl.migration import ClientVersion
from pipeline.settings import Settings
from pipeline.settings_choices import Create

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PATIENCE: Final = timedelta(minutes=10)
"""KCL's. A table takes ten seconds; a tick that can't wait so long hands in less and goes on with the next one."""
_LOOK: Final = timedelta(seconds=1)
"""Between two looks. KCL's ten seconds would be most of a demo's start."""


class DynamoTables:
    """`progress` hears one sentence per look while a table is being made; `pause` is what waits between looks."""

    def __init__(
        self,
        client: DynamoDBClient,
        settings: Settings,
        *,
        progress: Callable[[str], None] | None = None,
        pause: Callable[[float], None] = time.sleep,
        patience: timedelta = PATIENCE,
    ) -> None:
        self._client = client
        self._settings = settings
        self._progress = progress or (lambda _: None)
        self._pause = pause
        self._patience = patience

    def ensure(self) -> bool:
        """With coordination.create `never`, missing tables raise TablesMissing, and an index is nobody's business."""
        keys = places(self._client, self._settings).keys
        found = self._look_at(keys)
        if self._settings.coordination.create is Create.AUTO:
            return self._complete(keys, found)
        if missing := _missing(found):
            raise missing_tables(missing, self._client)
        return False

    def client_version(self) -> ClientVersion | None:
        found = places(self._client, self._settings)
        # While KCL's leader moves its rows to the lease table, this one may lie on either side.
        asked = (found.lock, found.leases) if found.arrangement.workers_in_both else (found.lock,)
        rows = (DynamoClientVersion(self._client, place.table, key=place.key).read() for place in asked)
        return next((row.version for row in rows if row is not None), None)

    def create(self) -> bool:
        """What a person asks for by `headrace tables create`, whatever the settings say; backups of older tables too."""
        keys = look(self._client, self._settings)[0].keys
        made = self._complete(keys, self._look_at(keys))
        if self._settings.coordination.point_in_time_recovery:
            for name in keys:
                if not has_backups(self._client, name):
                    self._back_up(name)
        return made

    def describe(self) -> tuple[TableFacts, ...]:
        """All that bear one of the application's names, whichever layout needs them."""
        keys = names_of(self._settings)
        return tuple(facts_of(name, keys[name], table) for name, table in self._look_at(keys).items())

    def arrangement(self) -> Arrangement:
        """Raises where the tables contradict the settings or each other."""
        return look(self._client, self._settings)[0].arrangement

    def _complete(self, keys: Mapping[str, str], found: Found) -> bool:
        """A tick asks this every time: where nothing is missing it ends with the looks that it began with."""
        leases = self._settings.lease_table
        if all(is_ready(table) for table in found.values()) and index_of(found[leases]):
            return False
        # The lease table last: without side tables it would pass for the one table of KCL 3.5.
        made = [name for name in reversed(_missing(found)) if self._make(name, keys[name])]
        for name in keys:
            self._wait_for(name, keys[name])
        if self._settings.coordination.point_in_time_recovery:
            for name in made:
                self._back_up(name)
        make_index(self._client, leases)
        return bool(made)

    def _look_at(self, keys: Mapping[str, str]) -> Found:
        return {name: describe(self._client, name, key=key) for name, key in keys.items()}

    def _make(self, name: str, key: str) -> bool:
        if not make_table(self._client, name, key, self._settings.coordination):
            return False
        self._progress(f"table {name}: being created")
        return True

    def _wait_for(self, name: str, key: str) -> None:
        waited = timedelta(0)
        while not is_ready(found := describe(self._client, name, key=key)):
            status = _status_of(found)
            if waited >= self._patience:
                raise Unreachable(
                    f"table {name} in {where(self._client)} is {status} after {waited.total_seconds():.0f} s. Nothing else was done; "
                    "the next start goes on from here"
                )
            self._progress(f"table {name}: {status}, waited {waited.total_seconds():.0f} s")
            waited += self._wait()

    def _back_up(self, name: str) -> None:
        waited = timedelta(0)
        while refusal := switch_backups_on(self._client, name):
            if waited >= self._patience:
                raise Unreachable(
                    f"table {name} was created, but its backups couldn't be switched on ({refusal}). It is safe to "
                    "use; switch them on in DynamoDB's console"
                )
            self._progress(
                f"table {name}: backups aren't available yet, waited {waited.total_seconds():.0f} s"
            )
            waited += self._wait()

    def _wait(self) -> timedelta:
        self._pause(_LOOK.total_seconds())
        return _LOOK


def names_of(settings: Settings) -> Mapping[str, str]:
    """Every table that an application may have, with its key."""
    return {
        settings.lease_table: lease_item.KEY,
        settings.worker_table: worker_item.KEY,
        settings.state_table: lock_item.KEY,
    }


def _missing(found: Found) -> list[str]:
    return [name for name, table in found.items() if table is None]


def _status_of(found: Table | None) -> str:
    return "not there yet" if found is None else str(found["TableStatus"])
