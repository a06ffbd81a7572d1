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
from typing import Any

from headrace.pipeline.local.errors import AwsError, in_use, invalid, resource_not_found
from headrace.pipeline.local.kinesis.shard import MAX_HASH, LocalShard

ACCOUNT = "123456789012"
_SHARD_PREFIX = "shardId-"
_HOUR = 3600
PROVISIONED = "PROVISIONED"
ON_DEMAND = "ON_DEMAND"


class State(StrEnum):
    """A stream's status on the wire."""

    CREATING = "CREATING"
    ACTIVE = "ACTIVE"
    UPDATING = "UPDATING"
    DELETING = "DELETING"


@dataclass(slots=True, eq=False)
class LocalConsumer:
    """A consumer of enhanced fan-out."""

    name: str
    arn: str
    created_at: float
    due: float
    """When CREATING or DELETING ends."""
    state: State = State.CREATING
    gone: bool = False
    live: dict[str, Any] = field(default_factory=dict)
    """The subscription of each shard (`headrace.pipeline.local.kinesis.subscribing.Subscription`)."""
    asked: dict[str, float] = field(default_factory=dict)
    """When each shard was last asked for."""
    subscribed: dict[str, float] = field(default_factory=dict)
    """When the last subscription of each shard began."""
    tags: dict[str, str] = field(default_factory=dict)
    policy: str | None = None

    def settle(self, now: float) -> None:
        """End a state that is over by the clock."""
        if now >= self.due:
            self.gone = self.gone or self.state is State.DELETING
            self.state = State.ACTIVE if self.state is State.CREATING else self.state


@dataclass(slots=True, eq=False)
class Stream:
    """A stream of the simulator, with its shards and consumers."""

    name: str
    arn: str
    stream_id: str
    created_at: float
    # Seconds that each state but ACTIVE lasts.
    transition: float
    retention_hours: int = 24
    max_record_kib: int = 1024
    tags: dict[str, str] = field(default_factory=dict)
    mode: str = PROVISIONED
    mode_changes: list[float] = field(default_factory=list)
    """When the mode was changed in the last day; AWS allows two changes."""
    warm_mib: int | None = None
    """The writes in MiB a second for which an on-demand stream was told to be ready."""
    ignores_keys: bool = False
    """Whether records are spread over the shards without a look at their keys."""
    key_id: str | None = None
    """The KMS key by which records are encrypted from now on."""
    encryption_changes: list[float] = field(default_factory=list)
    """When encryption was started or stopped in the last day; AWS allows 25 times."""
    shard_metrics: list[str] = field(default_factory=list)
    """The metrics that are kept for each shard."""
    policy: str | None = None
    consumers: dict[str, LocalConsumer] = field(default_factory=dict)
    # When UpdateShardCount scaled the stream in the last day; AWS allows ten times.
    scaled_at: list[float] = field(default_factory=list)
    state: State = State.CREATING
    gone: bool = False
    # In the order of their index; shards that were deleted after the retention stay without records.
    shards: list[LocalShard] = field(default_factory=list)
    # In the order of their hash ranges, so that a bisection finds the shard of a key.
    open_shards: list[LocalShard] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    # Closed shards that still exist, oldest first.
    _closed: deque[LocalShard] = field(default_factory=deque)
    _due: float = 0.0
    _then: Callable[[float], None] | None = None

    def begin(self, state: State, now: float, at_end: Callable[[float], None]) -> None:
        """Enter a state that ends after some time. `at_end`: called at its end."""
        self.state, self._due, self._then = state, now + self.transition, at_end
        # With a transition of 0 s, the change is complete before the answer goes out.
        self.settle(now)

    def settle(self, now: float) -> None:
        """Do everything that is due by the clock: end a state, and delete shards that were closed before the
        retention."""
        if self._then is not None and now >= self._due:
            at_end, self._then = self._then, None
            self.state = State.ACTIVE
            # With the time when it was due: a shard's times don't depend on when the next request comes.
            at_end(self._due)
        horizon = now - self.retention_hours * _HOUR
        while self._closed and (self._closed[0].closed_at or 0.0) < horizon:
            shard = self._closed.popleft()
            shard.gone = True
            shard.log.clear()

    def settled_consumers(self, now: float) -> dict[str, LocalConsumer]:
        """Give the consumers by name, in the states that they have by now."""
        for consumer in list(self.consumers.values()):
            consumer.settle(now)
            if consumer.gone:
                del self.consumers[consumer.name]
        return self.consumers

    @property
    def encryption(self) -> str:
        """Tell how records are encrypted from now on."""
        return "NONE" if self.key_id is None else "KMS"

    def horizon(self, now: float) -> float:
        """Give the start of the retention, but not before the stream was created."""
        return max(self.created_at, now - self.retention_hours * _HOUR)

    def need_active(self) -> None:
        """Refuse an operation that only an ACTIVE stream allows."""
        if self.state is not State.ACTIVE:
            raise self.wrong_state()

    def need_provisioned(self) -> None:
        """Refuse an operation that an on-demand stream does by itself."""
        if self.mode != PROVISIONED:
            raise invalid(
                f"Stream {self.name} under account {ACCOUNT} is in on-demand capacity mode: the operation is for provisioned "
                "streams only"
            )

    def wrong_state(self) -> AwsError:
        """Say in which state the stream is instead of ACTIVE."""
        return in_use(f"Stream {self.name} under account {ACCOUNT} not ACTIVE, instead in state {self.state}")

    def shard(self, shard_id: str) -> LocalShard:
        """Find a shard that exists: it was created, and not deleted after the retention."""
        digits = shard_id.removeprefix(_SHARD_PREFIX)
        index = (
            int(digits)
            if shard_id.startswith(_SHARD_PREFIX) and digits.isascii() and digits.isdigit()
            else -1
        )
        return self.shard_by_index(index, shard_id)

    def shard_by_index(self, index: int, shown: str) -> LocalShard:
        """Find a shard by its place in the order of creation."""
        if not 0 <= index < len(self.shards) or self.shards[index].gone:
            raise resource_not_found(
                f"Shard {shown} in stream {self.name} under account {ACCOUNT} does not exist"
            )
        return self.shards[index]

    def listed(self) -> list[LocalShard]:
        """Give every shard that wasn't deleted after the retention, by index."""
        return [shard for shard in self.shards if not shard.gone]

    def route(self, hash_key: int) -> LocalShard:
        """Give the open shard whose range holds a hash key."""
        return self.open_shards[bisect_right(self._starts, hash_key) - 1]

    def make_shards(self, count: int, moment: float) -> None:
        """Divide the hash keys evenly among the first shards."""
        width = (MAX_HASH + 1) // count
        lasts = [*((index + 1) * width - 1 for index in range(count - 1)), MAX_HASH]
        self._open([self._add(index * width, last, moment) for index, last in enumerate(lasts)])

    def split(self, parent: LocalShard, second_start: int, moment: float) -> None:
        """Close a shard and open two on its range."""
        self._close((parent,), moment)
        lower = self._add(parent.first_hash, second_start - 1, moment, (parent,))
        self._open([lower, self._add(second_start, parent.last_hash, moment, (parent,))], instead_of=1)

    def merge(self, lower: LocalShard, upper: LocalShard, moment: float) -> None:
        """Close two adjacent shards and open one on both ranges."""
        self._close((lower, upper), moment)
        self._open([self._add(lower.first_hash, upper.last_hash, moment, (lower, upper))], instead_of=2)

    def begin_creating(self, count: int, now: float) -> None:
        """Begin the state CREATING, at whose end the first shards are made, all with the stream's creation time."""
        self.begin(State.CREATING, now, lambda _: self.make_shards(count, self.created_at))

    def begin_split(self, parent: LocalShard, second_start: int, now: float) -> None:
        """Begin the state UPDATING, at whose end the shard is split."""
        self.begin(State.UPDATING, now, partial(self.split, parent, second_start))

    def begin_merge(self, lower: LocalShard, upper: LocalShard, now: float) -> None:
        """Begin the state UPDATING, at whose end the shards are merged."""
        self.begin(State.UPDATING, now, partial(self.merge, lower, upper))

    def begin_deleting(self, now: float) -> None:
        """Begin the state DELETING, at whose end the stream is removed."""
        self.begin(State.DELETING, now, self._go)

    def _go(self, _at: float) -> None:
        self.state, self.gone = State.DELETING, True

    def _close(self, parents: tuple[LocalShard, ...], moment: float) -> None:
        for shard in parents:
            shard.close(moment)
        self._closed.extend(parents)

    def _add(self, first: int, last: int, moment: float, parents: tuple[LocalShard, ...] = ()) -> LocalShard:
        shard = LocalShard(len(self.shards), first, last, moment, parents)
        self.shards.append(shard)
        for parent in parents:
            parent.children.append(shard)
        return shard

    def _open(self, shards: list[LocalShard], *, instead_of: int = 0) -> None:
        """Put new shards into the list in place of the closed ones, in the order of hash ranges."""
        place = bisect_left(self._starts, shards[0].first_hash)
        self.open_shards[place : place + instead_of] = shards
        self._starts[place : place + instead_of] = [shard.first_hash for shard in shards]
