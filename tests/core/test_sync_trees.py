"""Thousands of random lives of a stream: whatever a listing leaves out, whatever row is lost, whoever was there before,
every shard is read once, after its parents, and nothing is left unread."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from pipeline.core.begin import Finish, Passed, Read, plan_begin
from pipeline.core.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from pipeline.core.cleanup import plan_delete_ended, plan_delete_garbage, plan_drop, worth_asking
from pipeline.core.landing import Proposal, decide_landing
from pipeline.core.lease import Lease
from pipeline.core.lineage import Kind, ParentReason, Range
from pipeline.core.order import Family, InTheWay, a_family, parents_first, parents_of
from pipeline.core.position import TRIM, Origin, Position, Positions, Start
from pipeline.core.shard import MAX_HASH_KEY, HashRange, Shard
from pipeline.core.stream import ShardKey, StreamId
from pipeline.core.sync import a_lease, plan_sync, sync_token
from tests.kcl.trees import a_tree

STREAM = StreamId("arn:aws:kinesis:us-east-1:123456789012:stream/orders", 1_700_000_000)
ZERO = datetime(2026, 1, 1, tzinfo=UTC)
FOR_EVER = 10**9
SEEDS = 300
"""Of each of the ten mixes."""
STARTS = (TRIM_HORIZON, LATEST, AT_TIMESTAMP)


def moment(at: int) -> datetime:
    return ZERO + timedelta(seconds=at)


@dataclass
class Stream:
    """A tree with a time for each birth and each end; a shard is forgotten `keeps` after its end."""

    dice: Random
    reshards: int
    keeps: int = FOR_EVER

    def __post_init__(self) -> None:
        tree = a_tree(self.dice, self.reshards)
        self.shards = {each.shard.shard_id: each.shard for each in tree}
        self.born = {each.shard.shard_id: each.starts for each in tree}
        self.closed = {
            parent: min(self.born[c] for c, s in self.shards.items() if parent in s.parents)
            for parent in {p for s in self.shards.values() for p in s.parents}
        }
        self.over = max(self.born.values()) + 1

    def listed(self, now: int, since: int | None = None) -> list[Shard]:
        return [
            replace(shard, closed=self.closed.get(name, now + 1) <= now)
            for name, shard in self.shards.items()
            if self.born[name] <= now
            and not self.is_gone(name, now)
            and (since is None or self.closed.get(name, now + 1) >= since)
        ]

    def is_gone(self, name: str, now: int) -> bool:
        return self.closed.get(name, now + 1) + self.keeps <= now

    def children(self, name: str) -> tuple[str, ...]:
        return tuple(c for c, s in self.shards.items() if name in s.parents)


@dataclass
class World:
    """One reader of a stream, by the pure plans; the table judges each of its ranges."""

    stream: Stream
    origin: int | None
    now: int
    positions: Positions = field(default_factory=Positions)
    rows: dict[str, Lease] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    quiet: str | None = None
    rests: int = 0
    """Syncs that a leader would have left out."""

    def __post_init__(self) -> None:
        start = TRIM if self.origin is None else Start(moment(self.origin))
        if not self.positions.origins:
            self.positions = Positions({STREAM: Origin(start, moment(self.now))})

    @property
    def dice(self) -> Random:
        return self.stream.dice

    def listing(self, *, late: bool) -> tuple[list[Shard], list[Shard]]:
        """In scope and in all, shuffled; a late one leaves some out."""
        every = self.stream.listed(self.now)
        hidden = {s.shard_id for s in every if late and self.dice.random() < 0.3}
        scope = {s.shard_id for s in self.stream.listed(self.now, self.origin)}
        shown = [s for s in every if s.shard_id not in hidden]
        self.dice.shuffle(shown)
        return [s for s in shown if s.shard_id in scope], shown

    def sync(self, *, late: bool = False) -> int:
        scope, _ = self.listing(late=late)
        family = a_family(STREAM, scope, leases=self.rows.values())
        rows = list(self.rows.values())
        plan = plan_sync(family, scope, rows, positions=self.positions, multi=False, sentinel=TRIM_HORIZON)
        token = sync_token(STREAM, rows, self.positions)
        forgets = self.stream.keeps < FOR_EVER  # then a shard may lose a parent that it waited for
        if token is not None and token == self.quiet and not late and not forgets:
            self.rests += 1
            assert not plan, "a sync that can change nothing is told by its token"
        self.quiet = None if plan or late else token
        self.rows |= {c.key: c.create for c in plan if c.create}
        return len(plan)

    def family(self, *, late: bool) -> Family:
        scope, every = self.listing(late=late)
        return a_family(STREAM, scope, listed=every, leases=self.rows.values(), positions=self.positions)

    def read(self, name: str, *, late: bool = False) -> bool:
        """As a wave does. Whether the shard went forward."""
        key, family, row = ShardKey(STREAM, name), self.family(late=late), self.rows[name]
        passed = family.passed(self.positions)
        reasons, waiting = parents_of(name, family, self.positions, self._is_gone, passed=passed)
        if self.positions.of(key) is None and name not in family.listed and not self._is_gone(key):
            waiting += (InTheWay(name, "not listed yet"),)
        plan = plan_begin(
            row,
            key,
            self.positions,
            retention=timedelta(seconds=self.stream.keeps),
            parents=reasons,
            waiting=waiting,
            passed_by=passed.get(name),
        )
        match plan:
            case Finish() | Passed():
                self._finish(name)
                return True
            case Read(batch):
                return self._land(name, batch.after, batch.parents)
            case _:
                return False

    def _land(self, name: str, after: Position | None, parents: tuple[ParentReason, ...]) -> bool:
        if self.stream.is_gone(name, self.now):
            return False  # data loss: a person's matter
        ends = self.stream.closed.get(name, self.now + 1) <= self.now
        upto = Position(self.now, ended=ends, children=self.stream.children(name) if ends else ())
        if after is None:
            assert name not in self.begun, f"{name} is read twice"
            self.begun.append(name)
        elif upto.token == after.token:
            return False
        each = Range(Kind.LANDED, ShardKey(STREAM, name), after, upto, run="r", claim="r/1", parents=parents)
        landing = decide_landing(self.positions, Proposal((each,)))
        assert not landing.refused
        self.positions = landing.positions
        if ends and self.dice.random() < 0.8:  # else the run died first
            self._finish(name)
        return True

    def _finish(self, name: str) -> None:
        for child in self.stream.children(name):
            if self.dice.random() < 0.7:  # else its row is left to the sync
                shard = self.stream.shards[child]
                row = a_lease(STREAM, shard, multi=False, positions=Positions(), sentinel=TRIM_HORIZON)
                self.rows.setdefault(child, row)
        self.rows[name] = replace(self.rows[name], checkpoint=SHARD_END)

    def clean(self) -> None:
        _, every = self.listing(late=False)
        family = a_family(STREAM, every, leases=self.rows.values(), positions=self.positions)
        rows = list(self.rows.values())
        asked = worth_asking(family, rows, self.positions)
        gone = {key.shard_id for key in asked if self._is_gone(key)}
        for each in (
            *plan_delete_ended(family, rows, self.positions),
            *plan_delete_garbage(family, rows, self.positions, gone=gone),
        ):
            del self.rows[each.key]
        dropped = plan_drop(family, rows, self.positions, gone=gone)
        self.positions = decide_landing(self.positions, Proposal(drop=dropped)).positions

    def live(self, until: int, *, trouble: bool) -> None:
        """Steps in any order, until the stream's last reshard is over."""
        while self.now < until:
            act = self.dice.random()
            late = trouble and self.dice.random() < 0.5
            if act < 0.25:
                self.sync(late=late)
            elif act < 0.7 and self.rows:
                self.read(self.dice.choice(sorted(self.rows)), late=late)
            elif act < 0.75 and trouble and self.rows:
                del self.rows[self.dice.choice(sorted(self.rows))]
            elif act < 0.8:
                self.clean()
            else:
                self.now += self.dice.randrange(1, 150)

    def settle(self) -> None:
        """No more trouble: syncs and reads until nothing goes forward."""
        for _ in range(4 * len(self.stream.shards) + 8):
            made = self.sync()
            moved = [name for name in sorted(self.rows) if not self.rows[name].has_ended and self.read(name)]
            if not made and not moved:
                return
        raise AssertionError("it never comes to rest")

    def _is_gone(self, key: ShardKey) -> bool:
        return self.stream.is_gone(key.shard_id, self.now)


def in_scope(world: World, since: int) -> set[str]:
    stream = world.stream
    origin = world.origin
    return {
        name
        for name in stream.shards
        if not stream.is_gone(name, since) and (origin is None or stream.closed.get(name, 10**9) >= origin)
    }


def check_order(world: World, wanted: set[str]) -> None:
    for name in world.begun:
        for parent in set(world.stream.shards[name].parents) & wanted:
            assert world.begun.index(parent) < world.begun.index(name)


@pytest.mark.parametrize("initial", STARTS, ids=str)
@pytest.mark.parametrize("trouble", [False, True], ids=["calm", "trouble"])
def test_every_shard_in_scope_is_read_once_and_after_its_parents(
    initial: Checkpoint, *, trouble: bool
) -> None:
    rests = 0
    for seed in range(SEEDS):
        dice = Random(f"{seed}-{initial}-{trouble}")
        stream = Stream(dice, reshards=dice.randrange(9))
        began = dice.randrange(stream.over)
        origin = {TRIM_HORIZON: None, LATEST: began, AT_TIMESTAMP: dice.randrange(began + 1)}[initial]
        world = World(stream, origin, began)
        wanted = in_scope(world, began)
        world.live(stream.over, trouble=trouble)
        world.settle()
        assert sorted(world.begun) == sorted(wanted), f"seed {seed}"
        check_order(world, wanted)
        open_rows = [row for row in world.rows.values() if not row.has_ended]
        assert {row.shard_id for row in open_rows} == {s for s in wanted if s not in stream.closed}
        rests += world.rests
    assert rests > SEEDS / 4


@pytest.mark.parametrize("trouble", [False, True], ids=["calm", "trouble"])
def test_rows_and_ends_that_were_let_go_of_are_never_read_again(*, trouble: bool) -> None:
    """The stream forgets soon, so that clean-ups have work while reshards go on; what vanishes unread is a stop."""
    let_go = 0
    for seed in range(SEEDS):
        dice = Random(f"{seed}-{trouble}")
        stream = Stream(dice, reshards=3 + dice.randrange(9), keeps=dice.randrange(200, 800))
        world = World(stream, None, 0)
        world.live(stream.over, trouble=trouble)
        world.settle()
        world.now += stream.keeps
        for _ in range(3):
            world.clean()
            world.settle()
        check_order(world, {s for s in stream.shards if s in world.begun})
        read_on = {s for s in world.begun if s not in stream.closed}
        ended = {k.shard_id for k, at in world.positions.shards.items() if at.ended}
        let_go += len([s for s in world.begun if s not in ended and s in stream.closed])
        for name in read_on:
            assert not world.positions.has_ended(ShardKey(STREAM, name))
        for name in set(stream.shards) - set(world.begun):
            assert is_told(world, name), f"seed {seed}: {name} was passed over in silence"
    assert let_go > SEEDS / 6, "clean-ups had work to do"


def ancestors(stream: Stream, name: str) -> set[str]:
    found: set[str] = set()
    todo = [name]
    while todo:
        above = set(stream.shards[todo.pop()].parents) - found
        found |= above
        todo += above
    return found


def is_told(world: World, name: str) -> bool:
    """Unread ground is never just gone: an open row of it, or of a relation that waits, stops with a sentence. Where
    that was lost too, a descendant is read whose witness is from before."""
    stream = world.stream
    after = {other for other in stream.shards if name in ancestors(stream, other)}
    open_rows = {row.shard_id for row in world.rows.values() if not row.has_ended}
    return bool(({name} | ancestors(stream, name) | after) & open_rows) or bool(after & set(world.begun))


# --- after adoption -----------------------------------------------------------------------------------------


def a_kcl_state(stream: Stream, now: int) -> tuple[dict[str, Lease], dict[str, str]]:
    """Rows as KCL's workers leave them at some moment, and what they think of each shard: unread, reading, ended."""
    dice = stream.dice
    rows: dict[str, Lease] = {}
    state: dict[str, str] = {}
    parents = {s.shard_id: frozenset(s.parents) for s in stream.shards.values()}
    for name in parents_first(stream.shards, parents):
        its = stream.shards[name].parents
        if stream.born[name] > now:
            continue
        ready = all(state.get(p) == "ended" for p in its)
        some = not its or any(state.get(p) in {"ended", "ending"} for p in its)
        if not some:
            continue
        # A merged shard's row is made at its parents' end, and only where both of them have rows.
        others = {p for child in stream.children(name) for p in stream.shards[child].parents} - {name}
        may_end = stream.closed.get(name, now + 1) <= now and others <= rows.keys()
        choices = ["unread", "reading", *(["ending", "ended", "ended"] if may_end else [])]
        state[name] = dice.choice(choices) if ready else "unread"
        at = {
            "unread": TRIM_HORIZON,
            "reading": Checkpoint("1"),
            "ending": Checkpoint("1"),
            "ended": SHARD_END,
        }
        ending = state[name] in {"ending", "ended"}
        rows[name] = Lease(
            name,
            checkpoint=at[state[name]],
            parents=frozenset(its),
            children=frozenset(stream.children(name)) if ending else frozenset(),
            stream_epoch=STREAM.epoch,
        )
    return rows, state


def kcl_cleans(stream: Stream, rows: dict[str, Lease], state: dict[str, str]) -> None:
    for name in sorted(rows):
        begun = all(c in rows and rows[c].checkpoint != TRIM_HORIZON for c in stream.children(name))
        orphan = all(p not in rows for p in stream.shards[name].parents)
        if state[name] == "ended" and begun and orphan and stream.dice.random() < 0.7:
            del rows[name]


def adopted(stream: Stream, rows: dict[str, Lease]) -> dict[ShardKey, Position]:
    """The rows' own positions; a shard without a row has ended if a descendant has one."""
    at: dict[ShardKey, Position] = {}
    for name, row in rows.items():
        if row.checkpoint.is_end:
            at[ShardKey(STREAM, name)] = Position(ended=True, children=tuple(sorted(row.children)))
        elif row.checkpoint.is_digits:
            at[ShardKey(STREAM, name)] = Position(int(row.checkpoint.sequence))
        else:
            at[ShardKey(STREAM, name)] = Position(start=TRIM)
    return at


@pytest.mark.parametrize("trouble", [False, True], ids=["calm", "trouble"])
def test_after_adoption_what_kcl_ended_stays_read_and_all_else_is_read_once(*, trouble: bool) -> None:
    for seed in range(SEEDS):
        dice = Random(f"adopted-{seed}-{trouble}")
        stream = Stream(dice, reshards=1 + dice.randrange(9))
        now = dice.randrange(1, stream.over)
        rows, state = a_kcl_state(stream, now)
        kcl_cleans(stream, rows, state)
        if not rows:
            continue
        positions = Positions({STREAM: Origin(TRIM, moment(now))}, adopted(stream, rows))
        world = World(stream, None, now, positions, dict(rows))
        world.live(stream.over, trouble=trouble)
        world.settle()
        known = {name for name in state if name in rows}
        expected = set(stream.shards) - set(state)
        assert sorted(world.begun) == sorted(expected), f"seed {seed}: {known}"
        for name, was in state.items():
            if was != "ended" and name in stream.closed:
                assert world.positions.has_ended(ShardKey(STREAM, name)), f"seed {seed}: {name} was {was}"


# --- single promises ----------------------------------------------------------------------------------------


def test_a_chain_of_ten_thousand_reshards_is_no_recursion_and_no_square() -> None:
    names = [f"shardId-{n:012d}" for n in range(10_000)]
    shards = [
        Shard(name, (names[n - 1],) if n else (), closed=n < len(names) - 1) for n, name in enumerate(names)
    ]
    at = Positions({STREAM: Origin(TRIM, ZERO)}, {ShardKey(STREAM, names[5_000]): Position(1)})
    family = a_family(STREAM, shards, positions=at)
    plan = plan_sync(family, shards, (), positions=at, multi=False, sentinel=TRIM_HORIZON)
    assert [change.key for change in plan] == [names[5_000]]
    assert len(family.passed(at)) == 5_000
    assert parents_first(reversed(names), family.parents) == tuple(names)


def test_a_stream_made_anew_has_its_rows_exchanged_in_one_sync() -> None:
    old = Lease("shardId-000000000000", checkpoint=Checkpoint("7"), stream_epoch=STREAM.epoch - 5)
    shards = [Shard("shardId-000000000000")]
    plan = plan_sync(
        a_family(STREAM, shards),
        shards,
        [old],
        positions=Positions({STREAM: Origin(TRIM, ZERO)}),
        multi=False,
        sentinel=TRIM_HORIZON,
    )
    assert [(c.key, c.delete, c.create is not None) for c in plan] == [
        (old.key, True, False),
        (old.key, False, True),
    ]


def test_rows_of_other_streams_in_the_table_are_neither_retired_nor_taken_for_ones_own() -> None:
    theirs = Lease("123456789012:other:5:s0", stream="123456789012:other:5", shard="s0", stream_epoch=5)
    older = Lease("123456789012:orders:5:s0", stream="123456789012:orders:5", shard="s0", stream_epoch=5)
    shards = [Shard("s0")]
    plan = plan_sync(
        a_family(STREAM, shards),
        shards,
        [theirs, older],
        positions=Positions({STREAM: Origin(TRIM, ZERO)}),
        multi=True,
        sentinel=TRIM_HORIZON,
    )
    assert [(c.key, c.delete) for c in plan] == [
        (older.key, True),
        (f"{STREAM.serialized}:s0", False),
    ]


LOW, HIGH = HashRange(0, 9), HashRange(10, MAX_HASH_KEY)
BOTH = (Lease("l", hash_range=LOW), Lease("h", hash_range=HIGH))


def token(*rows: Lease, **at: Position) -> str | None:
    shards = {ShardKey(STREAM, name): position for name, position in at.items()}
    return sync_token(STREAM, rows, Positions({STREAM: Origin(TRIM, ZERO)}, shards))


def test_a_sync_rests_only_while_open_rows_cover_all_hash_keys() -> None:
    assert token(*BOTH) is not None
    assert token(BOTH[0]) is None
    assert token(BOTH[1]) is None
    assert token(replace(BOTH[0], hash_range=HashRange(0, 8)), BOTH[1]) is None
    assert token(*BOTH, Lease("x")) is None, "nobody knows what the third one covers"
    assert token(replace(BOTH[0], checkpoint=SHARD_END), BOTH[1]) is None
    assert token() is None


def test_a_sync_rests_only_while_rows_and_ends_are_the_same() -> None:
    quiet = token(*BOTH, l=Position(5))
    assert token(*BOTH, l=Position(6)) == quiet, "reading on makes no shard new"
    assert token(*(replace(row, counter=9, owner="w2") for row in BOTH), l=Position(5)) == quiet
    others = [
        token(*BOTH, l=Position(5, ended=True)),
        token(*BOTH, l=Position(5, ended=True, children=("c",))),
        token(*BOTH),
        token(*BOTH, Lease("c", hash_range=LOW), l=Position(5)),
        token(*(replace(row, stream_epoch=1) for row in BOTH), l=Position(5)),
    ]
    assert len({quiet, *others}) == 6
