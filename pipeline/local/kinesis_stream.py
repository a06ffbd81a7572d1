"""One stream: its states, its shards, and which open shard takes a key.

CREATING --> ACTIVE <--> UPDATING          each arrow from a state other than ACTIVE is taken by the clock:
|                           `settle` runs first in every operation and does what is due.
+--> DELETING --> gone      A reshard takes effect when UPDATING ends; until then puts go to the parents.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from pipeline.local.errors import AwsError, in_use, not_found
from pipeline.local.kinesis_shard import MAX_HASH, Shard

ACCOUNT = "123456789012"
_SHARD_PREFIX = "shardId-"
_HOUR = 3600


class State(StrEnum):
    """A stream's status on the wire."""

    CREATING = "CREATING"
    ACTIVE = "ACTIVE"
    UPDATING = "UPDATING"
    DELETING = "DELETING"


@dataclass(slots=True, eq=False)
class Stream:
    """A provisioned stream."""

    name: str
    arn: str
    stream_id: str
    created_at: float
    transition: float  # seconds that each state but ACTIVE lasts
    retention_hours: int = 24
    max_record_kib: int = 1024
    tags: dict[str, str] = field(default_factory=dict)
    scaled_at: list[float] = field(default_factory=list)  # by UpdateShardCount, in the last day
    state: State = State.CREATING
    gone: bool = False
    shards: list[Shard] = field(default_factory=list)  # by index; those that retention took stay as stubs
    open_shards: list[Shard] = field(default_factory=list)  # by hash range
    _starts: list[int] = field(default_factory=list)
    _closed: deque[Shard] = field(default_factory=deque)  # in the order of closing, until gone
    _due: float = 0.0
    _then: Callable[[float], None] | None = None

    def begin(self, state: State, now: float, then: Callable[[float], None]) -> None:
        """Enter a state that the clock ends, and say what happens then."""
        self.state, self._due, self._then = state, now + self.transition, then
        self.settle(now)

    def settle(self, now: float) -> None:
        """Do what the clock has made due: end a state, let shards go that were closed longer ago than retention."""
        if self._then is not None and now >= self._due:
            then, self._then = self._then, None
            self.state = State.ACTIVE
            then(self._due)
        horizon = now - self.retention_hours * _HOUR
        while self._closed and (self._closed[0].closed_at or 0.0) < horizon:
            shard = self._closed.popleft()
            shard.gone = True
            shard.log.clear()

    def horizon(self, now: float) -> float:
        """Give the moment that retention reaches back to: not before the stream was made."""
        return max(self.created_at, now - self.retention_hours * _HOUR)

    def need_active(self) -> None:
        """Refuse what only an ACTIVE stream allows."""
        if self.state is not State.ACTIVE:
            raise self.wrong_state()

    def wrong_state(self) -> AwsError:
        """Say in which state the stream is instead of ACTIVE."""
        return in_use(f"Stream {self.name} under account {ACCOUNT} not ACTIVE, instead in state {self.state}")

    def shard(self, shard_id: str) -> Shard:
        """Find a shard that is there: made already, and not taken by retention."""
        digits = shard_id.removeprefix(_SHARD_PREFIX)
        index = (
            int(digits)
            if shard_id.startswith(_SHARD_PREFIX) and digits.isascii() and digits.isdigit()
            else -1
        )
        return self.shard_by_index(index, shard_id)

    def shard_by_index(self, index: int, shown: str) -> Shard:
        """Find a shard by its place in the order of making."""
        if not 0 <= index < len(self.shards) or self.shards[index].gone:
            raise not_found(f"Shard {shown} in stream {self.name} under account {ACCOUNT} does not exist")
        return self.shards[index]

    def listed(self) -> list[Shard]:
        """Give every shard that retention hasn't taken, by index."""
        return [shard for shard in self.shards if not shard.gone]

    def route(self, hash_key: int) -> Shard:
        """Give the open shard whose range holds a hash key."""
        return self.open_shards[bisect_right(self._starts, hash_key) - 1]

    def make_shards(self, count: int, at: float) -> None:
        """Cut the hash space evenly into the first shards."""
        width = (MAX_HASH + 1) // count
        lasts = [*((index + 1) * width - 1 for index in range(count - 1)), MAX_HASH]
        self._open([self._add(index * width, last, at) for index, last in enumerate(lasts)])

    def split(self, parent: Shard, second_start: int, at: float) -> None:
        """Close a shard and open two on its range."""
        self._close((parent,), at)
        lower = self._add(parent.first_hash, second_start - 1, at, (parent,))
        self._open([lower, self._add(second_start, parent.last_hash, at, (parent,))], instead_of=1)

    def merge(self, lower: Shard, upper: Shard, at: float) -> None:
        """Close two adjacent shards and open one on both ranges."""
        self._close((lower, upper), at)
        self._open([self._add(lower.first_hash, upper.last_hash, at, (lower, upper))], instead_of=2)

    def begin_creating(self, count: int, now: float) -> None:
        """Make the first shards when CREATING ends; all of them carry the moment of the stream's creation."""
        self.begin(State.CREATING, now, lambda _: self.make_shards(count, self.created_at))

    def begin_split(self, parent: Shard, second_start: int, now: float) -> None:
        """Split when UPDATING ends."""
        self.begin(State.UPDATING, now, partial(self.split, parent, second_start))

    def begin_merge(self, lower: Shard, upper: Shard, now: float) -> None:
        """Merge when UPDATING ends."""
        self.begin(State.UPDATING, now, partial(self.merge, lower, upper))

    def begin_deleting(self, now: float) -> None:
        """Go when DELETING ends."""
        self.begin(State.DELETING, now, self._go)

    def _go(self, _at: float) -> None:
        self.state, self.gone = State.DELETING, True

    def _close(self, parents: tuple[Shard, ...], at: float) -> None:
        for shard in parents:
            shard.close(at)
        self._closed.extend(parents)

    def _add(self, first: int, last: int, at: float, parents: tuple[Shard, ...] = ()) -> Shard:
        shard = Shard(len(self.shards), first, last, at, parents)
        self.shards.append(shard)
        for parent in parents:
            parent.children.append(shard)
        return shard

    def _open(self, shards: list[Shard], *, instead_of: int = 0) -> None:
        """In the order of hash ranges, in the place of so many that were closed."""
        place = bisect_left(self._starts, shards[0].first_hash)
        self.open_shards[place : place + instead_of] = shards
        self._starts[place : place + instead_of] = [shard.first_hash for shard in shards]
