"""The coordination tables as a whole: create missing ones as KCL would, describe them, and find their layout."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from headrace.pipeline.aws.clients.clients import place_of_client
from headrace.pipeline.aws.leases import lease_item, lock_item, migration_item, worker_item
from headrace.pipeline.aws.leases.client_version import DynamoClientVersion
from headrace.pipeline.aws.leases.rows import missing_tables
from headrace.pipeline.aws.leases.table_facts import (
    Found,
    Table,
    TableFacts,
    describe,
    index_of,
    is_ready,
    table_facts_of,
)
from headrace.pipeline.aws.leases.table_layout import KnownPlaces, look_at_layout
from headrace.pipeline.aws.leases.table_making import has_backups, make_index, make_table, switch_backups_on
from headrace.pipeline.clock import SystemClock
from headrace.pipeline.errors import TablesMissing, Unreachable
from headrace.pipeline.kcl.layout import Arrangement
from headrace.pipeline.kcl.migration import AgreedVersion, ClientVersion, agreed_version
from headrace.pipeline.settings.choices import Create
from headrace.pipeline.settings.model import Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PATIENCE: Final = timedelta(minutes=10)
"""How long to wait for a new table, as in KCL; ten seconds are usual. A leader's tick gives a shorter time,
because the next tick goes on waiting.
"""
# The time between two looks. KCL takes 10 s, which would be most of the time that the demo takes to start.
_LOOK: Final = timedelta(seconds=1)


class DynamoTables:
    """The Tables port on DynamoDB. While a table is being created, its status is read again and again: each time
    `progress` is called with a sentence, and `pause` waits in between.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        settings: Settings,
        *,
        progress: Callable[[str], None] | None = None,
        pause: Callable[[float], None] = time.sleep,
        patience: timedelta = PATIENCE,
        places: KnownPlaces | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._progress = progress or (lambda _: None)
        self._pause = pause
        self._patience = patience
        self._places = places or KnownPlaces(client, settings, SystemClock())

    def ensure(self) -> bool:
        """Create missing tables and the owner index. With `coordination.create: never`, missing tables raise
        TablesMissing instead, and a missing index is accepted.
        """
        keys = self._places().keys
        tables = self._look_at(keys)
        if self._settings.coordination.create is Create.AUTO:
            return self._complete(keys, tables)
        if missing := _missing(tables):
            raise missing_tables(missing, self._client)
        return False

    def client_version(self) -> ClientVersion | None:
        agreed = self.agreed_version()
        return None if agreed is None else agreed.version

    def agreed_version(self) -> AgreedVersion | None:
        places = self._places()
        # While KCL's leader moves its rows to the lease table, this row may be in either table.
        asked_places = (places.lock, places.leases) if places.arrangement.workers_in_both else (places.lock,)
        for place in asked_places:
            # The leader of a new application asks this before it makes the tables.
            with suppress(TablesMissing):
                row = DynamoClientVersion(self._client, place.table, key=place.key).read()
                if row is not None:
                    return agreed_version(migration_item.decisions(row))
        return None

    def create(self) -> bool:
        """Do what `headrace tables create` does: create missing tables whatever coordination.create says, and switch
        backups on for existing tables, too, if the settings ask for backups.
        """
        keys = look_at_layout(self._client, self._settings)[0].keys
        is_new = self._complete(keys, self._look_at(keys))
        if self._settings.coordination.point_in_time_recovery:
            for name in keys:
                if not has_backups(self._client, name):
                    self._back_up(name)
        return is_new

    def describe(self) -> tuple[TableFacts, ...]:
        """All tables with one of the application's three names, whether or not the layout needs them."""
        keys = names_of(self._settings)
        return tuple(table_facts_of(name, keys[name], table) for name, table in self._look_at(keys).items())

    def arrangement(self) -> Arrangement:
        """Which tables hold which rows of the application. Raises an error where the tables contradict the
        settings or each other.
        """
        return look_at_layout(self._client, self._settings)[0].arrangement

    def _complete(self, keys: Mapping[str, str], tables: Found) -> bool:
        """Create what is missing. Each leader tick calls this; where nothing is missing, it sends no further
        request."""
        leases = self._settings.lease_table
        if all(is_ready(table) for table in tables.values()) and index_of(tables[leases]):
            return False
        # The lease table last: a lease table without the other two looks like the single table of KCL 3.5 (layout S).
        created = [name for name in reversed(_missing(tables)) if self._make(name, keys[name])]
        for name in keys:
            self._wait_for(name, keys[name])
        if self._settings.coordination.point_in_time_recovery:
            for name in created:
                self._back_up(name)
        # After the tables, and without waiting for it: workers scan until the index is ACTIVE.
        make_index(self._client, leases)
        return bool(created)

    def _look_at(self, keys: Mapping[str, str]) -> Found:
        return {name: describe(self._client, name, key=key) for name, key in keys.items()}

    def _make(self, name: str, key: str) -> bool:
        if not make_table(self._client, name, key, self._settings.coordination):
            return False
        self._progress(f"table {name}: being created")
        return True

    def _wait_for(self, name: str, key: str) -> None:
        waited = timedelta(0)
        while not is_ready(table := describe(self._client, name, key=key)):
            status = _status_of(table)
            if waited >= self._patience:
                raise Unreachable(
                    f"table {name} in {place_of_client(self._client)} is {status} after "
                    f"{waited.total_seconds():.0f} s. Nothing else was done; the next start goes on waiting"
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
    """Every table that an application may have, with the name of its key."""
    return {
        settings.lease_table: lease_item.KEY,
        settings.worker_table: worker_item.KEY,
        settings.state_table: lock_item.KEY,
    }


def _missing(tables: Found) -> list[str]:
    return [name for name, table in tables.items() if table is None]


def _status_of(table: Table | None) -> str:
    return "not listed yet" if table is None else str(table["TableStatus"])
