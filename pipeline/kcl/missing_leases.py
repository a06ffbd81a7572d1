"""Shard sync as KCL does it: which leases are missing, and where each of them starts.

table is empty      -> one lease for each shard of the filtered listing, at the initial position
table has leases    -> for each open shard without one, look up its ancestors:
    none of them has a lease (or gets one below)   -> the shard itself, at the initial position
    one does                                       -> not the shard (it appears when its parent ends), but
                                                      what is missing on the way down to it
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pipeline.core.checkpoint import AT_TIMESTAMP, LATEST, TRIM_HORIZON, Checkpoint
from pipeline.core.lease import Lease
from pipeline.core.shard import MAX_HASH_KEY, HashRange, Shard


@dataclass(frozen=True, slots=True)
class Listed:
    """A shard of a listing with the sequence number it starts at, which KCL creates leases in the order of."""

    shard: Shard
    starts: int


def tiles(ranges: Iterable[HashRange]) -> bool:
    """Whether the ranges cover all hash keys exactly once. If not, KCL lists again, three times in all."""
    expected = 0
    for each in sorted(ranges):
        if each.start != expected:
            return False
        expected = each.end + 1
    return expected == MAX_HASH_KEY + 1


def inconsistent(shards: Iterable[Shard]) -> frozenset[str]:
    """Children of shards that are still open: a listing in the middle of a reshard.

    KCL creates nothing from such a listing, or everything but these with ignoreUnexpectedChildShards.
    """
    every = tuple(shards)
    still_open = {shard.shard_id for shard in every if not shard.closed}
    return frozenset(shard.shard_id for shard in every if still_open.intersection(shard.parents))


def plan_first_sync(listing: Iterable[Listed], initial: Checkpoint) -> tuple[Lease, ...]:
    """For an empty table: `listing` is what KCL's ListShards filter for `initial` let through, open and closed."""
    every = {each.shard.shard_id: each for each in listing}
    return _in_order(every, dict.fromkeys(every, initial))


def plan_sync(
    listing: Iterable[Listed],
    with_lease: Collection[str],
    *,
    initial: Checkpoint,
    passed_over: Collection[str] = (),
) -> tuple[Lease, ...]:
    """For a table with leases: what to create, ancestors first, so that a crash in between does no harm.

    Known gap, as in KCL: where only a lease in the middle of a long chain is left, TRIM_HORIZON and AT_TIMESTAMP
    create leases for the oldest generation instead of the siblings.
    """
    every = {each.shard.shard_id: each for each in listing}
    descent = _Descent({key: each.shard for key, each in every.items()}, frozenset(with_lease), initial)
    for shard_id, each in every.items():
        if each.shard.closed or shard_id in descent.with_lease or shard_id in passed_over:
            continue
        if not descent.is_descendant(shard_id):
            descent.missing[shard_id] = initial
    return _in_order(every, descent.missing)


def _in_order(every: Mapping[str, Listed], wanted: Mapping[str, Checkpoint]) -> tuple[Lease, ...]:
    ids = sorted(wanted, key=lambda shard_id: (every[shard_id].starts, shard_id))
    return tuple(_lease(every[shard_id].shard, wanted[shard_id]) for shard_id in ids)


def _lease(shard: Shard, at: Checkpoint) -> Lease:
    # Parents are named even where they were trimmed long ago.
    return Lease(shard.shard_id, checkpoint=at, parents=frozenset(shard.parents), hash_range=shard.hash_range)


@dataclass(slots=True)
class _Descent:
    """KCL's memo of one sync. `missing` grows as descendants ask for their parents."""

    shards: Mapping[str, Shard]
    with_lease: frozenset[str]
    initial: Checkpoint
    missing: dict[str, Checkpoint] = field(default_factory=dict)
    _known: dict[str, bool] = field(default_factory=dict)
    _to_create: set[str] = field(default_factory=set)
    """Shards without an ancestor that counts: their children will ask for their leases."""

    def is_descendant(self, shard_id: str) -> bool:
        for each in self._upwards(shard_id):
            if each not in self._known:
                self._known[each] = self._decide(each)
        return self._known[shard_id]

    def _upwards(self, shard_id: str) -> Iterator[str]:
        """The shard and all its ancestors, ancestors first. A loop, not a recursion: chains can be long."""
        todo, entered = [shard_id], set[str]()
        while todo:
            each = todo[-1]
            if each in entered or each in self._known:
                yield todo.pop()
                continue
            entered.add(each)
            if each not in self.with_lease:
                todo.extend(p for p in self._parents(each) if p not in entered)

    def _parents(self, shard_id: str) -> tuple[str, ...]:
        return tuple(p for p in self.shards[shard_id].parents if p in self.shards)

    def _decide(self, shard_id: str) -> bool:
        if shard_id in self.with_lease:
            return True
        parents = self._parents(shard_id)
        counting = {p for p in parents if self._known.get(p, False) or p in self._to_create}
        if not counting:
            if self.initial != LATEST:
                self._to_create.add(shard_id)
            return False
        for parent in parents:
            if parent not in self.with_lease:
                self._ask_for(parent, counts=parent in counting)
        return True

    def _ask_for(self, parent: str, *, counts: bool) -> None:
        if counts and parent not in self._to_create:
            return  # it is on the way down itself: its own parent's end will create it
        self.missing[parent] = TRIM_HORIZON if counts and self.initial != AT_TIMESTAMP else self.initial
