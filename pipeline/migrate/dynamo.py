"""Reads and writes the rows of KCL's two migrations in DynamoDB."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from headrace.pipeline.aws.clients.clients import asking_aws
from headrace.pipeline.aws.clients.error_codes import code_of
from headrace.pipeline.aws.leases import attributes as av
from headrace.pipeline.aws.leases import lease_item, lock_item, migration_item, worker_item
from headrace.pipeline.aws.leases.attributes import Item
from headrace.pipeline.aws.leases.rows import Rows, WrittenRow, missing_tables
from headrace.pipeline.aws.leases.table_facts import describe, index_of, is_ready
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.kcl.layout import CLIENT_VERSION, LOCK, TABLE_MIGRATION
from headrace.pipeline.kcl.migration import ClientVersion, TableStatus
from headrace.pipeline.migrate.facts import REPORTS, Decided, MemberSeen, MigrationFacts
from headrace.pipeline.migrate.lock_copy import copied_lock
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
from headrace.pipeline.ports.base import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

WRITER: Final = "headrace-migrate"
"""Who wrote a row, as `mb` of the row tells."""
_STAYS: Final = frozenset({LOCK, TABLE_MIGRATION})
_BUSY: Final = frozenset({"ResourceInUseException", "LimitExceededException"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoMigrationTables:
    client: DynamoDBClient
    lease_table: str
    worker_table: str
    state_table: str
    clock: Clock

    # -- reading ---------------------------------------------------------------------------------------------------

    def look(self) -> MigrationFacts:
        described = describe(self.client, self.lease_table, key=lease_item.KEY)
        if described is None:
            raise missing_tables([self.lease_table], self.client)
        beside = list(self._leases.scan(consistent=True))
        state = self._all(self.state_table, lock_item.KEY)
        workers = self._all(self.worker_table, worker_item.KEY)
        leases = [row for item in beside if isinstance(row := _lease(item), Lease)]
        side = {item[lease_item.KEY]["S"]: item for item in beside if lease_item.is_no_lease(item)}
        by_state = {item[lock_item.KEY]["S"]: item for item in state or ()}
        tables = _decided(by_state.get(TABLE_MIGRATION), in_lease_table=False) or _decided(
            side.get(TABLE_MIGRATION), in_lease_table=True
        )
        one_table = state is None or (tables is not None and tables.state is TableStatus.COMPLETE)
        lock = side.get(LOCK) if one_table else by_state.get(LOCK)
        return MigrationFacts(
            now=self.clock.now(),
            lease_table=self.lease_table,
            state_table=self.state_table,
            version=_decided(by_state.get(CLIENT_VERSION), in_lease_table=False)
            or _decided(side.get(CLIENT_VERSION), in_lease_table=True),
            tables=tables,
            one_table=one_table,
            leases_only=not side and not any(lease_item.has_type(item) for item in beside),
            index=index_of(described),
            owners=Counter(row.owner for row in leases if row.owner is not None),
            open_owners=frozenset(
                row.holder for row in leases if row.holder is not None and not row.has_ended
            ),
            unowned=tuple(sorted(row.key for row in leases if row.owner is None)),
            workers=(
                *_workers(workers or (), worker_item.KEY, in_lease_table=False),
                *_workers(side.values(), lease_item.KEY, in_lease_table=True),
            ),
            lock=None if lock is None else lock_item.read_lock(lock),
            moving=tuple(sorted(by_state.keys() - _STAYS)),
            other_rows=tuple(sorted(key for key, item in side.items() if _is_other(key, item))),
        )

    def _all(self, table: str, key: str) -> list[Item] | None:
        """All rows of a table beside the lease table; None where there is no such table."""
        if not is_ready(describe(self.client, table, key=key)):
            return None
        return list(Rows(self.client, table, key=key).scan(consistent=True))

    # -- writing ---------------------------------------------------------------------------------------------------

    def apply(self, step: Step) -> bool:
        match step:
            case SetVersion(to, seen):
                return self._set(self._place_of_version(), CLIENT_VERSION, to, seen)
            case SetStatus(to, seen):
                return self._set(self._state, TABLE_MIGRATION, to, seen)
            case ForgetStatus(seen):
                return self._delete(
                    self._state, TABLE_MIGRATION, "tm = :seen", {":seen": migration_item.state_value(seen)}
                )
            case MoveRow(key, seen):
                return self._move(key, seen, source=self._state, target=self._leases)
            case MoveBack(key, seen):
                return self._move(key, seen, source=self._leases, target=self._state)
            case Complete(lock):
                return self._complete(lock)
            case DeleteIndex():
                return self._delete_index()
            case RemoveRow():
                return self._remove(step)

    @property
    def _leases(self) -> Rows:
        return Rows(self.client, self.lease_table, key=lease_item.KEY)

    @property
    def _state(self) -> Rows:
        return Rows(self.client, self.state_table, key=lock_item.KEY)

    def _place_of_version(self) -> Rows:
        """Where `Migration3.0` is, or has to be written: beside the lock."""
        facts_of_state = describe(self.client, self.state_table, key=lock_item.KEY)
        if facts_of_state is None:
            return self._leases
        status = self._state.get(TABLE_MIGRATION)
        is_moved = status is not None and migration_item.read_table_status(status) is TableStatus.COMPLETE
        return self._leases if is_moved else self._state

    def _set(
        self, rows: Rows, name: str, to: ClientVersion | TableStatus, seen: ClientVersion | TableStatus | None
    ) -> bool:
        now, names = self.clock.now(), {"#key": rows.key}
        entity_type = rows.key == lease_item.KEY or isinstance(to, TableStatus)
        if seen is None:
            answer = rows.write(
                "put_item",
                Item=migration_item.new_row(to, WRITER, now, key=rows.key, entity_type=entity_type),
                ConditionExpression="attribute_not_exists(#key)",
                ExpressionAttributeNames=names,
            )
            return isinstance(answer, WrittenRow)
        before = rows.get(name)
        if before is None:
            return False
        values = migration_item.changed_values(before, to, WRITER, now)
        answer = rows.write(
            "update_item",
            Key=rows.key_of(name),
            UpdateExpression="SET " + ", ".join(f"{attribute} = :{attribute}" for attribute in values),
            # `mts` as well, so that the history, which was read before, has every decision.
            ConditionExpression=(
                f"attribute_exists(#key) AND {migration_item.state_attribute(to)} = :seen AND mts = :before"
            ),
            ExpressionAttributeNames=names,
            ExpressionAttributeValues={
                **{f":{attribute}": value for attribute, value in values.items()},
                ":seen": migration_item.state_value(seen),
                ":before": before[migration_item.AT],
            },
        )
        return isinstance(answer, WrittenRow)

    def _delete(self, rows: Rows, key: str, condition: str, values: dict[str, Item]) -> bool:
        answer = rows.write(
            "delete_item",
            Key=rows.key_of(key),
            ConditionExpression=f"attribute_not_exists(#key) OR {condition}",
            ExpressionAttributeNames={"#key": rows.key},
            ExpressionAttributeValues=values,
        )
        return isinstance(answer, WrittenRow)

    def _remove(self, step: RemoveRow) -> bool:
        rows = self._leases if step.is_worker or step.lock_version else self._place_of_version()
        if step.is_worker:
            late = av.moment_value(self.clock.now() - REPORTS, av.SECOND)
            return self._delete(rows, step.key, f"{worker_item.LAST_UPDATE} < :late", {":late": late})
        if step.lock_version:
            version = av.text_value(step.lock_version)
            return self._delete(rows, step.key, f"{lock_item.VERSION} = :version", {":version": version})
        rolled_back = migration_item.state_value(ClientVersion.ROLLED_BACK)
        return self._delete(rows, step.key, "cv = :back", {":back": rolled_back})

    def _delete_index(self) -> bool:
        with asking_aws(f"index of table {self.lease_table}", passing=_BUSY, writes=True):
            try:
                self.client.update_table(
                    TableName=self.lease_table,
                    GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": lease_item.OWNER_INDEX}}],
                )
            except ClientError as error:
                if code_of(error) in _BUSY:
                    return False
                raise
        return True

    # -- transactions over both tables -----------------------------------------------------------------------------

    def _move(self, key: str, seen: TableStatus, *, source: Rows, target: Rows) -> bool:
        item = source.get(key)
        if item is None:
            return True  # a former call has moved it
        moved = {name: value for name, value in item.items() if name != source.key}
        moved[target.key] = av.text_value(key)
        moved.setdefault(lease_item.ENTITY, av.text_value("CLIENT_VERSION_MIGRATION"))
        return self._write_all(
            self._status_is("ConditionCheck", seen),
            {"Put": _new(moved, target)},
            {"Delete": {"TableName": source.table, "Key": source.key_of(key)}},
        )

    def _complete(self, lock: LockRow) -> bool:
        now = self.clock.now()
        before = self._state.get(TABLE_MIGRATION)
        if before is None:
            return False
        values = migration_item.changed_values(before, TableStatus.COMPLETE, WRITER, now)
        update = self._status_is("Update", TableStatus.PENDING)["Update"]
        update["UpdateExpression"] = "SET " + ", ".join(f"{name} = :{name}" for name in values)
        update["ExpressionAttributeValues"] |= {f":{name}": value for name, value in values.items()}
        copy = {
            lease_item.KEY: av.text_value(TABLE_MIGRATION),
            lease_item.ENTITY: before[lease_item.ENTITY],
            **values,
        }
        lock_copy = copied_lock(lock)
        row = lock_item.write_lock(lock_copy, key=lease_item.KEY, entity_type=True)
        # A deployment that still looks into three tables sees this lock stand still once its holder beats the other one.
        keep: dict[str, Any] = {
            "TableName": self.state_table,
            "Key": self._state.key_of(LOCK),
            "UpdateExpression": f"SET {lock_item.DURATION} = :duration",
            "ConditionExpression": f"attribute_exists(#key) AND {lock_item.VERSION} = :version",
            "ExpressionAttributeNames": {"#key": lock_item.KEY},
            "ExpressionAttributeValues": {
                ":duration": lock_item.duration_value(lock_copy.duration),
                ":version": av.text_value(lock.version),
            },
        }
        return self._write_all(
            {"Update": update},
            {"Put": _new(copy, self._leases)},
            {"Put": _new(row, self._leases)},
            {"Update": keep},
        )

    def _status_is(self, operation: str, status: TableStatus) -> dict[str, Any]:
        request = {
            "TableName": self.state_table,
            "Key": self._state.key_of(TABLE_MIGRATION),
            "ConditionExpression": "tm = :seen",
            "ExpressionAttributeValues": {":seen": migration_item.state_value(status)},
        }
        return {operation: request}

    def _write_all(self, *steps: Any) -> bool:
        refused = {"TransactionCanceledException", "TransactionConflictException"}
        try:
            with asking_aws(
                f"tables {self.lease_table} and {self.state_table}", passing=refused, writes=True
            ):
                self.client.transact_write_items(TransactItems=list(steps))
        except ClientError:
            return False
        return True


def _new(item: Item, rows: Rows) -> dict[str, Any]:
    return {
        "TableName": rows.table,
        "Item": item,
        "ConditionExpression": "attribute_not_exists(#key)",
        "ExpressionAttributeNames": {"#key": rows.key},
    }


def _lease(item: Item) -> Lease | object:
    return object() if lease_item.is_no_lease(item) else lease_item.read_lease(item)


def _decided(item: Item | None, *, in_lease_table: bool) -> Decided | None:
    if item is None:
        return None
    if migration_item.CLIENT_VERSION in item:
        version = migration_item.read_version(item)
        return Decided(version.version, version.by, version.at, in_lease_table)
    status = migration_item.read_status_row(item)
    return Decided(status.status, status.by, status.at, in_lease_table)


def _workers(items: Any, key: str, *, in_lease_table: bool) -> tuple[MemberSeen, ...]:
    seen = []
    for item in items:
        row = worker_item.read_worker_row(item, key=key)
        if not isinstance(row, Worker):
            continue
        supports = (av.integer(item, worker_item.SUPPORT) or 0) >= 1
        seen.append(
            MemberSeen(
                name=row.worker_id,
                is_ours=row.is_ours,
                reported=row.last_update,
                supported=av.moment(item, worker_item.SUPPORTED_AT, av.SECOND) if supports else None,
                in_lease_table=in_lease_table,
                stopping=row.stopping,
            )
        )
    return tuple(sorted(seen, key=lambda worker: worker.name))


def _is_other(key: str, item: Item) -> bool:
    return key not in {LOCK, CLIENT_VERSION} and item.get(lease_item.ENTITY) != worker_item.WORKER
