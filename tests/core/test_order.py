"""Parents are read before their children, whatever listings show."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.checkpoint import TRIM_HORIZON
from pipeline.core.lease import Lease
from pipeline.core.lineage import ParentIs, ParentReason
from pipeline.core.order import (
    Family,
    InTheWay,
    a_family,
    children_of_ends,
    lost_above,
    parents_first,
    parents_of,
)
from pipeline.core.position import TRIM, Origin, Position, Positions
from pipeline.core.shard import Shard
from pipeline.core.stream import ShardKey, StreamId
from pipeline.core.sync import plan_sync

STREAM = StreamId("arn:aws:kinesis:us-east-1:123456789012:stream/orders", 1_700_000_000)
ORIGIN = {STREAM: Origin(TRIM, datetime(2026, 1, 1, tzinfo=UTC))}
END = Position(5, ended=True)
OPEN = Position(5)


def key(shard: str) -> ShardKey:
    return ShardKey(STREAM, shard)


def positions(**at: Position) -> Positions:
    return Positions(ORIGIN, {key(shard): position for shard, position in at.items()})


def a_split(*, listed: tuple[str, ...] = ("p", "a", "b"), rows: tuple[str, ...] = ()) -> Family:
    shards = {"p": Shard("p", closed=True), "a": Shard("a", ("p",)), "b": Shard("b", ("p",))}
    return a_family(STREAM, [shards[s] for s in listed], leases=[Lease(r) for r in rows])


def why(shard: str, family: Family, at: Positions, *, gone: bool = False) -> list[str]:
    """For each parent the reason why it is out of the way, or why the shard has to wait for it."""
    reasons, waiting = parents_of(shard, family, at, lambda _: gone)
    return [r.why.value for r in reasons] + [f"waits: {w.why}" for w in waiting]


def test_a_parent_that_ended_in_the_table_is_out_of_the_way() -> None:
    assert why("a", a_split(), positions(p=END)) == [ParentIs.ENDED]


def test_a_parent_with_a_position_is_in_the_way_until_its_end() -> None:
    assert why("a", a_split(), positions(p=OPEN)) == ["waits: p hasn't ended: its position is 5"]


def test_all_ancestors_of_a_shard_with_a_position_count_as_ended_not_only_its_parents() -> None:
    """A late listing shows a grandparent again whose END, and whose child's END, were removed."""
    chain = [Shard("g", closed=True), Shard("p", ("g",), closed=True), Shard("a", ("p",)), Shard("c", ("g",))]
    family = a_family(STREAM, chain)
    assert family.counts_as_end("g", positions(a=OPEN))
    assert why("c", family, positions(a=OPEN)) == [ParentIs.PASSED]
    made = plan_sync(family, chain, (), positions=positions(a=OPEN), multi=False, sentinel=TRIM_HORIZON)
    assert sorted(change.key for change in made) == ["a", "c"], "no row for a shard that was read long ago"


def test_an_unread_parent_in_scope_is_in_the_way() -> None:
    assert why("a", a_split(), positions()) == ["waits: p hasn't been read to its end"]


def test_a_parent_with_a_row_but_without_a_position_is_in_the_way() -> None:
    assert why("a", a_split(listed=("a", "b"), rows=("p",)), positions()) == [
        "waits: p hasn't been read to its end"
    ]


def test_a_parent_that_closed_before_the_origin_is_out_of_the_way() -> None:
    family = a_family(STREAM, [Shard("a", ("p",))], listed=[Shard("p", closed=True), Shard("a", ("p",))])
    assert why("a", family, positions()) == [ParentIs.BEFORE_START]


def test_neither_parent_of_a_merge_counts_as_before_the_start_if_the_other_was_read() -> None:
    merged = Shard("m", ("p", "q"))
    every = [Shard("p", closed=True), Shard("q", closed=True), merged]
    family = a_family(STREAM, [merged], listed=every)
    assert why("m", family, positions()) == [ParentIs.BEFORE_START, ParentIs.BEFORE_START]
    late = "q may have been open at the origin, and the listing of that time may be late"
    assert why("m", family, positions(p=END)) == [ParentIs.ENDED, f"waits: {late}"]


def test_a_parent_that_kinesis_forgot_is_out_of_the_way_and_one_it_knows_is_not() -> None:
    family = a_split(listed=("a", "b"))
    assert why("a", family, positions(), gone=True) == [ParentIs.GONE]
    assert why("a", family, positions()) == [
        "waits: no listing shows p, but Kinesis still knows it; the listings may be late"
    ]


def test_a_child_named_by_an_end_is_in_the_way_of_its_own_children_though_kinesis_forgot_it() -> None:
    at = positions(p=Position(5, ended=True, children=("a",)))
    family = a_family(STREAM, [Shard("g", ("a",))], positions=at)
    assert why("g", family, at, gone=True) == ["waits: a hasn't been read to its end"]


def test_children_are_known_from_a_row_too() -> None:
    family = a_family(STREAM, (), leases=[Lease("p", children=frozenset({"a"}))])
    assert family.passed(positions(a=OPEN)) == {"p": "a"}


def test_a_parent_without_a_position_counts_as_ended_if_its_other_child_has_one() -> None:
    reasons, waiting = parents_of("a", a_split(), positions(b=OPEN), lambda _: False)
    assert [(r.why, r.by) for r in reasons] == [(ParentIs.PASSED, "b")]
    assert not waiting


def test_a_parents_own_position_counts_for_more_than_its_descendants_positions() -> None:
    assert why("a", a_split(), positions(p=OPEN, b=OPEN)) == ["waits: p hasn't ended: its position is 5"]


def test_a_family_in_which_a_shard_is_its_own_ancestor_ends_the_search() -> None:
    loop = a_family(STREAM, [Shard("a", ("b",)), Shard("b", ("a",))])
    assert loop.passed_by("a", positions()) is None
    assert set(parents_first(["a", "b"], loop.parents)) == {"a", "b"}


@dataclass
class Tree:
    """A stream's life: a script of numbers says which open shards are split or merged."""

    shards: dict[str, Shard] = field(default_factory=lambda: {"s0": Shard("s0")})
    open: list[str] = field(default_factory=lambda: ["s0"])

    def close(self, shard: str) -> None:
        old = self.shards[shard]
        self.shards[shard] = Shard(shard, old.parents, closed=True)
        self.open.remove(shard)

    def make(self, *parents: str) -> None:
        name = f"s{len(self.shards)}"
        self.shards[name] = Shard(name, parents)
        self.open.append(name)

    def play(self, script: list[tuple[bool, int]]) -> None:
        for merge, pick in script:
            one = self.open[pick % len(self.open)]
            other = self.open[(pick + 1) % len(self.open)]
            self.close(one)
            if merge and other != one:
                self.close(other)
                self.make(one, other)
            else:
                self.make(one)
                self.make(one)


scripts = st.lists(st.tuples(st.booleans(), st.integers(0, 50)), max_size=12)


@given(scripts, st.randoms(use_true_random=False))
def test_reading_whatever_may_be_read_reads_every_shard_once_and_after_its_parents(
    script: list[tuple[bool, int]], dice: object
) -> None:
    tree = Tree()
    tree.play(script)
    at: dict[ShardKey, Position] = {}
    rows: dict[str, Lease] = {}
    read: list[str] = []
    for _ in range(2 * len(tree.shards) + 1):
        now = Positions(ORIGIN, dict(at))
        family = a_family(STREAM, tree.shards.values(), leases=rows.values())
        plan = plan_sync(
            family, tree.shards.values(), rows.values(), positions=now, multi=False, sentinel=TRIM_HORIZON
        )
        rows |= {c.key: c.create for c in plan if c.create}
        ready = [s for s in rows if s not in read and not parents_of(s, family, now, lambda _: False)[1]]
        if not ready:
            break
        chosen = dice.choice(sorted(ready))  # type: ignore[attr-defined]
        read.append(chosen)
        at[key(chosen)] = END if tree.shards[chosen].closed else OPEN
    assert sorted(read) == sorted(tree.shards)
    for shard in tree.shards.values():
        assert all(read.index(p) < read.index(shard.shard_id) for p in shard.parents)


@given(scripts)
def test_a_second_sync_has_nothing_to_change(script: list[tuple[bool, int]]) -> None:
    tree = Tree()
    tree.play(script)
    rows: dict[str, Lease] = {}
    for expected_empty in (False, True):
        family = a_family(STREAM, tree.shards.values(), leases=rows.values())
        plan = plan_sync(
            family,
            tree.shards.values(),
            rows.values(),
            positions=Positions(ORIGIN),
            multi=False,
            sentinel=TRIM_HORIZON,
        )
        assert (not plan) is expected_empty
        rows |= {c.key: c.create for c in plan if c.create}


def test_positions_of_another_stream_dont_make_a_shard_count_as_passed() -> None:
    other = ShardKey(StreamId(STREAM.arn, STREAM.epoch + 1), "a")
    assert a_split().passed(Positions(ORIGIN, {other: OPEN})) == {}
    ended = Position(5, ended=True, children=("c",))
    at = Positions(ORIGIN, {other: ended, key("p"): ended, key("q"): Position(5, children=("d",))})
    assert children_of_ends(STREAM, at) == {"c": {"p"}}


def test_a_child_named_by_several_ends_has_all_these_parents() -> None:
    ended = Position(5, ended=True, children=("c", "d"))
    assert children_of_ends(STREAM, positions(p=ended, q=ended)) == {"c": {"p", "q"}, "d": {"p", "q"}}


def test_the_reason_passed_names_the_first_descendant_with_a_position() -> None:
    chain = [Shard("g"), Shard("p", ("g",)), Shard("a", ("p",)), Shard("b", ("p",)), Shard("c", ("g", "h"))]
    family = a_family(STREAM, chain)
    assert family.passed(positions(b=OPEN, a=OPEN, c=OPEN)) == {"p": "a", "g": "a", "h": "c"}
    assert family.passed_by("g", positions(b=OPEN)) == "b"
    assert family.passed_by("b", positions(b=OPEN)) is None


def test_a_shard_counts_as_ended_by_its_own_position_before_any_descendants() -> None:
    family = a_split()
    assert family.counts_as_end("p", positions(p=END))
    assert family.counts_as_end("p", positions(a=OPEN))
    assert not family.counts_as_end("p", positions(p=OPEN, a=OPEN))
    assert not family.counts_as_end("p", positions())


def test_a_family_is_put_together_from_listings_rows_and_ends() -> None:
    family = a_family(
        STREAM,
        [Shard("a", ("p",))],
        listed=[Shard("p", ("g",)), Shard("a", ("p", "q"))],
        leases=[
            Lease("r", parents=frozenset({"p"}), children=frozenset({"s", "t"})),
            Lease("s", parents=frozenset({"x"})),
        ],
        positions=positions(p=Position(5, ended=True, children=("a", "e"))),
    )
    assert family == Family(
        STREAM,
        parents={
            "a": frozenset({"p", "q"}),
            "p": frozenset({"g"}),
            "r": frozenset({"p"}),
            "s": frozenset({"r", "x"}),
            "t": frozenset({"r"}),
            "e": frozenset({"p"}),
        },
        children={
            "p": frozenset({"a", "r", "e"}),
            "q": frozenset({"a"}),
            "g": frozenset({"p"}),
            "r": frozenset({"s", "t"}),
            "x": frozenset({"s"}),
        },
        in_scope=frozenset({"a"}),
        listed=frozenset({"a", "p"}),
        with_row=frozenset({"r", "s"}),
        expected=frozenset({"a", "e"}),
    )


def test_all_reasons_and_all_parents_in_the_way_come_in_the_order_of_the_parents() -> None:
    family = a_family(STREAM, [Shard("m", ("d", "c", "b", "a"))])
    at = positions(b=END, d=END, a=OPEN, c=OPEN)
    assert parents_of("m", family, at, lambda _: False) == (
        (ParentReason("b", ParentIs.ENDED), ParentReason("d", ParentIs.ENDED)),
        (
            InTheWay("a", "a hasn't ended: its position is 5"),
            InTheWay("c", "c hasn't ended: its position is 5"),
        ),
    )
    assert parents_of("b", family, at, lambda _: False) == ((), ())


def test_passed_shards_that_the_caller_knows_are_not_worked_out_again() -> None:
    family = a_split()
    assert parents_of("a", family, positions(), lambda _: False, passed={"p": "b"})[0] == (
        ParentReason("p", ParentIs.PASSED, "b"),
    )
    assert parents_of("a", family, positions(b=OPEN), lambda _: False, passed={})[0] == ()


def test_kinesis_is_asked_only_about_parents_of_which_rows_and_positions_say_nothing() -> None:
    asked: list[tuple[str, ShardKey]] = []

    def is_gone(shard: ShardKey) -> bool:
        asked.append(("gone", shard))
        return True

    def ended_before(shard: ShardKey) -> bool:
        asked.append(("before", shard))
        return False

    merged = Shard("m", ("p", "q"))
    family = a_family(STREAM, [merged], listed=[Shard("p", closed=True), merged])
    reasons, waiting = parents_of("m", family, positions(), is_gone, ended_before=ended_before)
    assert asked == [("before", key("p")), ("gone", key("q"))]
    assert reasons == (ParentReason("q", ParentIs.GONE),)
    late = "p may have been open at the origin, and the listing of that time may be late"
    assert waiting == (InTheWay("p", late),)
    asked.clear()
    parents_of("m", family, positions(p=END, q=OPEN), is_gone, ended_before=ended_before)
    assert asked == []


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


def test_shards_come_after_their_parents_and_otherwise_by_id() -> None:
    parents = {
        "a": frozenset({"z"}),
        "b": frozenset({"y", "x"}),
        "x": frozenset({"absent"}),
        "z": frozenset({"c"}),
    }
    assert parents_first(["z", "y", "x", "c", "b", "a"], parents) == ("c", "z", "a", "x", "y", "b")
    assert parents_first([], parents) == ()


def test_a_shard_whose_parent_descends_from_its_other_parent_comes_last() -> None:
    parents = {"m": frozenset({"p", "q"}), "p": frozenset({"q"})}
    assert parents_first(["m", "p", "q"], parents) == ("q", "p", "m")
    assert parents_first(["m", "p", "q"], {"m": frozenset({"p", "q"}), "q": frozenset({"p"})}) == (
        "p",
        "q",
        "m",
    )


def test_both_sides_of_a_merge_count_as_passed_up_to_their_first_ancestors() -> None:
    tree = [Shard("m", ("p", "q")), Shard("p", ("g",)), Shard("q", ("h",)), Shard("g", ("i", "j"))]
    family = a_family(STREAM, tree)
    assert family.passed(positions(m=OPEN)) == dict.fromkeys(("p", "q", "g", "h", "i", "j"), "m")


def test_each_reason_and_each_wait_names_its_parent() -> None:
    closed = a_family(STREAM, [Shard("a", ("p",))], listed=[Shard("p", closed=True)])
    assert parents_of("a", closed, positions(), lambda _: False)[0] == (
        ParentReason("p", ParentIs.BEFORE_START),
    )
    unlisted = a_family(STREAM, [Shard("a", ("p",))])
    assert parents_of("a", unlisted, positions(), lambda _: False)[1] == (
        InTheWay("p", "no listing shows p, but Kinesis still knows it; the listings may be late"),
    )
    assert parents_of("a", a_split(), positions(), lambda _: False)[1] == (
        InTheWay("p", "p hasn't been read to its end"),
    )
