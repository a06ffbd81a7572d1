"""Listings of leases in DynamoDB: pages, segments, the owner index, odd rows and rows of other kinds."""

from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Refused
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END
from headrace.pipeline.errors import Throttled, WrongShape
from headrace.pipeline.ports.leases import Listing
from tests.aws.lease_table import CLAIMED, KEY, Table

# --- lists --------------------------------------------------------------------------------------------------


def test_a_listing_of_several_pages_is_complete(table: Table):
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


def test_rows_that_arent_understood_are_reported_and_the_others_listed(table: Table):
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
def test_rows_of_kcls_other_kinds_are_neither_listed_nor_reported(table: Table, kind: str):
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
    """Let DescribeTable report this size of the table."""

    def report_the_size(parsed: Any, **_: Any) -> None:
        parsed["Table"]["TableSizeBytes"] = int(gib * 1024**3)

    table.on_answer("DescribeTable", report_the_size)


def of_many_rows(table: Table, rows: int = 100_000) -> None:
    """Let DescribeTable report that the table has so many rows."""

    def report_the_rows(parsed: Any, **_: Any) -> None:
        parsed["Table"]["ItemCount"] = rows

    table.on_answer("DescribeTable", report_the_rows)


@pytest.mark.parametrize(("gib", "parts"), [(0.0, 1), (0.2, 1), (0.5, 3), (100, 32)])
def test_a_scan_has_segments_by_the_size_of_the_table(table: Table, gib: float, parts: int):
    rows = {Lease(f"shardId-{i:012d}") for i in range(40)}
    table.hold(*rows)
    of_size(table, gib)
    found = table.store.scan().leases
    assert (set(found), len(found)) == (rows, 40)
    assert table.calls["Scan"] == parts


def test_the_size_of_the_table_is_requested_only_from_time_to_time(table: Table):
    for _ in range(3):
        table.store.scan()
    assert table.calls["DescribeTable"] == 1


@pytest.mark.usefixtures("no_backoff")
def test_if_the_size_cant_be_read_a_scan_has_ten_segments(table: Table):
    table.hold(CLAIMED)
    table.trouble("error", "DescribeTable", code="AccessDeniedException", status=400)
    assert table.store.scan().leases == (CLAIMED,)
    assert table.calls["Scan"] == 10


@pytest.mark.usefixtures("no_backoff")
def test_an_error_in_one_segment_fails_the_scan(table: Table):
    table.trouble("throttle", "Scan", count=3)
    with pytest.raises(Throttled):
        table.store.scan()


def test_an_odd_row_of_the_worker_is_reported_with_and_without_the_index(table: Table):
    table.hold(CLAIMED, Lease("broken", owner="me"), Lease("foreign", owner="other"))
    table.edit("broken", leaseCounter={"S": "five"})
    for indexed in (False, True):
        if indexed:
            table.make_index()
        listing = table.store.held_by("me")
        assert listing.leases == (CLAIMED,)
        assert [row.key for row in listing.skipped] == ["broken"]


def test_the_error_for_a_single_odd_row_says_what_to_do(table: Table):
    table.hold(CLAIMED)
    table.edit(checkpoint={"S": "THE_MIDDLE"})
    for ask in (lambda: table.store.get(KEY), lambda: table.store.apply(change.create(CLAIMED, "again"))):
        with pytest.raises(WrongShape, match=rf"{KEY} of table {table.name} .*THE_MIDDLE.*delete it"):
            ask()
    assert table.row()["checkpoint"] == {"S": "THE_MIDDLE"}


# --- the owner index ----------------------------------------------------------------------------------------


def test_without_an_index_a_scan_finds_a_workers_rows_and_its_pending_handovers(table: Table):
    handing = Lease("b", owner="next", checkpoint_owner="me")
    table.hold(CLAIMED, handing, Lease("c", owner="other"))
    assert set(table.store.held_by("me").leases) == {CLAIMED, handing}
    assert (table.calls["Scan"], table.calls["Query"]) == (1, 0)


@pytest.mark.parametrize("status", ["CREATING", "UPDATING", "DELETING"])
def test_an_index_that_is_not_active_is_not_used(table: Table, status: str):
    table.hold(CLAIMED)
    table.make_index()

    def report_the_index_status(parsed: Any, **_: Any) -> None:
        parsed["Table"]["GlobalSecondaryIndexes"][0]["IndexStatus"] = status

    table.on_answer("DescribeTable", report_the_index_status)
    assert table.store.held_by("me").leases == (CLAIMED,)
    assert (table.calls["Scan"], table.calls["Query"]) == (1, 0)


def test_in_a_large_table_a_workers_rows_are_read_by_the_keys_of_the_index(table: Table):
    rows = [Lease(f"shardId-{i:012d}", owner="me") for i in range(120)]
    table.hold(*rows, Lease("c", owner="other"))
    table.make_index()
    of_many_rows(table)
    for _ in range(3):
        assert set(table.store.held_by("me").leases) == set(rows)
    assert table.calls["Scan"] == 0
    assert table.calls["DescribeTable"] == 2, "once for the index, once for the number of rows"
    assert table.calls["BatchGetItem"] == 6  # one request holds a hundred keys at most


def test_a_worker_with_most_rows_of_a_table_reads_them_by_one_consistent_scan(table: Table):
    """DynamoDB charges each row of a BatchGetItem as 4 KB, and the rows of a scan by their bytes together."""
    rows = [Lease(f"shardId-{i:012d}", owner="me") for i in range(20)]
    table.hold(*rows, Lease("broken"), *(Lease(f"other-{i}", owner="other") for i in range(20)))
    table.edit("broken", leaseCounter={"S": "five"})
    table.make_index()
    asked: list[Any] = []
    table.client.meta.events.register(
        "provide-client-params.dynamodb.Scan", lambda params, **_: asked.append(params)
    )
    for answer in (table.store.held_by("me"), table.store.get_many([row.key for row in rows])):
        assert (set(answer.leases), answer.skipped) == (set(rows), ())
    assert (table.calls["Scan"], table.calls["BatchGetItem"]) == (2, 0)
    assert [params["ConsistentRead"] for params in asked] == [True, True]


def test_a_new_table_of_which_nothing_tells_the_size_is_scanned_for_many_keys_only_and_then_known(
    table: Table,
):
    rows = [Lease(f"shardId-{i:012d}") for i in range(80)]
    table.hold(*rows)
    of_many_rows(table, 0)
    table.store.get_many([row.key for row in rows[:15]])
    assert (table.calls["Scan"], table.calls["BatchGetItem"]) == (0, 1)
    table.store.get_many([row.key for row in rows[:16]])
    assert (table.calls["Scan"], table.calls["BatchGetItem"]) == (1, 1)
    table.store.get_many([row.key for row in rows[:16]])
    assert (table.calls["Scan"], table.calls["BatchGetItem"]) == (1, 2), (
        "80 rows cost at least as much as 16 keys"
    )


def test_one_row_is_never_looked_for_by_a_scan(table: Table):
    table.hold(CLAIMED)
    assert table.store.get_many([KEY]).leases == (CLAIMED,)
    assert (table.calls["Scan"], table.calls["BatchGetItem"], table.calls["DescribeTable"]) == (0, 1, 0)


def test_the_index_shows_the_next_owner_of_a_row_that_is_being_handed_over(table: Table):
    coming = Lease("b", owner="me", checkpoint_owner="other")
    table.hold(CLAIMED, coming, Lease("c", owner="next", checkpoint_owner="me"))
    table.make_index()
    assert set(table.store.held_by("me").leases) == {CLAIMED, coming}


def test_rows_that_the_index_shows_too_late_are_left_out(table: Table):
    table.hold(CLAIMED, Lease("moved", owner="other"))
    table.make_index()

    def add_outdated_rows(parsed: Any, **_: Any) -> None:
        parsed["Items"] += [{"leaseKey": {"S": key}, "leaseOwner": {"S": "me"}} for key in ("moved", "gone")]

    table.on_answer("Query", add_outdated_rows)
    assert table.store.held_by("me").leases == (CLAIMED,)


def test_known_rows_are_answered_without_a_read_and_other_rows_are_read(table: Table):
    known = {f"known-{i}": Lease(f"known-{i}", owner="me") for i in range(3)}
    table.hold(*known.values(), CLAIMED)
    table.make_index()
    everything = {*known.values(), CLAIMED}
    assert set(table.store.held_by("me", known | {KEY: CLAIMED}).leases) == everything
    assert table.calls["BatchGetItem"] == 0
    assert set(table.store.held_by("me", known).leases) == everything
    assert (table.calls["BatchGetItem"], table.calls["Scan"]) == (1, 0)


def test_while_the_index_is_behind_a_known_row_is_answered_and_each_write_on_it_is_refused(table: Table):
    """DynamoDB's index follows the table within a moment. Until then only the condition of a write tells the change."""
    known = replace(CLAIMED, run_claim=None)
    moved = replace(known, owner="other")
    table.hold(moved)
    table.make_index()

    def late(parsed: Any, **_: Any) -> None:
        parsed["Items"] = [{"leaseKey": {"S": key}, "leaseOwner": {"S": "me"}} for key in (KEY, "gone")]

    table.on_answer("Query", late)
    assert table.store.held_by("me", {KEY: known}).leases == (known,)
    assert table.store.apply(change.claim(known, "me", "run/2")) == Refused(moved)
    assert table.store.apply(change.give_up(known, "me")) == Refused(moved)


def test_a_known_row_that_the_index_doesnt_show_yet_isnt_answered(table: Table):
    table.hold(CLAIMED)
    table.make_index()

    def early(parsed: Any, **_: Any) -> None:
        parsed["Items"] = []

    table.on_answer("Query", early)
    assert table.store.held_by("me", {KEY: CLAIMED}).leases == ()


def test_a_deleted_index_is_replaced_by_a_scan(table: Table):
    table.hold(CLAIMED)
    table.make_index()
    assert table.store.held_by("me").leases == (CLAIMED,)
    table.client.update_table(
        TableName=table.name,
        GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "LeaseOwnerToLeaseKeyIndex"}}],
    )
    assert table.store.held_by("me").leases == (CLAIMED,)
    assert table.calls["Scan"] == 1


def test_unprocessed_keys_are_requested_again(table: Table):
    rows = [Lease(f"k{i}", owner="me") for i in range(4)]
    table.hold(*rows)
    table.make_index()
    of_many_rows(table)

    def answer_one_row(parsed: Any, **_: Any) -> None:
        found = parsed["Responses"][table.name]
        left = found[1:]
        parsed["Responses"][table.name] = found[:1]
        if left:
            keys = [{"leaseKey": item["leaseKey"]} for item in left]
            parsed["UnprocessedKeys"] = {table.name: {"Keys": keys, "ConsistentRead": True}}

    table.on_answer("BatchGetItem", answer_one_row)
    assert set(table.store.held_by("me").leases) == set(rows)
    assert table.calls["BatchGetItem"] == 4


def test_rows_of_several_batches_are_read_side_by_side(table: Table):
    rows = [Lease(f"k{i:03}", owner="me") for i in range(250)]
    table.store.apply_all([change.create(row, "given") for row in rows])
    of_many_rows(table)
    # Each answer waits until all three have come: requests that follow each other would never get past the first one.
    together = Barrier(3, timeout=20)
    table.on_answer("BatchGetItem", lambda **_: together.wait())
    found = table.store.get_many([row.key for row in rows]).leases
    assert (len(found), {lease.key for lease in found}) == (250, {row.key for row in rows})


def test_keys_that_always_stay_unprocessed_end_in_a_throttled_error(table: Table):
    table.hold(CLAIMED)
    table.make_index()

    def answer_no_row(parsed: Any, **_: Any) -> None:
        parsed["Responses"] = {}
        parsed["UnprocessedKeys"] = {table.name: {"Keys": [{"leaseKey": {"S": KEY}}]}}

    table.on_answer("BatchGetItem", answer_no_row)
    with pytest.raises(Throttled, match=table.name):
        table.store.held_by("me")
