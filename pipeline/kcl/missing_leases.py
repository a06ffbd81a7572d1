"""KCL's shard sync: which leases are missing in the lease table, and the checkpoint at which each of them starts.

If the table is empty, each shard of the filtered listing gets a lease, at the initial position.

If the table has leases, KCL looks at the ancestors of each open shard without a lease:

- If no ancestor has a lease or is given one, the shard itself gets a lease, at the initial position.
- If an ancestor has a lease or is given one, the shard gets none, because its lease is created when its
  parent ends. Missing leases of the shards between that ancestor and the shard are created now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import AT_TIMESTAMP, LATEST, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard


@dataclass(frozen=True, slots=True)
class Listed:
    """A shard of a listing, and its first sequence number: KCL creates leases in the order of these numbers."""

    shard: Shard
    starts: int


def tiles(ranges: Iterable[HashRange]) -> bool:
    """Whether the ranges cover all hash keys exactly once. If a filtered listing doesn't, KCL lists again,
    three times in all."""
    expected = 0
    for hashes in sorted(ranges):
        if hashes.start != expected:
            return False
        expected = hashes.end + 1
    return expected == MAX_HASH_KEY + 1


def inconsistent(shards: Iterable[Shard]) -> frozenset[str]:
    """The children of shards that the listing still shows as open. Kinesis answers so in the middle of a reshard.

    KCL creates no lease from such a listing; with ignoreUnexpectedChildShards it creates all but those of
    these children.
    """
    every = tuple(shards)
    still_open = {shard.shard_id for shard in every if not shard.closed}
    return frozenset(shard.shard_id for shard in every if still_open.intersection(shard.parents))


def plan_first_sync(listing: Iterable[Listed], initial: Checkpoint) -> tuple[Lease, ...]:
    """The leases to create in an empty table. `listing`: the open and closed shards that ListShards returns with KCL's
    filter for the initial position."""
    every = {listed.shard.shard_id: listed for listed in listing}
    return _in_order(every, dict.fromkeys(every, initial))


def plan_missing_leases(
    listing: Iterable[Listed],
    with_lease: Collection[str],
    *,
    initial: Checkpoint,
    passed_over: Collection[str] = (),
) -> tuple[Lease, ...]:
    """The leases to create in a table that has leases. Ancestors come first, so that a crash in between does no harm.

    `passed_over`: open shards that get no lease now, such as inconsistent ones.

    A defect that KCL has too: where a long line of descent has only one lease, in the middle, TRIM_HORIZON and
    AT_TIMESTAMP create leases for the oldest generation instead of the siblings of the shard with the lease.
    """
    every = {listed.shard.shard_id: listed for listed in listing}
    walk = _AncestorWalk({key: listed.shard for key, listed in every.items()}, frozenset(with_lease), initial)
    for shard_id, entry in every.items():
        if entry.shard.closed or shard_id in walk.with_lease or shard_id in passed_over:
            continue
        if not walk.is_descendant(shard_id):
            walk.missing[shard_id] = initial
    return _in_order(every, walk.missing)


def _in_order(every: Mapping[str, Listed], starts: Mapping[str, Checkpoint]) -> tuple[Lease, ...]:
    ids = sorted(starts, key=lambda shard_id: (every[shard_id].starts, shard_id))
    return tuple(_lease(every[shard_id].shard, starts[shard_id]) for shard_id in ids)


def _lease(shard: Shard, start: Checkpoint) -> Lease:
    # As in KCL, the row names the parents even if Kinesis no longer lists them.
    return Lease(
        shard.shard_id, checkpoint=start, parents=frozenset(shard.parents), hash_range=shard.hash_range
    )


@dataclass(slots=True)
class _AncestorWalk:
    """Looks at the ancestors of open shards, each shard once per sync.

    As in KCL, looking at a shard may add its parents to `missing`.
    """

    shards: Mapping[str, Shard]
    with_lease: frozenset[str]
    initial: Checkpoint
    missing: dict[str, Checkpoint] = field(default_factory=dict)
    """Shard id -> the checkpoint of the lease to create."""
    _known: dict[str, bool] = field(default_factory=dict)
    _to_create: set[str] = field(default_factory=set)
    """Shards without a lease and without an ancestor that has one. A child that is looked at creates their leases."""

    def is_descendant(self, shard_id: str) -> bool:
        """Whether the shard has a lease, or one of its ancestors has a lease or is given one in this sync."""
        for ancestor in self._ancestors_first(shard_id):
            if ancestor not in self._known:
                self._known[ancestor] = self._decide(ancestor)
        return self._known[shard_id]

    def _ancestors_first(self, shard_id: str) -> Iterator[str]:
        """The shard and all its ancestors, ancestors first. A loop, not a recursion: after many reshards a
        shard can have more ancestors than Python's recursion limit allows."""
        todo, entered = [shard_id], set[str]()
        while todo:
            newest = todo[-1]
            if newest in entered or newest in self._known:
                yield todo.pop()
                continue
            entered.add(newest)
            if newest not in self.with_lease:
                todo.extend(p for p in self._parents(newest) if p not in entered)

    def _parents(self, shard_id: str) -> tuple[str, ...]:
        return tuple(p for p in self.shards[shard_id].parents if p in self.shards)

    def _decide(self, shard_id: str) -> bool:
        if shard_id in self.with_lease:
            return True
        parents = self._parents(shard_id)
        counting = {p for p in parents if self._known.get(p, False) or p in self._to_create}
        if not counting:
            if self.initial != LATEST:
                # At LATEST nothing of the past is read, so that no ancestor gets a lease.
                self._to_create.add(shard_id)
            return False
        for parent in parents:
            if parent not in self.with_lease:
                self._create_parent(parent, counts=parent in counting)
        return True

    def _create_parent(self, parent: str, *, counts: bool) -> None:
        if counts and parent not in self._to_create:
            # The parent has an ancestor with a lease, so the end of its own parent will create its lease.
            return
        # A parent that counts here is the oldest listed shard of its line. The other parent of a merge may not count.
        self.missing[parent] = TRIM_HORIZON if counts and self.initial != AT_TIMESTAMP else self.initial
