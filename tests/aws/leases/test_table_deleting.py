"""`headrace tables delete` deletes only unused coordination tables, and never the lake table."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.aws.clients.clients import dynamodb_client
from headrace.pipeline.aws.leases.table_deleting import TableDeletion
from headrace.pipeline.aws.leases.tables import DynamoTables
from headrace.pipeline.errors import BadSetting, Unreachable, WrongShape
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.blocks.coordination import CoordinationSettings
from headrace.pipeline.settings.blocks.kcl import KclSettings
from headrace.pipeline.settings.choices import Layout
from headrace.pipeline.settings.model import Settings
from tests.stand_in import table_names

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@dataclass
class Account:
    """The coordination tables of one application, and a deletion of them whose pauses run `meanwhile`."""

    client: "DynamoDBClient"
    settings: Settings
    said: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    meanwhile: Callable[[], Any] = lambda: None

    def pause(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.meanwhile()

    @property
    def deletion(self) -> TableDeletion:
        return TableDeletion(self.client, self.settings, progress=self.said.append, pause=self.pause)

    @property
    def existing(self) -> set[str]:
        mine = {self.settings.lease_table, self.settings.worker_table, self.settings.state_table}
        return mine & table_names(self.client)

    def put(self, table: str, **item: Any) -> None:
        self.client.put_item(TableName=table, Item=item)

    def lease(self, counter: int, **more: Any) -> None:
        row = {"leaseKey": {"S": "shardId-0"}, "leaseCounter": {"N": str(counter)}, "checkpoint": {"S": "5"}}
        self.put(self.settings.lease_table, **row, **more)

    def worker(self, beat: int) -> None:
        self.put(self.settings.worker_table, wid={"S": "w1"}, lut={"N": "7"}, beat={"N": str(beat)})

    def lock(self, version: str, milliseconds: int = 60_000) -> None:
        self.put(
            self.settings.state_table,
            key={"S": "Leader"},
            ownerName={"S": "w1"},
            leaseDuration={"S": str(milliseconds)},
            recordVersionNumber={"S": version},
        )


@pytest.fixture
def account(aws: LocalAws, dynamodb: "DynamoDBClient") -> Iterator[Account]:
    settings = Settings(application=f"app-{uuid.uuid4().hex[:8]}", streams=())
    made = Account(dynamodb_client(AwsSettings(region=aws.region, endpoint=aws.endpoint)), settings)
    DynamoTables(made.client, settings, pause=lambda _: None).create()
    yield made
    for name in made.existing:
        dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
        dynamodb.delete_table(TableName=name)


def test_all_three_tables_are_deleted(account: Account):
    assert len(account.deletion.tables()) == 3
    assert len(account.deletion.delete()) == 3
    assert account.existing == set()
    assert account.deletion.tables() == ()
    assert account.deletion.delete() == ()


@pytest.mark.usefixtures("no_backoff")
def test_the_error_for_a_lost_answer_says_that_the_table_may_be_deleted(account: Account, aws: LocalAws):
    aws.inject("error", operation="DeleteTable")
    with pytest.raises(Unreachable, match=r"deleting table.*Whether the write arrived isn't known"):
        account.deletion.delete()
    aws.clear_faults()


def test_tables_without_any_beats_are_not_watched_before_they_are_deleted(account: Account):
    account.deletion.refuse_if_in_use()
    assert account.waits == []


def test_in_layout_s_left_over_tables_are_deleted_too(account: Account):
    account.settings = replace(account.settings, kcl=KclSettings(layout=Layout.S))
    assert len(account.deletion.delete()) == 3


SIGNS_OF_USE: dict[str, Callable[[Account, int], None]] = {
    "a worker beats": lambda account, n: account.worker(n),
    "the lock is held": lambda account, n: account.lock(f"v{n}"),
    "a lease of a KCL worker is renewed": lambda account, n: account.lease(n, leaseOwner={"S": "kcl"}),
    "a worker comes": lambda account, n: account.worker(n) if n else account.lock("v"),
}


@pytest.mark.parametrize("sign", SIGNS_OF_USE)
def test_the_deletion_is_refused_if_any_counter_moves(account: Account, sign: str):
    SIGNS_OF_USE[sign](account, 0)
    account.meanwhile = lambda: SIGNS_OF_USE[sign](account, len(account.waits) // 2)
    with pytest.raises(
        WrongShape, match=r"in use: row .* changed.*Nothing was deleted.*`headrace stop`.*--even-if-in-use"
    ):
        account.deletion.refuse_if_in_use()
    assert len(account.waits) == 2
    assert len(account.existing) == 3


@pytest.mark.parametrize(("sign", "seconds"), list(zip(SIGNS_OF_USE, (20, 60, 20, 60), strict=True)))
def test_the_deletion_isnt_refused_for_a_worker_that_is_silent_for_the_lease_duration(
    account: Account, sign: str, seconds: int
):
    SIGNS_OF_USE[sign](account, 0)
    account.deletion.refuse_if_in_use()
    assert sum(account.waits) == seconds
    assert account.said[0].startswith("watching whether a worker still uses the tables")


def test_a_lock_is_watched_for_the_duration_that_it_names(account: Account):
    account.lock("v", milliseconds=120_000)
    account.deletion.refuse_if_in_use()
    assert sum(account.waits) == 120


def test_a_lock_that_isnt_understood_is_watched_for_the_settings_duration(account: Account):
    account.put(account.settings.state_table, key={"S": "Leader"}, ownerName={"S": "w1"})
    account.settings = replace(
        account.settings, times=replace(account.settings.times, leader_tick=timedelta(seconds=10))
    )
    account.deletion.refuse_if_in_use()
    assert sum(account.waits) == 40


def test_the_deletion_isnt_refused_for_an_unowned_lease(account: Account):
    account.lease(5)
    account.deletion.refuse_if_in_use()
    assert account.waits == []


def test_a_protected_table_is_named_and_no_table_is_deleted(account: Account):
    account.client.update_table(TableName=account.settings.state_table, DeletionProtectionEnabled=True)
    for ask in (account.deletion.tables, account.deletion.delete):
        with pytest.raises(
            BadSetting, match=rf"protected from deletion: {account.settings.state_table} in .*Nothing was"
        ):
            ask()
    assert len(account.existing) == 3


def test_a_table_of_another_shape_is_not_deleted(account: Account):
    mine = account.settings
    account.settings = replace(mine, coordination=CoordinationSettings(state_table=mine.worker_table))
    with pytest.raises(WrongShape, match="a different table"):
        account.deletion.delete()
    account.settings = mine
    assert len(account.existing) == 3


def test_a_table_that_is_deleted_by_another_program_meanwhile_is_no_error(
    account: Account, dynamodb: "DynamoDBClient"
):
    def delete_before_the_command(params: Any, **_: Any) -> None:
        dynamodb.delete_table(TableName=params["TableName"])

    account.client.meta.events.register(
        "provide-client-params.dynamodb.DeleteTable", delete_before_the_command
    )
    assert len(account.deletion.delete()) == 3
    assert account.existing == set()
