"""Checks that each hash key was read by exactly one shard at each time, by the ledgers and by Kinesis's list of
shards.

1. Each child began after its parents had ended (`children_too_early`).
2. Each reshard is whole: a split has two children, a merge has two parents (`broken_families`).
3. The shards at which reading stands now have each hash key once (`uncovered_keys`).

A split and a merge keep the hash keys that they divide or join. So it follows from 3 and 2 that the shards which
were read at any earlier time also had each hash key once, even those that Kinesis has forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.pipeline.core.ledger.ledger import Kind, ParentIs, ParentReason
from headrace.pipeline.core.ledger.story import Step, Story
from headrace.pipeline.core.order.cover import dead_ends
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.proof.verdict import Told, Unproved, Wrong

_ALL_KEYS = HashRange(0, MAX_HASH_KEY)
# A range of these kinds begins where a person or a checkpoint has said, so that it needn't name the parents.
_SET_BY_A_PERSON = frozenset({Kind.ADOPT, Kind.REPAIR, Kind.REPOSITION})


@dataclass(frozen=True, slots=True)
class ListedShards:
    """The shards of a stream that Kinesis lists."""

    stream: StreamId
    shards: Mapping[str, Shard]
    is_complete: bool = False
    """Whether the table stated, when it was looked at, up to when it has all records of the stream: no root shard is
    unread then."""

    def parents(self, shard_id: str) -> tuple[str, ...]:
        return self.shards[shard_id].parents if shard_id in self.shards else ()

    def families(self) -> Mapping[str, frozenset[str]]:
        """The children of each shard that has some, by the parent's id."""
        by_parent: dict[str, set[str]] = {}
        for shard in self.shards.values():
            for parent in shard.parents:
                by_parent.setdefault(parent, set()).add(shard.shard_id)
        return {parent: frozenset(children) for parent, children in by_parent.items()}


def children_too_early(story: Story, listed: Mapping[StreamId, ListedShards]) -> Iterator[Told]:
    """The shards whose reading began before that of a parent had ended."""
    ends = _ends(story)
    namers: dict[ShardKey, list[ShardKey]] = {}
    for parent, end in ends.items():
        for child in end.range.upto.children:
            # The ledger of the parent's end and Kinesis's list may name parents that the child's own ledger
            # doesn't.
            namers.setdefault(ShardKey(parent.stream, child), []).append(parent)
    for key in story.steps:
        first = story.first(key)
        if first is None or first.range.after is not None or first.range.kind in _SET_BY_A_PERSON:
            # Broken chains are told by the check of chains, and what a person decided by a sentence of its own.
            continue
        for reason in first.range.parents:
            yield from _early(story, key, first, reason)
        of_list = listed[key.stream].parents(key.shard_id) if key.stream in listed else ()
        named = {reason.shard_id for reason in first.range.parents}
        unnamed = {p.shard_id for p in namers.get(key, ())} | set(of_list)
        for shard_id in sorted(unnamed - named):
            ended = ends.get(ShardKey(key.stream, shard_id))
            if ended is None or ended.sequence >= first.sequence:
                sentence = (
                    f"{key} began with {first}, which doesn't name its parent {shard_id}, and {_state(ended)}"
                )
                yield _judged(sentence, story, first)


def _early(story: Story, key: ShardKey, first: Step, reason: ParentReason) -> Iterator[Told]:
    parent = ShardKey(key.stream, reason.shard_id)
    if reason.why is ParentIs.PASSED and reason.by is not None:
        by = story.first(ShardKey(key.stream, reason.by))
        is_there, said = by is not None and by.sequence < first.sequence, f"{reason.by} was read before"
    else:
        ended = next((step for step in story.steps.get(parent, ()) if step.range.upto.ended), None)
        # Of a parent that was closed before the origin, or that Kinesis had forgotten, the ledger has nothing.
        has_none = reason.why is not ParentIs.ENDED and parent not in story.steps
        is_there, said = has_none or (ended is not None and ended.sequence < first.sequence), _state(ended)
    if is_there:
        return
    sentence = f"{key} began with {first} before its parent {reason.shard_id} had ended: {said}"
    yield _judged(sentence, story, first)


def _judged(sentence: str, story: Story, step: Step) -> Told:
    """Wrong, unless a lost ledger may have what is missing."""
    return Unproved(sentence) if story.is_lost_between(-1, step.sequence) else Wrong(sentence)


def _state(end: Step | None) -> str:
    return (
        "no ledger has that parent's end" if end is None else f"that parent ended in snapshot {end.snapshot}"
    )


def broken_families(story: Story, listed: Mapping[StreamId, ListedShards]) -> Iterator[Told]:
    """The ended shards whose children don't have all of their hash keys."""
    ends = _ends(story)
    named_by: dict[ShardKey, set[str]] = {}
    for key, end in ends.items():
        for child in end.range.upto.children:
            named_by.setdefault(ShardKey(key.stream, child), set()).add(key.shard_id)
    of_lists = {stream: listed_shards.families() for stream, listed_shards in listed.items()}
    for key, end in ends.items():
        children = end.range.upto.children
        missing = sorted(of_lists.get(key.stream, {}).get(key.shard_id, frozenset()) - set(children))
        if key.stream.is_dynamodb:
            # A listing may show one child of a split before the other, and a roll-over has one child.
            yield from _unread_children(story, key, end, [*children, *missing], listed.get(key.stream))
        elif missing or not children:
            yield _unnamed_child(key, end, missing)
        elif len(children) == 1:
            yield from _single_child(story, ShardKey(key.stream, children[0]), end, named_by)
        yield from _divided(key, children, listed.get(key.stream))


def _unread_children(
    story: Story, key: ShardKey, end: Step, children: Iterable[str], listed: ListedShards | None
) -> Iterator[Told]:
    """The children that no wave has begun to read, where the shard itself has left the listing."""
    names = sorted(set(children))
    if listed is None or key.shard_id in listed.shards:
        return  # Still listed: the children are read next (`unread_leaves`).
    if unread := [name for name in names if story.first(ShardKey(key.stream, name)) is None]:
        yield Unproved(f"{key} ended, and its child {unread[0]} was never read: {end}")


def unread_leaves(story: Story, listed: ListedShards) -> Iterator[Told]:
    """For streams whose shards have no hash keys: the open shards that no wave reads, and that follow no shard
    that one reads.
    """
    dangling = dead_ends(listed.shards.values())
    if dangling:
        yield Unproved(
            f"{listed.stream}: the list of shards shows no shard that goes on after {dangling[0]}; look again in a moment"
        )
        return
    for shard in sorted(listed.shards.values(), key=lambda shard: shard.shard_id):
        key = ShardKey(listed.stream, shard.shard_id)
        if story.first(key) is not None or _is_ahead(story, key, listed):
            continue
        sentence = f"{listed.stream}: no ledger has the shard {shard.shard_id}, nor one that comes before or after it"
        if _descendant_was_read(story, key, listed):
            continue
        yield Wrong(sentence) if listed.is_complete and not story.lost else Unproved(sentence)


def _is_ahead(story: Story, key: ShardKey, listed: ListedShards) -> bool:
    """Whether an ancestor of the shard was read."""
    todo, seen = list(listed.parents(key.shard_id)), set[str]()
    while todo:
        parent = todo.pop()
        if story.first(ShardKey(key.stream, parent)) is not None:
            return True
        if parent not in seen:
            seen.add(parent)
            todo += listed.parents(parent)
    return False


def _descendant_was_read(story: Story, key: ShardKey, listed: ListedShards) -> bool:
    families = listed.families()
    todo, seen = list(families.get(key.shard_id, ())), set[str]()
    while todo:
        child = todo.pop()
        if story.first(ShardKey(key.stream, child)) is not None:
            return True
        if child not in seen:
            seen.add(child)
            todo += families.get(child, ())
    return False


def _unnamed_child(key: ShardKey, end: Step, missing: list[str]) -> Told:
    # Such an END comes from the shard's last page, on which Kinesis names all children.
    if missing and end.range.kind is Kind.LANDED:
        return Wrong(f"{key} ended without naming its child {missing[0]}, which Kinesis lists: {end}")
    # An END that doesn't come from the last page of the shard names the children that were known then.
    return Unproved(
        f"{key} ended and doesn't name all of its children, "
        f"so its ledger doesn't show which shard has its hash keys now: {end}"
    )


def _single_child(
    story: Story, child: ShardKey, end: Step, named_by: Mapping[ShardKey, set[str]]
) -> Iterator[Told]:
    first = story.first(child)
    if first is None:
        # The other parent may still be open.
        return
    parents = named_by[child] | {reason.shard_id for reason in first.range.parents}
    if len(parents) > 1 or first.range.kind in _SET_BY_A_PERSON:
        return
    sentence = (
        f"{end.range.key} ended with {child.shard_id} as its only child, "
        "which has no other parent: a split has two children "
        f"and a merge two parents, so the hash keys of another child were read by no shard ({end})"
    )
    yield _judged(sentence, story, first) if end.range.kind is Kind.LANDED else Unproved(sentence)


def _divided(key: ShardKey, children: Iterable[str], listed: ListedShards | None) -> Iterator[Told]:
    """Whether the hash keys of the children are those of a split parent, where Kinesis still lists all of them."""
    shards = {} if listed is None else listed.shards
    own = shards[key.shard_id].hash_range if key.shard_id in shards else None
    child_keys = [
        shards[c].hash_range for c in children if c in shards and shards[c].parents == (key.shard_id,)
    ]
    # Only children with this one parent: the child of a merge has the keys of two shards.
    ranges = sorted(keys for keys in child_keys if keys is not None)
    if own is None or len(ranges) < 2:
        return
    # Holes and overlaps within the parent's keys don't show a child that goes beyond them.
    if ranges[-1].end > own.end or any(_faults(ranges, own)):
        yield Wrong(f"the children of {key} don't have its hash keys {_keys(own)} once each")


def uncovered_keys(story: Story, listed: ListedShards) -> Iterator[Told]:
    """The hash keys that none of the shards at which reading stands now has, or that several have."""
    if listed.stream.is_dynamodb:
        yield from unread_leaves(story, listed)
        return
    stands: dict[str, HashRange | None] = {}
    families = listed.families()
    for key in story.steps:
        if key.stream == listed.stream:
            stands.update(_where_it_stands(story, key, listed, families.get(key.shard_id, frozenset())))
    unknown = sorted(shard for shard, keys in stands.items() if keys is None)
    if unknown:
        yield Unproved(
            f"{listed.stream}: Kinesis no longer lists {', '.join(unknown[:5])}, "
            "so it isn't known which hash keys reading has there"
        )
        return
    if not stands:
        return
    ranges = sorted(keys for keys in stands.values() if keys is not None)
    for fault in _faults(ranges, _ALL_KEYS):
        statement = _fault(fault, listed, stands)
        # A lost ledger may have the end of a shard that looks open here.
        yield Unproved(statement.text) if story.lost else statement


def _where_it_stands(
    story: Story, key: ShardKey, listed: ListedShards, children: frozenset[str]
) -> dict[str, HashRange | None]:
    """The shards with the hash keys of this shard that are read now, or next. `children`: those that Kinesis lists."""
    end = story.end(key)
    all_children = frozenset() if end is None else children | set(end.range.upto.children)
    if not all_children:
        return {key.shard_id: _hashes(key.shard_id, listed)}
    standing: dict[str, HashRange | None] = {}
    for child in all_children:
        if story.first(ShardKey(key.stream, child)) is not None:
            continue
        other_parents = [p for p in listed.parents(child) if p != key.shard_id]
        if all(story.end(ShardKey(key.stream, parent)) for parent in other_parents):
            standing[child] = _hashes(child, listed)
        else:
            # The child of a merge waits for its other parent: these hash keys stand at the end of this one.
            standing[key.shard_id] = _hashes(key.shard_id, listed)
    return standing


def _hashes(shard_id: str, listed: ListedShards) -> HashRange | None:
    return listed.shards[shard_id].hash_range if shard_id in listed.shards else None


@dataclass(frozen=True, slots=True)
class _Fault:
    start: int
    end: int
    is_twice: bool = False


def _faults(ranges: Iterable[HashRange], within: HashRange) -> Iterator[_Fault]:
    """Holes and overlaps of sorted ranges."""
    # So that a hole at the very beginning is found like any other.
    reached = within.start - 1
    for keys in ranges:
        if keys.start > reached + 1:
            yield _Fault(reached + 1, keys.start - 1)
        elif keys.start <= reached:
            yield _Fault(keys.start, min(reached, keys.end), is_twice=True)
        reached = max(reached, keys.end)
    if reached < within.end:
        yield _Fault(reached + 1, within.end)


def _fault(fault: _Fault, listed: ListedShards, stands: Mapping[str, HashRange | None]) -> Told:
    keys = _keys(HashRange(fault.start, fault.end))
    with_keys = sorted(
        s.shard_id
        for s in listed.shards.values()
        if s.hash_range and s.hash_range.start <= fault.end and fault.start <= s.hash_range.end
    )
    if fault.is_twice:
        twice = [s for s in with_keys if s in stands]
        return Wrong(
            f"{listed.stream}: the hash keys {keys} are read by more than one shard: {', '.join(twice)}"
        )
    # A closed shard without a ledger is from before the origin, or its children have its keys by now.
    unread = [s for s in with_keys if s not in stands and not listed.shards[s].closed]
    sentence = f"{listed.stream}: no shard in the ledger has the hash keys {keys}"
    if unread and not listed.is_complete:
        return Unproved(f"{sentence}: {', '.join(unread)} is empty so far, or not read yet")
    return Wrong(f"{sentence}{f', which {unread[0]} has' if unread else ''}")


def _keys(keys: HashRange) -> str:
    return f"{keys.start} to {keys.end}"


def _ends(story: Story) -> dict[ShardKey, Step]:
    ends = {key: story.end(key) for key in story.steps}
    return {key: end for key, end in ends.items() if end is not None}
