"""The shards of an application: those that its lease rows name and those that Kinesis lists, as one family."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import is_

from headrace.pipeline.console.sequence import arrived, shard_created
from headrace.pipeline.console.values import Kin, StreamSeen
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.shard import Shard


def label_of(lease: Lease) -> str:
    """The stream's part of a lease's key; empty in an application with one stream."""
    return lease.stream or lease.key.removesuffix(lease.shard_id).removesuffix(":")


def kin_key(label: str, shard_id: str) -> str:
    """The lease key of a shard, from the stream's part of the key and the shard id."""
    return f"{label}:{shard_id}" if label else shard_id


@dataclass(slots=True)
class KnownFamily:
    """The family as it was read last. It is made anew only where shards or their ends have changed."""

    _streams: tuple[StreamSeen, ...] = ()
    _leases: tuple[tuple[str, bool, bool], ...] | None = None
    _members: tuple[Kin, ...] = ()

    def of(self, leases: Sequence[Lease], streams: tuple[StreamSeen, ...]) -> tuple[Kin, ...]:
        # What a lease row says of its shard's parents, children and hash keys is written when the lease is made, and
        # when it ends; its first checkpoint tells when the shard was made.
        marks = tuple(
            (lease.key, lease.has_ended, lease.checkpoint.sequence[:1].isdigit()) for lease in leases
        )
        # By identity: comparing thousands of shards would cost as much as the family.
        is_same = len(streams) == len(self._streams) and all(map(is_, streams, self._streams))
        if not is_same or marks != self._leases:
            self._members = river_of(leases, streams)
            self._streams, self._leases = streams, marks
        return self._members


def river_of(leases: Sequence[Lease], streams: Iterable[StreamSeen]) -> tuple[Kin, ...]:
    """All known shards, in the order of their streams, hash keys and ages: parents before their children."""
    listings = {stream.label: stream for stream in streams if stream.shards is not None}
    kin = {lease.key: _of_lease(lease, listings) for lease in leases}
    for label, stream in listings.items():
        for shard in stream.shards or ():
            key = kin_key(label, shard.shard_id)
            kin[key] = _of_shard(key, label, shard, kin.get(key))
    _add_parents_that_children_name(leases, kin)
    closed_at = _closings(kin)
    generations = _generations(kin)
    whole = (
        replace(
            member,
            parents=tuple(parent for parent in member.parents if parent in kin),
            generation=generations[key],
            closed_at=closed_at.get(key, member.closed_at),
        )
        for key, member in kin.items()
    )
    return tuple(sorted(whole, key=_order))


def _order(member: Kin) -> tuple[str, int, int, str]:
    return (
        member.stream,
        member.generation,
        -1 if member.hashes is None else member.hashes.start,
        member.key,
    )


def _of_lease(lease: Lease, listings: Mapping[str, StreamSeen]) -> Kin:
    label = label_of(lease)
    checkpoint = lease.checkpoint
    return Kin(
        key=lease.key,
        stream=label,
        shard_id=lease.shard_id,
        parents=tuple(sorted(lease.parent_keys)),
        hashes=lease.hash_range,
        born=shard_created(int(checkpoint.sequence)) if checkpoint.is_digits else None,
        is_closed=lease.has_ended,
        is_listed=False if label in listings and lease.key in listings[label].asked_about else None,
    )


def _of_shard(key: str, label: str, shard: Shard, of_lease: Kin | None) -> Kin:
    numbers = shard.numbers
    born = None if numbers is None else shard_created(numbers.first)
    closed_at = None if numbers is None or numbers.last is None else arrived(numbers.last)
    parents = tuple(sorted(kin_key(label, parent) for parent in shard.parents))
    return Kin(
        key=key,
        stream=label,
        shard_id=shard.shard_id,
        parents=parents or (of_lease.parents if of_lease else ()),
        hashes=shard.hash_range or (of_lease.hashes if of_lease else None),
        born=born or (of_lease.born if of_lease else None),
        closed_at=closed_at,
        is_closed=shard.closed,
        is_listed=True,
    )


def _add_parents_that_children_name(leases: Iterable[Lease], kin: dict[str, Kin]) -> None:
    """A lease of an ended shard names its children, whose own rows may lack their parents."""
    for lease in leases:
        for child in lease.child_keys:
            if child in kin and lease.key not in kin[child].parents:
                kin[child] = replace(kin[child], parents=(*kin[child].parents, lease.key))


def _closings(kin: Mapping[str, Kin]) -> dict[str, datetime]:
    """A shard closes when its first child is made."""
    closings: dict[str, datetime] = {}
    for member in kin.values():
        for parent in member.parents:
            if member.born is not None:
                closings[parent] = min(member.born, closings.get(parent, member.born))
    return closings


def _generations(kin: Mapping[str, Kin]) -> dict[str, int]:
    """How many known ancestors a shard has, along its longest line. Rows that name each other as parents, as damaged
    ones may, count as far as the first repetition."""
    generations: dict[str, int] = {}
    children: dict[str, list[str]] = defaultdict(list)
    waits: dict[str, int] = {}
    for key, member in kin.items():
        known = [parent for parent in member.parents if parent in kin]
        waits[key] = len(known)
        for parent in known:
            children[parent].append(key)
    ready = [key for key, count in waits.items() if not count]
    generations |= dict.fromkeys(ready, 0)
    for key in ready:
        for child in children[key]:
            generations[child] = max(generations.get(child, 0), generations[key] + 1)
            waits[child] -= 1
            if not waits[child]:
                ready.append(child)
    return dict.fromkeys(kin, 0) | generations
