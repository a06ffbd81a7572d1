"""Parents that were never read: whether they closed before the start, and since when records of ancestors may be lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.ledger import ParentIs, ParentReason
from headrace.pipeline.core.order.parents import (
    Family,
    a_family,
    lost_above,
    parents_of,
)
from headrace.pipeline.core.shards.position import Position, Positions, Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from tests.core.families import END, OPEN, STREAM, a_split, positions, why


def a_child_of_a_closed_parent(**more: Any) -> Family:
    """Shard `p` is listed, but isn't in the scope of the origin."""
    child = Shard("a", ("p",))
    listed = [Shard("h"), Shard("g", ("h",)), Shard("p", ("g",), closed=True), child]
    return a_family(STREAM, [child], listed=listed, **more)


def test_a_parent_counts_as_closed_before_the_start_only_if_none_of_its_ancestors_is_or_was_to_be_read() -> (
    None
):
    assert why("a", a_child_of_a_closed_parent(), positions()) == [ParentIs.BEFORE_START]
    late = "waits: p may have been open at the origin, and the listing of that time may be late"
    for ancestor in ("g", "h"):
        assert why("a", a_child_of_a_closed_parent(leases=[Lease(ancestor)]), positions()) == [late]
        placed = a_child_of_a_closed_parent()
        at = positions(**{ancestor: END})
        assert parents_of("a", placed, at, lambda _: True, passed={})[1][0].why == late.removeprefix(
            "waits: "
        )
    named = positions(x=Position(5, ended=True, children=("h",)))
    assert why("a", a_child_of_a_closed_parent(positions=named), named) == [late]


@dataclass
class Kinesis:
    """What Kinesis answers about shards, and in which order it was asked."""

    has_records: frozenset[str] = frozenset()
    """Listed shards that are open, or hold a record since the origin."""
    gone: frozenset[str] = frozenset()
    holds_everything: bool = True
    """Whether the retention still covers the origin."""
    asked: list[str] = field(default_factory=list)

    def is_gone(self, shard: ShardKey) -> bool:
        self.asked.append(f"gone {shard.shard_id}")
        return shard.shard_id in self.gone

    def ended_before(self, shard: ShardKey) -> bool:
        self.asked.append(f"before {shard.shard_id}")
        return shard.shard_id not in self.has_records

    def holds_all(self) -> bool:
        self.asked.append("holds all")
        return self.holds_everything

    def why(self, shard: str, family: Family, at: Positions) -> list[str]:
        self.asked.clear()
        reasons, waiting = parents_of(
            shard, family, at, self.is_gone, ended_before=self.ended_before, holds_all=self.holds_all
        )
        return [f"{r.shard_id} {r.why}" for r in reasons] + [f"{w.shard_id} waits" for w in waiting]


def a_merge_before_a_future_start(**more: Any) -> Family:
    """`p` and `q` merged into `m` before the origin. `q` is the child of `g`, `g` of `h`, which no listing shows."""
    merged = Shard("m", ("p", "q"))
    above = [Shard("g", ("h",), closed=True), Shard("q", ("g",), closed=True), Shard("p", closed=True)]
    return a_family(STREAM, [merged], listed=[*above, merged], **more)


def test_a_parent_is_out_of_the_way_if_kinesis_still_holds_all_records_since_the_start_and_none_is_of_the_parent() -> (
    None
):
    """One parent of a merge was read to its empty end before the start; the lease row of the other was lost."""
    kinesis = Kinesis(gone=frozenset({"h"}))
    family, at = a_merge_before_a_future_start(), positions(p=END)
    assert kinesis.why("m", family, at) == ["p ended", "q before-start"]
    assert kinesis.asked == ["before q", "before g", "gone h", "holds all"], "the retention is asked for last"
    kinesis.holds_everything = False
    assert kinesis.why("m", family, at) == ["p ended", "q waits"]


@pytest.mark.parametrize(
    ("records", "asked"),
    [("q", ["before q"]), ("g", ["before q", "before g"]), ("h", ["before q", "before g", "gone h"])],
)
def test_a_parent_is_in_the_way_if_any_unread_ancestor_has_a_record_since_the_start(
    records: str, asked: list[str]
) -> None:
    kinesis = Kinesis(has_records=frozenset({records}), gone=frozenset("h") - {records})
    family = a_merge_before_a_future_start()
    assert kinesis.why("m", family, positions(p=END)) == ["p ended", "q waits"]
    assert kinesis.asked == asked


def test_kinesis_isnt_asked_about_a_parent_that_descends_from_a_shard_that_is_to_be_read() -> None:
    kinesis = Kinesis(gone=frozenset({"h"}))
    family, at = a_merge_before_a_future_start(leases=[Lease("g")]), positions(p=END)
    assert kinesis.why("m", family, at) == ["p ended", "q waits"]
    assert kinesis.asked == []
    family, at = a_merge_before_a_future_start(), positions(p=END, g=OPEN)
    assert kinesis.why("m", family, at) == ["p ended", "q waits"]
    assert kinesis.asked == []


def test_kinesis_isnt_asked_about_ancestors_of_a_shard_that_has_ended_or_was_passed() -> None:
    kinesis = Kinesis()
    assert kinesis.why("m", a_merge_before_a_future_start(), positions(p=END, g=END)) == [
        "p ended",
        "q before-start",
    ]
    assert kinesis.asked == ["before q", "holds all"]
    family = a_merge_before_a_future_start(leases=[Lease("x", parents=frozenset({"g"}))])
    assert kinesis.why("m", family, positions(p=END, x=OPEN)) == ["p ended", "q before-start"]
    assert kinesis.asked == ["before q", "holds all"]


@pytest.mark.parametrize("ended", ["a", "b"])
def test_of_two_shards_merged_into_a_parent_kinesis_is_asked_about_the_one_that_has_not_ended(
    ended: str,
) -> None:
    merged, above = Shard("m", ("p", "q")), [Shard("q", ("a", "b")), Shard("a"), Shard("b"), Shard("p")]
    family = a_family(STREAM, [merged], listed=[*above, merged])
    (unread,) = {"a", "b"} - {ended}
    kinesis = Kinesis(has_records=frozenset({unread}))
    assert kinesis.why("m", family, positions(p=END, **{ended: END})) == ["p ended", "q waits"]
    assert kinesis.asked == ["before q", f"before {unread}"]


def test_kinesis_is_asked_once_about_a_shard_from_which_two_others_descend() -> None:
    merged, lines = Shard("m", ("p", "q")), [Shard("q", ("a", "b")), Shard("a", ("g",)), Shard("b", ("g",))]
    family = a_family(STREAM, [merged], listed=[*lines, Shard("g"), Shard("p"), merged])
    kinesis = Kinesis()
    assert kinesis.why("m", family, positions(p=END)) == ["p ended", "q before-start"]
    assert sorted(kinesis.asked) == ["before a", "before b", "before g", "before q", "holds all"]


def test_a_child_outside_of_the_origins_listing_doesnt_show_when_its_parents_closed() -> None:
    every = [Shard("p", closed=True), Shard("a", ("p",))]
    assert why("a", a_family(STREAM, [], listed=every), positions()) == [
        "waits: p may have been open at the origin, and the listing of that time may be late"
    ]


HOURS = [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in range(10)]


def seen(hour: int, *children: str, ended: bool = True) -> Position:
    """A position whose last record arrived at this hour."""
    return Position(5, ended=ended, children=children, arrival=HOURS[hour])


def lost(shard: str, family: Family, at: Positions, *reasons: ParentIs) -> list[int] | None:
    """The hours after which records of unread ancestors arrived that may be lost; None if nothing is lost."""
    found = lost_above(shard, family, at, [ParentReason(str(n), why) for n, why in enumerate(reasons)])
    return None if found is None else [moment.hour for moment in found]


def test_no_record_of_an_ancestor_is_lost_if_the_parents_were_read_or_had_nothing_to_read() -> None:
    family, at = a_split(), positions(p=seen(1))
    assert lost("a", family, at) is None
    assert lost("a", family, at, ParentIs.ENDED, ParentIs.PASSED, ParentIs.BEFORE_START) is None


def test_if_a_parent_left_unread_records_may_be_lost_since_the_witness_of_any_shard_with_unknown_descendants() -> (
    None
):
    shards = [Shard(name, closed=True) for name in ("open", "known", "listed")]
    other = ShardKey(StreamId(STREAM.arn, STREAM.epoch + 1), "vanished")
    at = positions(
        open=seen(0, ended=False),
        known=seen(0, "k1", "k2"),
        k1=seen(0, "c"),
        k2=seen(0, "c"),
        listed=seen(0, "c", "c2"),
        c2=seen(0, "x", "c"),
        untold=seen(1),
        left=seen(2, "k1", "nobody knows it"),
        alone=seen(3, "single"),
        single=seen(0, "k1", "k2"),
        vanished=seen(4, ended=False),
        silent=Position(5, ended=True),
    )
    family = a_family(
        STREAM,
        [*shards, Shard("x", ("gone",)), Shard("c", ("listed", "k1", "k2"))],
        leases=[Lease("single", parents=frozenset({"alone"}))],
        positions=at,
    )
    at = Positions(at.origins, {**at.shards, other: seen(5, ended=False)})
    assert lost("x", family, at, ParentIs.ENDED, ParentIs.GONE) == [1, 2, 3, 4]
    assert lost("x", family, at, ParentIs.ENDED) is None


@pytest.mark.parametrize(
    ("shard", "listed", "parents", "children", "lacks"),
    [
        ("m", ("z",), ("p",), ("m",), True),
        ("m", ("m",), ("p",), ("m",), False),
        ("m", ("z",), ("p", "q"), ("m",), False),
        ("m", ("z",), ("p",), ("m", "n"), False),
        ("m", ("z",), ("p",), (), False),
    ],
    ids=["a merge of which one parent is known", "listed", "both are known", "a split", "untold"],
)
def test_a_shard_that_a_parents_end_names_alone_comes_from_a_merge(
    shard: str, listed: tuple[str, ...], parents: tuple[str, ...], children: tuple[str, ...], *, lacks: bool
) -> None:
    rows = [Lease(shard, parents=frozenset(parents))]
    every = [Shard(name, parents if name == shard else ()) for name in listed]
    family = a_family(STREAM, every, leases=rows)
    at = positions(p=seen(3, *children))
    assert family.lacks_a_parent(shard, at) is lacks
    assert lost(shard, family, at) == ([3] if lacks else None)
    assert not family.lacks_a_parent(shard, positions()), "that parent has no position"
    assert not family.lacks_a_parent("a root", at)


def test_an_adopted_shard_of_which_nothing_tells_the_parents_may_have_lost_since_the_witness_of_any_shard() -> (
    None
):
    """Kinesis has forgotten the shard, and its row was lost with all rows, and made again from the position."""
    adopted, read = Position(start=Start()), seen(2, ended=False)
    family = a_family(
        STREAM, [Shard("listed")], leases=[Lease("adopted")], positions=positions(adopted=adopted, other=read)
    )
    assert lost("adopted", family, positions(adopted=adopted, other=read)) == [2]
    assert lost("adopted", family, positions(adopted=Position(seen=HOURS[3]), other=read)) is None, (
        "looked at since"
    )
    assert lost("listed", family, positions(listed=adopted, other=read)) is None, "its parents are told"


@pytest.mark.parametrize(
    "read", ["p", "g", "h"], ids=["the other parent", "above both", "above the other parent"]
)
def test_a_parent_that_kinesis_denies_is_in_the_way_while_it_can_not_have_left_the_stream(read: str) -> None:
    """`q` is in no listing, which may be late, and Kinesis denies it for a while. It was closed after the last record of any
    shard above its child arrived, and stays in the stream for the retention from then on."""
    listed = [Shard("m", ("p", "q")), Shard("p", ("g", "h")), Shard("g"), Shard("h")]
    family = a_family(STREAM, listed[:1], listed=listed)
    arrival = datetime(2026, 1, 1, 12, tzinfo=UTC)
    at = positions(**{"p": Position(5, ended=True)} | {read: Position(5, ended=True, arrival=arrival)})

    def judged(until: datetime) -> tuple[list[str], list[str]]:
        reasons, waiting = parents_of("m", family, at, lambda _: True, keeps=lambda moment: moment > until)
        return [f"{r.shard_id} {r.why}" for r in reasons], [w.why for w in waiting]

    late = (
        "no listing shows q, and Kinesis denies it, but it was closed after 2026-01-01 12:00:00 UTC, within the retention: "
        "it can't have left the stream yet"
    )
    assert judged(arrival - timedelta(seconds=1)) == (
        ["p ended"],
        [late],
    )
    assert judged(arrival) == (["p ended", "q gone"], [])


def test_after_a_time_with_a_shorter_retention_a_parent_that_kinesis_denies_is_gone() -> None:
    """`p` and `q` left the stream when its retention was shortened. Today's retention, which is long again, would have kept
    them, and `m` would wait for `q` up to a year."""
    child, parent = Shard("m", ("p", "q")), Shard("p")
    family = a_family(STREAM, [child], listed=[child], leases=[_row(parent)])
    read = positions(p=Position(5, ended=True, arrival=datetime(2026, 1, 1, 12, tzinfo=UTC)))
    reasons, waiting = parents_of("m", family, read, lambda _: True, keeps=lambda _: True)
    assert ([f"{r.shard_id} {r.why}" for r in reasons], waiting) == (["p ended", "q gone"], ())


def _row(shard: Shard) -> Lease:
    return Lease(shard.shard_id, parents=frozenset(shard.parents))


def test_without_the_arrival_of_a_record_above_a_parent_that_kinesis_denies_is_gone() -> None:
    family = a_family(STREAM, [Shard("m", ("p", "q"))])
    reasons, waiting = parents_of("m", family, positions(p=END), lambda _: True, keeps=lambda _: True)
    assert ([r.why for r in reasons], waiting) == ([ParentIs.ENDED, ParentIs.GONE], ())
