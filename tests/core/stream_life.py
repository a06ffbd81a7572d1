"""The life of a stream with one reader, in virtual time, for `test_sync_trees`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random

from headrace.pipeline.core.landing.landing import Proposal, decide_landing
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.ledger import Kind, ParentReason, Range
from headrace.pipeline.core.order.parents import Family, InTheWay, a_family, parents_of
from headrace.pipeline.core.order.start_of_reading import Above, Finish, Passed, Read, plan_begin
from headrace.pipeline.core.shards.checkpoint import SHARD_END, TRIM_HORIZON
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions, Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.sharing.cleanup_plan import (
    plan_delete_ended,
    plan_delete_garbage,
    plan_drop,
    worth_asking,
)
from headrace.pipeline.core.sharing.sync_plan import a_lease, plan_shard_sync, sync_token
from tests.kcl.trees import a_tree

STREAM = StreamId("arn:aws:kinesis:us-east-1:123456789012:stream/orders", 1_700_000_000)
VIRTUAL_ZERO = datetime(2026, 1, 1, tzinfo=UTC)
FOR_EVER = 10**9


def moment(at: int) -> datetime:
    return VIRTUAL_ZERO + timedelta(seconds=at)


@dataclass
class Stream:
    """A tree of shards, each with the times at which it opens and closes. A shard is forgotten `keeps` after it
    closes."""

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
        self._open = {name: replace(shard, closed=False) for name, shard in self.shards.items()}
        self._shut = {name: replace(shard, closed=True) for name, shard in self.shards.items()}

    def listed(self, now: int, since: int | None = None) -> list[Shard]:
        return [
            (self._shut if self.closed.get(name, now + 1) <= now else self._open)[name]
            for name in self.shards
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
    """One reader of a stream that uses the pure plans. The table judges each of the reader's ranges."""

    stream: Stream
    origin: int | None
    now: int
    positions: Positions = field(default_factory=Positions)
    rows: dict[str, Lease] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    quiet: str | None = None
    rests: int = 0
    """How many syncs a leader would have left out."""

    def __post_init__(self) -> None:
        start = TRIM if self.origin is None else Start(moment(self.origin))
        if not self.positions.origins:
            self.positions = Positions({STREAM: Origin(start, moment(self.now))})

    @property
    def dice(self) -> Random:
        return self.stream.dice

    def listing(self, *, late: bool) -> tuple[list[Shard], list[Shard]]:
        """The listing of the shards in scope and that of all shards, in random order. A late listing leaves some
        shards out."""
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
        plan = plan_shard_sync(
            family, scope, rows, positions=self.positions, multi=False, sentinel=TRIM_HORIZON
        )
        token = sync_token(STREAM, rows, self.positions)
        # Once Kinesis forgets a parent, a shard that waited for it may get a row, though rows and ENDs are unchanged.
        forgets = self.stream.keeps < FOR_EVER
        if token is not None and token == self.quiet and not late and not forgets:
            self.rests += 1
            assert not plan, "the sync changed something, though the token said that it can't"
        self.quiet = None if plan or late else token
        self.rows |= {c.key: c.create for c in plan if c.create}
        return len(plan)

    def family(self, *, late: bool) -> Family:
        scope, every = self.listing(late=late)
        return a_family(STREAM, scope, listed=every, leases=self.rows.values(), positions=self.positions)

    def read(self, name: str, *, late: bool = False) -> bool:
        """Read a shard as a wave does. Returns whether its position moved."""
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
            above=Above(reasons, waiting, passed.get(name)),
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
            return False  # the shard's records are lost, and a person has to decide about that
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
        if ends and self.dice.random() < 0.8:  # in the other cases the run dies before it writes the rows
            self._finish(name)
        return True

    def _finish(self, name: str) -> None:
        """Write the rows of the children and SHARD_END, of which some writes are left out."""
        for child in self.stream.children(name):
            if self.dice.random() < 0.7:  # in the other cases the next sync makes the row
                shard = self.stream.shards[child]
                row = a_lease(STREAM, shard, multi=False, positions=Positions(), sentinel=TRIM_HORIZON)
                self.rows.setdefault(child, row)
        self.rows[name] = replace(self.rows[name], checkpoint=SHARD_END)

    def clean(self) -> None:
        """Delete rows and ENDs as the leader's clean-up does."""
        _, every = self.listing(late=False)
        family = a_family(STREAM, every, leases=self.rows.values(), positions=self.positions)
        rows = list(self.rows.values())
        asked = worth_asking(
            family, rows, self.positions, listed=every, kept_since=moment(self.now - self.stream.keeps)
        )
        gone = {key.shard_id for key in asked if self._is_gone(key)}
        for each in (
            *plan_delete_ended(family, rows, self.positions),
            *plan_delete_garbage(family, rows, self.positions, gone=gone),
        ):
            del self.rows[each.key]
        drop = plan_drop(family, rows, self.positions, gone=gone, listed=every)
        proposal = Proposal(drop=drop.ends, begun=drop.begun)
        self.positions = decide_landing(self.positions, proposal).positions

    def live(self, until: int, *, trouble: bool) -> None:
        """Take steps in random order, until the last reshard of the stream is over."""
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
        """Without further faults, sync and read until no position moves."""
        for _ in range(4 * len(self.stream.shards) + 8):
            made = self.sync()
            moved = [name for name in sorted(self.rows) if not self.rows[name].has_ended and self.read(name)]
            if not made and not moved:
                return
        raise AssertionError("positions still move after all rounds")

    def _is_gone(self, key: ShardKey) -> bool:
        return self.stream.is_gone(key.shard_id, self.now)
