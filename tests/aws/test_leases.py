"""The lease table in DynamoDB: pages, the owner index, odd rows, lost answers, trouble."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from pipeline.aws.clients import dynamodb_client
from pipeline.aws.leases import DynamoLeaseStore
from pipeline.core import change
from pipeline.core.change import Applied, Change, Refused
from pipeline.core.checkpoint import SHARD_END, Checkpoint
from pipeline.core.lease import Lease
from pipeline.core.shard import HashRange
from pipeline.errors import TablesMissing, Terminal, Throttled, Unreachable, WrongShape
from pipeline.local.endpoint import LocalAws
from pipeline.ports import Listing
from pipeline.settings import AwsSettings
from tests.aws.kcl_reader import read_as_kcl
from tests.stand_in import a_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

KEY = "shardId-000000000007"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CLAIMED = Lease(KEY, 5, Checkpoint("100", 3), owner="me", owner_switches=2, run_claim="run/1")


@dataclass
class Table:
    """A store of its own, the hand beside it, and what was asked of DynamoDB."""

    aws: LocalAws
    client: "DynamoDBClient"
    name: str
    store: DynamoLeaseStore
    calls: Counter[str] = field(default_factory=Counter)

    def row(self, key: str = KEY) -> dict[str, Any]:
        found = self.client.get_item(TableName=self.name, Key={"leaseKey": {"S": key}}, ConsistentRead=True)
        return dict(found.get("Item", {}))

    def edit(self, key: str = KEY, **attributes: Any) -> None:
        """A hand, or a KCL worker, at the row."""
        for name, value in attributes.items():
            self.client.update_item(
                TableName=self.name,
                Key={"leaseKey": {"S": key}},
                UpdateExpression="SET #n = :v",
                ExpressionAttributeNames={"#n": name},
                ExpressionAttributeValues={":v": value},
            )

    def hold(self, *rows: Lease) -> None:
        for row in rows:
            assert self.store.apply(change.create(row, "given")) == Applied(row)

    def trouble(self, kind: str, operation: str, **fields: Any) -> None:
        self.aws.inject(kind, operation=operation, resource=self.name, **fields)

    def on_answer(self, operation: str, tell: Any) -> None:
        self.client.meta.events.register(f"after-call.dynamodb.{operation}", tell)

    def make_index(self) -> None:
        self.client.update_table(
            TableName=self.name,
            AttributeDefinitions=[
                {"AttributeName": "leaseKey", "AttributeType": "S"},
                {"AttributeName": "leaseOwner", "AttributeType": "S"},
            ],
            GlobalSecondaryIndexUpdates=[
                {
                    "Create": {
                        "IndexName": "LeaseOwnerToLeaseKeyIndex",
                        "KeySchema": [
                            {"AttributeName": "leaseOwner", "KeyType": "HASH"},
                            {"AttributeName": "leaseKey", "KeyType": "RANGE"},
                        ],
                        "Projection": {"ProjectionType": "KEYS_ONLY"},
                    }
                }
            ],
        )


@pytest.fixture
def table(aws: LocalAws, dynamodb: "DynamoDBClient") -> Iterator[Table]:
    name = a_table(dynamodb, "leaseKey")
    client = dynamodb_client(AwsSettings(region=aws.region, endpoint=aws.endpoint))
    made = Table(aws, client, name, DynamoLeaseStore(client, name))

    def count(model: Any, **_: Any) -> None:
        made.calls[model.name] += 1

    def count_sent(event_name: str, **_: Any) -> None:
        made.calls[f"{event_name.rpartition('.')[2]} sent"] += 1

    client.meta.events.register("before-call.dynamodb", count)
    client.meta.events.register("before-send.dynamodb", count_sent)
    yield made
    aws.clear_faults()
    dynamodb.delete_table(TableName=name)


# --- lists --------------------------------------------------------------------------------------------------


def test_a_list_of_several_pages_comes_whole(table: Table):
    rows = [
        Lease(f"shardId-{i:012d}", owner="me", pending=SHARD_END, pending_state=bytes(300_000))
        for i in range(9)
    ]
    table.hold(*rows)
    table.calls.clear()
    assert {lease.key for lease in table.store.scan().leases} == {row.key for row in rows}
    assert table.calls["Scan"] > 1
    table.calls.clear()
    assert set(table.store.held_by("me").leases) == set(rows)
    assert table.calls["Scan"] > 1


def test_rows_that_we_do_not_understand_are_reported_beside_the_others(table: Table):
    table.hold(CLAIMED, Lease("broken"), Lease("ufo"))
    table.edit("broken", leaseCounter={"S": "five"})
    table.edit("ufo", entityType={"S": "UFO"})
    for listing in (table.store.scan(), table.store.get_many(["broken", "ufo", KEY])):
        assert listing.leases == (CLAIMED,)
        assert {row.key: row.why for row in listing.skipped} == {
            "broken": "leaseCounter is of type S, not N",
            "ufo": "a row of type UFO, not a lease",
        }


@pytest.mark.parametrize(
    "kind", ["STREAM", "LEADER", "CLIENT_VERSION_MIGRATION", "TABLE_MIGRATION", "WORKER_METRIC_STATS"]
)
def test_rows_of_the_other_kinds_that_kcl_knows_are_no_leases_and_nothing_to_report(table: Table, kind: str):
    table.hold(CLAIMED)
    table.client.put_item(
        TableName=table.name,
        Item={"leaseKey": {"S": "x"}, "entityType": {"S": kind}, "leaseOwner": {"S": "me"}},
    )
    assert table.store.scan() == Listing((CLAIMED,))
    assert table.store.held_by("me") == Listing((CLAIMED,))
    table.make_index()
    assert table.store.held_by("me") == Listing((CLAIMED,))
    with pytest.raises(WrongShape, match=f"row x .*{kind}, not a lease"):
        table.store.get("x")


# --- parts of a scan ----------------------------------------------------------------------------------------


def of_size(table: Table, gib: float) -> None:
    def big(parsed: Any, **_: Any) -> None:
        parsed["Table"]["TableSizeBytes"] = int(gib * 1024**3)

    table.on_answer("DescribeTable", big)


@pytest.mark.parametrize(("gib", "parts"), [(0.0, 1), (0.2, 1), (0.5, 3), (100, 32)])
def test_a_scan_has_as_many_parts_as_the_table_is_large(table: Table, gib: float, parts: int):
    rows = {Lease(f"shardId-{i:012d}") for i in range(40)}
    table.hold(*rows)
    of_size(table, gib)
    found = table.store.scan().leases
    assert (set(found), len(found)) == (rows, 40)
    assert table.calls["Scan"] == parts


def test_the_size_is_asked_once_in_a_while_for_all_stores_of_a_process(table: Table):
    for _ in range(3):
        DynamoLeaseStore(table.client, table.name).scan()
    assert table.calls["DescribeTable"] == 1


def test_the_settings_parts_are_taken_without_asking(table: Table):
    store = DynamoLeaseStore(table.client, table.name, segments=4)
    table.hold(CLAIMED)
    assert store.scan().leases == (CLAIMED,)
    assert (table.calls["Scan"], table.calls["DescribeTable"]) == (4, 0)


@pytest.mark.usefixtures("no_backoff")
def test_a_size_that_was_never_to_be_had_means_ten_parts_and_no_failure(table: Table):
    table.hold(CLAIMED)
    table.trouble("error", "DescribeTable", code="AccessDeniedException", status=400)
    assert table.store.scan().leases == (CLAIMED,)
    assert table.calls["Scan"] == 10


@pytest.mark.usefixtures("no_backoff")
def test_trouble_in_one_part_is_trouble_of_the_scan(table: Table):
    table.trouble("throttle", "Scan", count=3)
    with pytest.raises(Throttled):
        DynamoLeaseStore(table.client, table.name, segments=1).scan()


def test_an_odd_row_among_ones_own_is_reported_whether_scanned_or_indexed(table: Table):
    table.hold(CLAIMED, Lease("broken", owner="me"), Lease("foreign", owner="other"))
    table.edit("broken", leaseCounter={"S": "five"})
    for indexed in (False, True):
        if indexed:
            table.make_index()
        listing = table.store.held_by("me")
        assert listing.leases == (CLAIMED,)
        assert [row.key for row in listing.skipped] == ["broken"]


def test_one_odd_row_asked_for_by_itself_says_what_to_do(table: Table):
    table.hold(CLAIMED)
    table.edit(checkpoint={"S": "THE_MIDDLE"})
    for ask in (lambda: table.store.get(KEY), lambda: table.store.apply(change.create(CLAIMED, "again"))):
        with pytest.raises(WrongShape, match=rf"{KEY} of table {table.name} .*THE_MIDDLE.*delete it"):
            ask()
    assert table.row()["checkpoint"] == {"S": "THE_MIDDLE"}


# --- the owner index ----------------------------------------------------------------------------------------


def test_without_an_index_held_rows_are_found_by_a_scan_pending_handovers_too(table: Table):
    handing = Lease("b", owner="next", checkpoint_owner="me")
    table.hold(CLAIMED, handing, Lease("c", owner="other"))
    assert set(table.store.held_by("me").leases) == {CLAIMED, handing}
    assert (table.calls["Scan"], table.calls["Query"]) == (1, 0)


@pytest.mark.parametrize("status", ["CREATING", "UPDATING", "DELETING"])
def test_an_index_that_is_not_active_is_not_asked(table: Table, status: str):
    table.hold(CLAIMED)
    table.make_index()

    def build(parsed: Any, **_: Any) -> None:
        parsed["Table"]["GlobalSecondaryIndexes"][0]["IndexStatus"] = status

    table.on_answer("DescribeTable", build)
    assert table.store.held_by("me").leases == (CLAIMED,)
    assert (table.calls["Scan"], table.calls["Query"]) == (1, 0)


def test_an_active_index_is_asked_instead_of_a_scan_and_described_once(table: Table):
    rows = [Lease(f"shardId-{i:012d}", owner="me") for i in range(120)]
    table.hold(*rows, Lease("c", owner="other"))
    table.make_index()
    for _ in range(3):
        assert set(table.store.held_by("me").leases) == set(rows)
    assert table.calls["Scan"] == 0
    assert table.calls["DescribeTable"] == 1
    assert table.calls["BatchGetItem"] == 6  # a hundred keys are the most of one


def test_the_index_shows_the_next_owner_of_a_row_that_is_being_handed_over(table: Table):
    coming = Lease("b", owner="me", checkpoint_owner="other")
    table.hold(CLAIMED, coming, Lease("c", owner="next", checkpoint_owner="me"))
    table.make_index()
    assert set(table.store.held_by("me").leases) == {CLAIMED, coming}


def test_what_a_late_index_shows_of_rows_that_moved_or_went_is_dropped(table: Table):
    table.hold(CLAIMED, Lease("moved", owner="other"))
    table.make_index()

    def late(parsed: Any, **_: Any) -> None:
        parsed["Items"] += [{"leaseKey": {"S": key}, "leaseOwner": {"S": "me"}} for key in ("moved", "gone")]

    table.on_answer("Query", late)
    assert table.store.held_by("me").leases == (CLAIMED,)


def test_an_index_that_somebody_deleted_is_done_without(table: Table):
    table.hold(CLAIMED)
    table.make_index()
    assert table.store.held_by("me").leases == (CLAIMED,)
    table.client.update_table(
        TableName=table.name,
        GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "LeaseOwnerToLeaseKeyIndex"}}],
    )
    assert table.store.held_by("me").leases == (CLAIMED,)
    assert table.calls["Scan"] == 1


def test_rows_that_dynamodb_leaves_over_are_asked_for_again(table: Table):
    rows = [Lease(f"k{i}", owner="me") for i in range(4)]
    table.hold(*rows)
    table.make_index()

    def half(parsed: Any, **_: Any) -> None:
        found = parsed["Responses"][table.name]
        left = found[1:]
        parsed["Responses"][table.name] = found[:1]
        if left:
            keys = [{"leaseKey": item["leaseKey"]} for item in left]
            parsed["UnprocessedKeys"] = {table.name: {"Keys": keys, "ConsistentRead": True}}

    table.on_answer("BatchGetItem", half)
    assert set(table.store.held_by("me").leases) == set(rows)
    assert table.calls["BatchGetItem"] == 4


def test_rows_that_dynamodb_leaves_over_for_ever_are_throttled(table: Table):
    table.hold(CLAIMED)
    table.make_index()

    def none(parsed: Any, **_: Any) -> None:
        parsed["Responses"] = {}
        parsed["UnprocessedKeys"] = {table.name: {"Keys": [{"leaseKey": {"S": KEY}}]}}

    table.on_answer("BatchGetItem", none)
    with pytest.raises(Throttled, match=table.name):
        table.store.held_by("me")


# --- rows that others write too -----------------------------------------------------------------------------


def test_attributes_that_we_do_not_know_survive_every_write_but_a_delete(table: Table):
    table.hold(CLAIMED)
    future = {"M": {"deep": {"L": [{"N": "1"}, {"BOOL": True}]}}}
    table.edit(fromTheFuture=future)
    read = CLAIMED
    for write in (
        lambda row: change.repair(row, "run/1", Checkpoint("150")),
        lambda row: change.checkpoint(row, "me", "run/1", at=Checkpoint("200"), throughput_kbps=1.5),
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


def test_a_row_of_kcls_without_sub_sequence_numbers_can_be_checkpointed(table: Table):
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
    landed = table.store.apply(change.checkpoint(claimed.lease, "me", "run/1", at=Checkpoint("200")))
    assert isinstance(landed, Applied)
    assert table.row()["checkpointSubSequenceNumber"] == {"N": "0"}


@pytest.mark.parametrize("seed", range(4))
def test_after_any_writes_of_ours_every_row_is_one_that_kcl_reads(table: Table, seed: int):
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
                    row, row.holder or me, run_claim, at=at, throughput_kbps=dice.random() / 10**4
                ),
                change.release(row, run_claim, behind_ms=number),
                change.want(row, f"run/{number}"),
                change.note_children(row, frozenset({"shardId-2"})),
                change.give_up(row, row.holder or me),
            ]
        )
        answer = table.store.apply(wanted)
        applied += isinstance(answer, Applied)
        found = answer.lease if isinstance(answer, Applied) else answer.found
        assert found is not None
        row = found
        read_as_kcl(table.row())
    assert applied > 10


# --- trouble ------------------------------------------------------------------------------------------------

OWN_WRITES = {
    "claim": (
        replace(CLAIMED, run_claim=None),
        change.claim(replace(CLAIMED, run_claim=None), "me", "run/2"),
    ),
    "repair": (CLAIMED, change.repair(CLAIMED, "run/1", SHARD_END)),
    "checkpoint": (
        CLAIMED,
        change.checkpoint(CLAIMED, "me", "run/1", at=Checkpoint("200"), throughput_kbps=1 / 3),
    ),
    "take over": (CLAIMED, change.assign(CLAIMED, "you", "its worker died")),
    "move": (CLAIMED, change.assign(CLAIMED, "you", "more to read", at=NOON)),
}
UNCOUNTED = {
    "want": (CLAIMED, change.want(CLAIMED, "run/2")),
    "initiate": (CLAIMED, change.initiate_handover(CLAIMED, "you", "more to read", at=NOON)),
}


@pytest.mark.usefixtures("no_backoff")
@pytest.mark.parametrize("name", [*OWN_WRITES, *UNCOUNTED])
def test_a_write_whose_answer_was_lost_is_applied_once_and_known_as_ones_own(table: Table, name: str):
    read, wanted = (OWN_WRITES | UNCOUNTED)[name]
    table.hold(read)
    table.trouble("lost", "UpdateItem", count=1)
    answer = table.store.apply(wanted)
    assert isinstance(answer, Applied)
    assert answer.lease == table.store.get(KEY)
    assert answer.lease.counter == read.counter + (name in OWN_WRITES)
    assert table.calls["UpdateItem sent"] == 2


@pytest.mark.usefixtures("no_backoff")
@pytest.mark.parametrize("kind", ["complete", "release", "give up"])
def test_a_write_that_leaves_no_mark_is_refused_when_its_answer_was_lost_and_shown_as_it_stands(
    table: Table, kind: str
):
    """What it wanted is done; whether by it or by somebody else can't be told, and needn't be."""
    handing = replace(CLAIMED, owner="next", checkpoint_owner="me")
    read, wanted, becomes = {
        "complete": (
            handing,
            change.complete_handover(handing, "its wave is over"),
            replace(handing, counter=6, checkpoint_owner=None, run_claim=None),
        ),
        "release": (CLAIMED, change.release(CLAIMED, "run/1"), replace(CLAIMED, counter=6, run_claim=None)),
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
def test_a_write_between_the_lost_answer_and_the_second_try_is_not_ones_own(table: Table):
    table.hold(CLAIMED)
    table.trouble("lost", "UpdateItem", count=1)
    meanwhile = DynamoLeaseStore(table.aws.client("dynamodb"), table.name)
    tries = iter([None, change.assign(replace(CLAIMED, counter=6), "you", "dead")])

    def take_over(**_: Any) -> None:
        wanted = next(tries, None)
        if isinstance(wanted, Change):
            assert isinstance(meanwhile.apply(wanted), Applied)

    table.client.meta.events.register("before-send.dynamodb.UpdateItem", take_over)
    answer = table.store.apply(change.checkpoint(CLAIMED, "me", "run/1", at=Checkpoint("200")))
    assert isinstance(answer, Refused)
    assert answer.found is not None
    assert (answer.found.owner, answer.found.run_claim) == ("you", None)


@pytest.mark.usefixtures("no_backoff")
def test_a_throttled_table_is_asked_again_a_few_times(table: Table):
    table.hold(CLAIMED)
    table.trouble("throttle", "UpdateItem", count=2)
    assert isinstance(table.store.apply(change.beat(CLAIMED, "me")), Applied)


@pytest.mark.usefixtures("no_backoff")
@pytest.mark.parametrize(
    ("kind", "error"), [("throttle", Throttled), ("lost", Unreachable), ("error", Unreachable)]
)
def test_trouble_beyond_our_patience_is_transient_and_says_what_is_safe(
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
        with pytest.raises(error, match=rf"table {table.name}.*(Nothing was written|a second try safe)"):
            ask()


def test_a_service_that_is_not_there_is_unreachable(table: Table):
    client = dynamodb_client(AwsSettings(region="us-east-1", endpoint="http://127.0.0.1:1"))
    with pytest.raises(Unreachable, match="no answer"):
        DynamoLeaseStore(client, "leases").get(KEY)


def test_a_refusal_of_the_policy_is_terminal(table: Table):
    table.trouble("error", "Scan", code="AccessDeniedException", status=400)
    with pytest.raises(Terminal, match=r"AccessDeniedException.*policy"):
        table.store.scan()


@pytest.mark.parametrize("ask", ["get", "scan", "held_by", "apply"])
def test_a_missing_table_is_named_with_the_command_that_makes_it(dynamodb: "DynamoDBClient", ask: str):
    store = DynamoLeaseStore(dynamodb, "nowhere")
    asked = {
        "get": lambda: store.get(KEY),
        "scan": store.scan,
        "held_by": lambda: store.held_by("me"),
        "apply": lambda: store.apply(change.beat(CLAIMED, "me")),
    }
    with pytest.raises(TablesMissing, match=r"table nowhere isn't in us-east-1.*`headrace tables create`"):
        asked[ask]()
