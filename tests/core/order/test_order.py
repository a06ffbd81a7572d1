"""Parents are read before their children, whatever listings show."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.ledger import ParentIs, ParentReason
from headrace.pipeline.core.order.parents import (
    Family,
    InTheWay,
    a_family,
    children_of_ends,
    counts_as_end,
    parents_first,
    parents_of,
    strangers,
)
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.sharing.sync_plan import plan_shard_sync
from tests.core.families import END, OPEN, ORIGIN, STREAM, a_split, key, positions, why


def is_end(family: Family, shard_id: str, at: Positions) -> bool:
    return counts_as_end(ShardKey(family.stream, shard_id), at, family.passed(at))


def test_a_parent_that_ended_in_the_table_is_out_of_the_way() -> None:
    assert why("a", a_split(), positions(p=END)) == [ParentIs.ENDED]


def test_a_parent_with_a_position_is_in_the_way_until_its_end() -> None:
    assert why("a", a_split(), positions(p=OPEN)) == ["waits: p hasn't ended: its position is 5"]


def test_all_ancestors_of_a_shard_with_a_position_count_as_ended_not_only_its_parents() -> None:
    """A late listing shows a grandparent again whose END, and whose child's END, were removed."""
    chain = [Shard("g", closed=True), Shard("p", ("g",), closed=True), Shard("a", ("p",)), Shard("c", ("g",))]
    family = a_family(STREAM, chain)
    assert is_end(family, "g", positions(a=OPEN))
    assert why("c", family, positions(a=OPEN)) == [ParentIs.PASSED]
    made = plan_shard_sync(family, chain, (), positions=positions(a=OPEN), multi=False, sentinel=TRIM_HORIZON)
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
        "waits: no listing shows p, but it hasn't left the stream; the listings may be late"
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
        plan = plan_shard_sync(
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
        plan = plan_shard_sync(
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
    assert is_end(family, "p", positions(p=END))
    assert is_end(family, "p", positions(a=OPEN))
    assert not is_end(family, "p", positions(p=OPEN, a=OPEN))
    assert not is_end(family, "p", positions())


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
        placed=frozenset({"p"}),
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
        InTheWay("p", "no listing shows p, but it hasn't left the stream; the listings may be late"),
    )
    assert parents_of("a", a_split(), positions(), lambda _: False)[1] == (
        InTheWay("p", "p hasn't been read to its end"),
    )


def test_below_a_shard_are_all_its_known_descendants() -> None:
    shards = [Shard("p"), Shard("a", ("p",)), Shard("b", ("p",)), Shard("c", ("a", "b")), Shard("other")]
    family = a_family(STREAM, shards)
    assert family.below("p") == {"a", "b", "c"}
    assert family.below("b") == {"c"}
    assert family.below("c") == family.below("other") == frozenset()


def test_a_child_may_be_unknown_until_both_children_of_a_split_or_both_parents_of_a_merge_are_known() -> None:
    def lacks(*children: Shard) -> bool:
        return a_family(STREAM, [Shard("p", closed=True), *children]).lacks_a_child("p")

    assert lacks()
    assert lacks(Shard("a", ("p",)))
    assert not lacks(Shard("a", ("p",)), Shard("b", ("p",)))
    assert not lacks(Shard("a", ("p", "q")))


def test_a_shard_is_a_stranger_unless_ends_tell_of_all_its_parents_and_these_are_no_strangers() -> None:
    split, merged = Position(9, ended=True, children=("a", "b")), Position(9, ended=True, children=("m",))

    def new(**at: Position) -> set[str]:
        return set(strangers(STREAM, frozenset({"p", "q"}), positions(**at)))

    assert new(p=OPEN, q=END) == set()
    assert new(p=OPEN, a=OPEN) == {"a"}
    assert new(p=split, a=OPEN, b=OPEN) == set()
    assert new(p=merged, m=OPEN) == {"m"}, "its other parent isn't known"
    assert new(p=merged, q=merged, m=OPEN) == set()
    assert new(p=merged, x=merged, m=OPEN) == {"m", "x"}
    assert new(p=split, a=merged, b=merged, m=OPEN) == set()
    assert new(x=split, a=merged, b=merged, m=OPEN) == {"a", "b", "m", "x"}
    assert new(a=split, b=OPEN) == {"a", "b"}, "parents that contradict each other"


def test_a_family_knows_the_shards_that_a_listing_a_row_an_end_or_a_position_names() -> None:
    end = Position(9, ended=True, children=("child",))
    rows = [Lease("row", checkpoint=TRIM_HORIZON, parents=frozenset({"above"}))]
    at = positions(p=end, alone=OPEN)
    family = a_family(STREAM, [Shard("listed", ("parent",))], leases=rows, positions=at)
    assert family.known == {"listed", "parent", "row", "above", "p", "child", "alone"}
    assert family.placed == {"p", "alone"}


def test_a_family_doesnt_know_a_shard_of_another_stream_with_the_same_id() -> None:
    """Else a shard of this stream that came meanwhile would count as one that the run knew."""
    other = ShardKey(StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/others", STREAM.epoch), "b")
    assert a_family(STREAM, [Shard("a")], positions=Positions(ORIGIN, {other: OPEN})).known == {"a"}
