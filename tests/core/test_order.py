"""Parents before children, whatever the listing shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from pipeline.core.checkpoint import TRIM_HORIZON
from pipeline.core.lease import Lease
from pipeline.core.lineage import ParentIs
from pipeline.core.order import Family, a_family, parents_first, parents_of
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
    reasons, waiting = parents_of(shard, family, at, lambda _: gone)
    return [r.why.value for r in reasons] + [f"waits: {w.why}" for w in waiting]


def test_a_parent_that_ended_in_the_table_is_out_of_the_way() -> None:
    assert why("a", a_split(), positions(p=END)) == [ParentIs.ENDED]


def test_a_parent_with_a_position_is_in_the_way_until_its_end() -> None:
    assert why("a", a_split(), positions(p=OPEN)) == ["waits: p stands at 5"]


def test_a_parent_that_is_in_scope_but_unread_is_in_the_way() -> None:
    assert why("a", a_split(), positions()) == ["waits: p hasn't been read to its end"]


def test_a_parent_that_only_has_a_row_is_in_the_way() -> None:
    assert why("a", a_split(listed=("a", "b"), rows=("p",)), positions()) == [
        "waits: p hasn't been read to its end"
    ]


def test_a_parent_that_closed_before_the_origin_is_out_of_the_way() -> None:
    family = a_family(STREAM, [Shard("a", ("p",))], listed=[Shard("p", closed=True), Shard("a", ("p",))])
    assert why("a", family, positions()) == [ParentIs.BEFORE_START]


def test_of_two_parents_of_a_merge_none_was_before_the_start_if_the_other_was_read() -> None:
    merged = Shard("m", ("p", "q"))
    every = [Shard("p", closed=True), Shard("q", closed=True), merged]
    family = a_family(STREAM, [merged], listed=every)
    assert why("m", family, positions()) == [ParentIs.BEFORE_START, ParentIs.BEFORE_START]
    late = "q may have been open at the stream's start: the listing of that time is late"
    assert why("m", family, positions(p=END)) == [ParentIs.ENDED, f"waits: {late}"]


def test_a_parent_that_kinesis_forgot_is_out_of_the_way_and_one_it_knows_is_not() -> None:
    family = a_split(listed=("a", "b"))
    assert why("a", family, positions(), gone=True) == [ParentIs.GONE]
    assert why("a", family, positions()) == ["waits: p is in no listing, yet Kinesis still knows it"]


def test_a_child_that_an_end_names_is_in_its_own_childrens_way_however_forgotten_it_is() -> None:
    at = positions(p=Position(5, ended=True, children=("a",)))
    family = a_family(STREAM, [Shard("g", ("a",))], positions=at)
    assert why("g", family, at, gone=True) == ["waits: a hasn't been read to its end"]


def test_children_are_known_from_a_row_too() -> None:
    family = a_family(STREAM, (), leases=[Lease("p", children=frozenset({"a"}))])
    assert family.passed(positions(a=OPEN)) == {"p": "a"}


def test_a_parent_without_position_whose_other_child_has_one_counts_as_ended() -> None:
    reasons, waiting = parents_of("a", a_split(), positions(b=OPEN), lambda _: False)
    assert [(r.why, r.by) for r in reasons] == [(ParentIs.PASSED, "b")]
    assert not waiting


def test_a_parents_position_counts_for_more_than_its_descendants() -> None:
    assert why("a", a_split(), positions(p=OPEN, b=OPEN)) == ["waits: p stands at 5"]


def test_a_family_that_claims_to_be_its_own_ancestor_ends_the_walk() -> None:
    loop = a_family(STREAM, [Shard("a", ("b",)), Shard("b", ("a",))])
    assert loop.passed_by("a", positions()) is None
    assert set(parents_first(["a", "b"], loop.parents)) == {"a", "b"}


@dataclass
class Tree:
    """A stream's life: splits and merges of open shards, as a script of numbers says."""

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
def test_reading_whatever_may_be_read_reaches_every_shard_once_and_parents_first(
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
def test_a_sync_that_changed_nothing_has_nothing_to_change(script: list[tuple[bool, int]]) -> None:
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
