"""The lease table in DynamoDB: rows that other programs write too, lost answers, and errors."""

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.aws.clients.clients import dynamodb_client
from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END, Checkpoint
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.errors import TablesMissing, Terminal, Throttled, Unreachable
from headrace.pipeline.settings.blocks.aws import AwsSettings
from tests.aws.kcl_reader import read_as_kcl
from tests.aws.lease_table import CLAIMED, KEY, Table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


# --- rows that other programs write too -----------------------------------------------------------------------------


def test_unknown_attributes_survive_every_write_but_a_delete(table: Table):
    table.hold(CLAIMED)
    future = {"M": {"deep": {"L": [{"N": "1"}, {"BOOL": True}]}}}
    table.edit(fromTheFuture=future)
    read = CLAIMED
    for write in (
        lambda row: change.repair(row, "run/1", Checkpoint("150")),
        lambda row: change.checkpoint(row, "me", "run/1", upto=Checkpoint("200"), throughput_kbps=1.5),
        lambda row: change.note_children(row, frozenset({"shardId-1"})),
        lambda row: change.want(row, "run/2"),
        lambda row: change.release(row, "run/1"),
        lambda row: change.claim(row, "me", "run/3"),
        lambda row: change.beat(row, "me"),
        lambda row: change.give_up(row, "me"),
        lambda row: change.assign(row, "you", "orphan"),
    ):
        answer = table.store.apply(write(read))
        assert isinstance(answer, Applied)
        read = answer.lease
        assert table.row()["fromTheFuture"] == future


def test_a_kcl_row_without_sub_sequence_numbers_can_be_checkpointed(table: Table):
    row = {
        "leaseKey": {"S": KEY},
        "leaseCounter": {"N": "5E+0"},
        "checkpoint": {"S": "100"},
        "leaseOwner": {"S": "me"},
    }
    table.client.put_item(TableName=table.name, Item=row)
    read = table.store.get(KEY)
    assert read == Lease(KEY, 5, Checkpoint("100"), owner="me")
    claimed = table.store.apply(change.claim(read, "me", "run/1"))
    assert isinstance(claimed, Applied)
    landed = table.store.apply(change.checkpoint(claimed.lease, "me", "run/1", upto=Checkpoint("200")))
    assert isinstance(landed, Applied)
    assert table.row()["checkpointSubSequenceNumber"] == {"N": "0"}


@pytest.mark.parametrize("seed", range(4))
def test_kcl_can_read_every_row_after_any_writes_of_headrace(table: Table, seed: int):
    dice = random.Random(seed)
    lease = Lease(KEY, parents=frozenset({"shardId-1"}), hash_range=HashRange(0, 9), stream_epoch=17)
    table.hold(lease)
    row: Lease = lease
    applied = 0
    for number in range(60):
        me, run_claim = dice.choice(["w1", "w2"]), row.run_claim or f"run/{number}"
        at = dice.choice([Checkpoint(str(number), dice.randrange(3)), SHARD_END])
        wanted = dice.choice(
            [
                change.assign(row, me, "dice"),
                change.claim(row, row.holder or me, run_claim, over=True),
                change.beat(row, row.holder or me),
                change.repair(row, run_claim, at),
                change.checkpoint(
                    row, row.holder or me, run_claim, upto=at, throughput_kbps=dice.random() / 10**4
                ),
                change.release(row, run_claim, behind_ms=number),
                change.want(row, f"run/{number}"),
                change.note_children(row, frozenset({"shardId-2"})),
                change.give_up(row, row.holder or me),
            ]
        )
        answer = table.store.apply(wanted)
        applied += isinstance(answer, Applied)
        found = answer.lease if isinstance(answer, Applied) else answer.row
        assert found is not None
        row = found
        read_as_kcl(table.row())
    assert applied > 10


# --- errors ------------------------------------------------------------------------------------------------

COUNTED = {
    "claim": (
        replace(CLAIMED, run_claim=None),
        change.claim(replace(CLAIMED, run_claim=None), "me", "run/2"),
    ),
    "repair": (CLAIMED, change.repair(CLAIMED, "run/1", SHARD_END)),
    "checkpoint": (
        CLAIMED,
        change.checkpoint(CLAIMED, "me", "run/1", upto=Checkpoint("200"), throughput_kbps=1 / 3),
    ),
    "take over": (CLAIMED, change.assign(CLAIMED, "you", "its worker died")),
    "move": (CLAIMED, change.move(CLAIMED, "you", "more to read", when=NOON)),
}
UNCOUNTED = {
    "want": (CLAIMED, change.want(CLAIMED, "run/2")),
    "initiate": (CLAIMED, change.initiate_handover(CLAIMED, "you", "more to read", when=NOON)),
}


@pytest.mark.usefixtures("no_backoff")
@pytest.mark.parametrize("name", [*COUNTED, *UNCOUNTED])
def test_a_write_whose_answer_was_lost_is_applied_once_and_counts_as_applied(table: Table, name: str):
    read, wanted = (COUNTED | UNCOUNTED)[name]
    table.hold(read)
    table.trouble("lost", "UpdateItem", count=1)
    answer = table.store.apply(wanted)
    assert isinstance(answer, Applied)
    assert answer.lease == table.store.get(KEY)
    assert answer.lease.counter == read.counter + (name in COUNTED)
    assert table.calls["UpdateItem sent"] == 2


@pytest.mark.usefixtures("no_backoff")
@pytest.mark.parametrize("kind", ["complete", "release", "give up"])
def test_a_write_without_a_recognizable_value_is_refused_if_its_answer_was_lost(table: Table, kind: str):
    """The row is as the write wanted it. Which write did that can't be known, and doesn't matter."""
    handing = replace(CLAIMED, owner="next", checkpoint_owner="me")
    read, wanted, becomes = {
        "complete": (
            handing,
            change.complete_handover(handing, "its wave is over"),
            replace(handing, counter=6, checkpoint_owner=None, run_claim=None),
        ),
        "release": (CLAIMED, change.release(CLAIMED, "run/1"), replace(CLAIMED, run_claim=None)),
        "give up": (
            CLAIMED,
            change.give_up(CLAIMED, "me"),
            replace(CLAIMED, counter=6, owner=None, run_claim=None),
        ),
    }[kind]
    table.hold(read)
    table.trouble("lost", "UpdateItem", count=1)
    assert table.store.apply(wanted) == Refused(becomes)


@pytest.mark.usefixtures("no_backoff")
def test_a_write_that_came_between_the_lost_answer_and_the_second_try_is_recognized_as_anothers(table: Table):
    table.hold(CLAIMED)
    table.trouble("lost", "UpdateItem", count=1)
    meanwhile = DynamoLeaseStore(table.aws.client("dynamodb"), table.name)
    tries = iter([None, change.assign(replace(CLAIMED, counter=6), "you", "dead")])

    def take_over(**_: Any) -> None:
        wanted = next(tries, None)
        if isinstance(wanted, Change):
            assert isinstance(meanwhile.apply(wanted), Applied)

    table.client.meta.events.register("before-send.dynamodb.UpdateItem", take_over)
    answer = table.store.apply(change.checkpoint(CLAIMED, "me", "run/1", upto=Checkpoint("200")))
    assert isinstance(answer, Refused)
    assert answer.row is not None
    assert (answer.row.owner, answer.row.run_claim) == ("you", None)


@pytest.mark.usefixtures("no_backoff")
def test_throttled_requests_are_repeated_a_few_times(table: Table):
    table.hold(CLAIMED)
    table.trouble("throttle", "UpdateItem", count=2)
    assert isinstance(table.store.apply(change.beat(CLAIMED, "me")), Applied)


@pytest.mark.usefixtures("no_backoff")
@pytest.mark.parametrize(
    ("kind", "error"), [("throttle", Throttled), ("lost", Unreachable), ("error", Unreachable)]
)
def test_errors_after_the_last_repetition_are_transient_and_say_what_is_safe(
    table: Table, kind: str, error: type[Exception]
):
    table.hold(CLAIMED)
    asked = {
        "UpdateItem": lambda: table.store.apply(change.beat(CLAIMED, "me")),
        "GetItem": lambda: table.store.get(KEY),
        "Scan": table.store.scan,
        "DescribeTable": lambda: table.store.held_by("me"),
    }
    for operation, ask in asked.items():
        table.trouble(kind, operation, count=3)
        is_unsure = operation == "UpdateItem" and error is Unreachable
        safe = (
            "Whether the write arrived isn't known.*trying again is safe"
            if is_unsure
            else "Nothing was written"
        )
        with pytest.raises(error, match=rf"table {table.name}.*{safe}") as told:
            ask()
        assert ("isn't known" in str(told.value)) is is_unsure


def test_a_missing_service_is_reported_as_unreachable(table: Table):
    client = dynamodb_client(AwsSettings(region="us-east-1", endpoint="http://127.0.0.1:1"))
    store = DynamoLeaseStore(client, "leases")
    with pytest.raises(
        Unreachable, match=r"no answer.*Nothing was written.*check aws.region and aws.endpoint"
    ):
        store.get(KEY)
    with pytest.raises(Unreachable, match=r"no answer.*Whether the write arrived isn't known"):
        store.apply(change.beat(CLAIMED, "me"))


def test_a_denial_by_the_policy_is_a_terminal_error(table: Table):
    table.trouble("error", "Scan", code="AccessDeniedException", status=400)
    with pytest.raises(Terminal, match=r"AccessDeniedException.*policy"):
        table.store.scan()


@pytest.mark.parametrize("ask", ["get", "scan", "held_by", "apply"])
def test_the_error_for_a_missing_table_names_the_command_that_makes_it(dynamodb: "DynamoDBClient", ask: str):
    store = DynamoLeaseStore(dynamodb, "nowhere")
    asked = {
        "get": lambda: store.get(KEY),
        "scan": store.scan,
        "held_by": lambda: store.held_by("me"),
        "apply": lambda: store.apply(change.beat(CLAIMED, "me")),
    }
    said = r"table nowhere doesn't exist in us-east-1.*auto, the default, the leader's next tick.*never, create them by `headrace tables create`"
    with pytest.raises(TablesMissing, match=said):
        asked[ask]()
