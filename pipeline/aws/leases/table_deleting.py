"""`headrace tables delete`: delete the coordination tables, if no worker uses them. The lake table isn't touched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from headrace.pipeline.aws.clients.clients import asking_aws, place_of_client
from headrace.pipeline.aws.leases import lease_item, lock_item, worker_item
from headrace.pipeline.aws.leases.attributes import Item
from headrace.pipeline.aws.leases.rows import Rows
from headrace.pipeline.aws.leases.table_facts import describe, is_protected, is_ready
from headrace.pipeline.aws.leases.tables import PATIENCE, names_of
from headrace.pipeline.errors import BadSetting, Terminal, Unreachable, WrongShape
from headrace.pipeline.settings.model import Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# The time between two looks at all rows: as long as between two ticks of a worker.
_LOOK: Final = timedelta(seconds=5)
# Codes for a table that is deleted already, or being deleted.
_GONE: Final = frozenset({"ResourceNotFoundException", "ResourceInUseException"})
# Attributes that change while a worker is alive, in rows of leases, workers and the lock, of Headrace and
# of KCL.
_BEATS: Final = (
    lease_item.COUNTER,
    lock_item.VERSION,
    worker_item.BEAT,
    worker_item.RUN_BEATS,
    worker_item.LAST_UPDATE,
)

Beats = dict[tuple[str, str], str]
"""(table, key) of a row -> its changing attributes, as text."""


class TableDeletion:
    """Deletes an application's tables. `progress` is called with a sentence now and then; `pause` waits before
    the rows are read again.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        settings: Settings,
        *,
        progress: Callable[[str], None] | None = None,
        pause: Callable[[float], None] | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._progress = progress or (lambda _: None)
        self._pause = pause or time.sleep
        self._keys = names_of(settings)

    def tables(self) -> tuple[str, ...]:
        """The tables that would be deleted. Raises BadSetting if one is protected from deletion."""
        descriptions = {name: describe(self._client, name, key=key) for name, key in self._keys.items()}
        existing = {name: table for name, table in descriptions.items() if table is not None}
        protected = [name for name, table in existing.items() if is_protected(table)]
        if protected:
            raise BadSetting(
                f"protected from deletion: {', '.join(protected)} in {place_of_client(self._client)}. "
                "Nothing was deleted; switch the protection off first (aws dynamodb update-table "
                "--no-deletion-protection-enabled --table-name ...)"
            )
        return tuple(existing)

    def refuse_if_in_use(self) -> None:
        """Watch the rows until one changes, which raises an error, or until every worker would have to count as
        dead.
        """
        before = self._beats()
        patience = self._patience(before)
        waited = timedelta(0)
        while waited < patience:
            remaining = (patience - waited).total_seconds()
            self._progress(f"watching whether a worker still uses the tables, {remaining:.0f} s to go")
            self._pause(_LOOK.total_seconds())
            waited += _LOOK
            alive = sorted(key for key, beat in self._beats().items() if before.get(key) != beat)
            if alive:
                table, key = alive[0]
                more = f" (and {len(alive) - 1} more)" if len(alive) > 1 else ""
                raise WrongShape(
                    f"in use: row {key} of table {table} changed{more}. Nothing was deleted; stop the workers first "
                    "(`headrace stop`), or use --even-if-in-use"
                )

    def delete(self) -> tuple[str, ...]:
        names = self.tables()
        for name in names:
            try:
                with asking_aws(f"deleting table {name}", passing=_GONE, writes=True):
                    self._client.delete_table(TableName=name)
            except ClientError as error:
                self._progress(f"table {name}: {error}")
            else:
                self._progress(f"table {name}: being deleted")
        for name in names:
            self._wait_until_gone(name)
        return names

    def _wait_until_gone(self, name: str) -> None:
        # A deleted table is DELETING for some seconds, in which a table of the same name can't be made.
        waited = timedelta(0)
        while describe(self._client, name, key=self._keys[name]) is not None:
            if waited >= PATIENCE:
                raise Unreachable(
                    f"table {name} is still being deleted by DynamoDB; nothing more needs to be done"
                )
            self._pause(_LOOK.total_seconds())
            waited += _LOOK

    def _patience(self, beats: Beats) -> timedelta:
        """How long a worker or leader must be silent to count as dead; zero where no row shows a worker or leader."""
        locks = [item for item in self._items() if lock_item.OWNER in item[2]]
        # A KCL leader beats only every 30 s, and its lock row says 120 s.
        promised = [self._promise(item) for _, _, item in locks]
        return max(
            [*promised, *([self._settings.times.lease_duration] if beats else [])], default=timedelta(0)
        )

    def _promise(self, item: Item) -> timedelta:
        """How long this lock row lasts without a beat, as its leader has promised in the row."""
        try:
            return lock_item.read_lock(item).duration
        except Terminal:
            return self._settings.times.leader_lock

    def _beats(self) -> Beats:
        """The changing attributes of all rows, without leases that have no owner: those never change."""
        return {
            (table, key): repr(shown)
            for table, key, item in self._items()
            if (shown := [item[name] for name in _BEATS if name in item])
            and (lease_item.COUNTER not in item or lease_item.OWNER in item)
        }

    def _items(self) -> Iterator[tuple[str, str, Item]]:
        for table, key in self._keys.items():
            if not is_ready(describe(self._client, table, key=key)):
                continue
            for item in Rows(self._client, table, key=key).scan(consistent=True):
                yield table, item[key]["S"], item
