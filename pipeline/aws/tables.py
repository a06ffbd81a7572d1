"""The coordination tables: made as KCL makes them, looked at by everybody, written to here only when they are made."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from pipeline.aws import lease_item, lock_item, worker_item
from pipeline.aws.clients import asking, code_of, where
from pipeline.aws.rows import missing_tables
from pipeline.errors import Unreachable, WrongShape
from pipeline.settings import Billing, Create, Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Table = Mapping[str, Any]
"""As DescribeTable has it."""
Found = Mapping[str, Table | None]

PATIENCE: Final = timedelta(minutes=10)
"""KCL's. A table takes ten seconds; a tick that can't wait so long hands in less and goes on with the next one."""
_LOOK: Final = timedelta(seconds=1)
"""Between two looks. KCL's ten seconds would be most of a demo's start."""
_READY: Final = frozenset({"ACTIVE", "UPDATING"})
_MISSING: Final = "ResourceNotFoundException"
_BUSY: Final = frozenset({"ResourceInUseException", "LimitExceededException"})
"""Somebody else makes the same thing at this moment."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What `headrace tables` shows of one table."""

    name: str
    key: str
    status: str | None
    """DynamoDB's word (ACTIVE, CREATING, ...); None: there is no such table."""
    index: str | None = None
    """The same for the owner index; only the lease table has one."""
    rows: int | None = None
    """As DynamoDB counts, some hours late."""
    billing: str | None = None


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
        self._keys: Mapping[str, str] = {
            settings.lease_table: lease_item.KEY,
            settings.worker_table: worker_item.KEY,
            settings.state_table: lock_item.KEY,
        }

    def ensure(self) -> bool:
        """With coordination.create `never`, missing tables raise TablesMissing, and an index is nobody's business."""
        found = self._look_at_all()
        if self._settings.coordination.create is Create.AUTO:
            return self._complete(found)
        if missing := _missing(found):
            raise missing_tables(missing, self._client)
        return False

    def create(self) -> bool:
        """What a person asks for by `headrace tables create`, whatever the settings say."""
        return self._complete(self._look_at_all())

    def describe(self) -> tuple[TableFacts, ...]:
        return tuple(self._facts(name, table) for name, table in self._look_at_all().items())

    def _complete(self, found: Found) -> bool:
        """A tick asks this every time: where nothing is missing it ends with the three looks that it began with."""
        if all(_is_ready(table) for table in found.values()) and _index_of(found[self._settings.lease_table]):
            return False
        made = [name for name in _missing(found) if self._make(name)]
        for name in self._keys:
            self._wait_for(name)
        for name in made:
            self._back_up(name)
        self._index()
        return bool(made)

    def _look_at_all(self) -> Found:
        return {name: self._look(name) for name in self._keys}

    def _look(self, name: str) -> Table | None:
        """The table as DescribeTable has it, with the shape that we need."""
        try:
            with asking(f"table {name}", passing={_MISSING}):
                found: Table = self._client.describe_table(TableName=name)["Table"]
        except ClientError:
            return None
        wanted = self._keys[name]
        keys = [(part["AttributeName"], part["KeyType"]) for part in found["KeySchema"]]
        types = {each["AttributeName"]: each["AttributeType"] for each in found["AttributeDefinitions"]}
        if keys != [(wanted, "HASH")] or types.get(wanted) != "S":
            shown = ", ".join(f"{key} ({kind}, {types.get(key)})" for key, kind in keys)
            raise WrongShape(
                f"table {name} in {where(self._client)} has the key {shown}, not {wanted} (HASH, S): it is some other "
                "table. Nothing was written; name another one under coordination in the settings"
            )
        return found

    def _make(self, name: str) -> bool:
        """False when somebody else was first, which is as good."""
        coordination = self._settings.coordination
        request: dict[str, Any] = {
            "TableName": name,
            "KeySchema": [{"AttributeName": self._keys[name], "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": self._keys[name], "AttributeType": "S"}],
            "BillingMode": coordination.billing.value,
            "DeletionProtectionEnabled": coordination.deletion_protection,
        }
        if coordination.billing is Billing.PROVISIONED:
            request["ProvisionedThroughput"] = _capacity(
                coordination.read_capacity, coordination.write_capacity
            )
        if coordination.tags:
            request["Tags"] = [{"Key": key, "Value": value} for key, value in coordination.tags.items()]
        try:
            with asking(f"creating table {name}", passing={"ResourceInUseException"}):
                self._client.create_table(**request)
        except ClientError:
            return False
        self._progress(f"table {name}: being created")
        return True

    def _wait_for(self, name: str) -> None:
        waited = timedelta(0)
        while True:
            found = self._look(name)
            if _is_ready(found):
                return
            status = "not there yet" if found is None else found["TableStatus"]
            if waited >= self._patience:
                raise Unreachable(
                    f"table {name} in {where(self._client)} is {status} after {waited.total_seconds():.0f} s. Nothing else was done; "
                    "the next start goes on from here"
                )
            self._progress(f"table {name}: {status}, waited {waited.total_seconds():.0f} s")
            self._pause(_LOOK.total_seconds())
            waited += _LOOK

    def _back_up(self, name: str) -> None:
        """DynamoDB says for some seconds of a new table that backups aren't available yet."""
        waited = timedelta(0)
        while self._settings.coordination.point_in_time_recovery:
            try:
                with asking(f"backups of table {name}", passing={"ContinuousBackupsUnavailableException"}):
                    self._client.update_continuous_backups(
                        TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
                    )
            except ClientError as error:
                if waited >= self._patience:
                    raise Unreachable(
                        f"table {name} was created, but its backups couldn't be switched on ({error}). It is safe to "
                        "use; switch them on in DynamoDB's console"
                    ) from error
                self._progress(
                    f"table {name}: backups aren't available yet, waited {waited.total_seconds():.0f} s"
                )
                self._pause(_LOOK.total_seconds())
                waited += _LOOK
            else:
                return

    def _index(self) -> None:
        """Begun, not waited for: until it is ACTIVE workers find their leases by a scan."""
        name = self._settings.lease_table
        table = self._look(name)
        if table is None or _index_of(table) is not None:
            return
        definition: Any = {
            "IndexName": lease_item.OWNER_INDEX,
            "KeySchema": [
                {"AttributeName": lease_item.OWNER, "KeyType": "HASH"},
                {"AttributeName": lease_item.KEY, "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
        # An index of a provisioned table has units of its own; KCL copies the table's.
        if _billing_of(table) is Billing.PROVISIONED:
            units = table["ProvisionedThroughput"]
            definition["ProvisionedThroughput"] = _capacity(
                units["ReadCapacityUnits"], units["WriteCapacityUnits"]
            )
        try:
            with asking(f"index of table {name}", passing=_BUSY | {"ValidationException"}):
                self._client.update_table(
                    TableName=name,
                    AttributeDefinitions=[
                        {"AttributeName": lease_item.KEY, "AttributeType": "S"},
                        {"AttributeName": lease_item.OWNER, "AttributeType": "S"},
                    ],
                    GlobalSecondaryIndexUpdates=[{"Create": definition}],
                )
        except ClientError as error:
            # Somebody else was first; or is changing the table, and then the next start sees to the index.
            if code_of(error) not in _BUSY and _index_of(self._look(name)) is None:
                raise WrongShape(
                    f"the owner index of table {name} was refused ({error}). Leases are found by scans meanwhile"
                ) from error

    def _facts(self, name: str, found: Table | None) -> TableFacts:
        if found is None:
            return TableFacts(name, self._keys[name], None)
        return TableFacts(
            name,
            self._keys[name],
            found["TableStatus"],
            index=_index_of(found),
            rows=found.get("ItemCount"),
            billing=_billing_of(found).value,
        )


def _missing(found: Found) -> list[str]:
    return [name for name, table in found.items() if table is None]


def _is_ready(table: Table | None) -> bool:
    return table is not None and table["TableStatus"] in _READY


def _index_of(table: Table | None) -> str | None:
    """The status of the owner index, None where there is none."""
    indexes = () if table is None else table.get("GlobalSecondaryIndexes", ())
    return next((i.get("IndexStatus") for i in indexes if i["IndexName"] == lease_item.OWNER_INDEX), None)


def _billing_of(table: Table) -> Billing:
    """A table that was always provisioned says nothing about it."""
    return Billing(table.get("BillingModeSummary", {}).get("BillingMode", Billing.PROVISIONED))


def _capacity(read: int, write: int) -> Mapping[str, int]:
    return {"ReadCapacityUnits": read, "WriteCapacityUnits": write}
