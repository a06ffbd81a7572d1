"""The wire names of a lease row, and nothing else does: KCL's attributes and types to the letter, then ours.

A change is an UpdateItem on named attributes, so that attributes we don't know survive it. None, in a value that is
required or put, is absence: DynamoDB has no empty sets, and KCL's rows no nulls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from pipeline.aws import attributes as av
from pipeline.aws.attributes import Item
from pipeline.aws.rows import Write
from pipeline.core.change import Change
from pipeline.core.checkpoint import Checkpoint
from pipeline.core.lease import Lease
from pipeline.core.shard import HashRange
from pipeline.errors import WrongShape
from pipeline.ports import SkippedRow

KEY: Final = "leaseKey"
OWNER: Final = "leaseOwner"
COUNTER: Final = "leaseCounter"
CHECKPOINT_OWNER: Final = "checkpointOwner"
OWNER_INDEX: Final = "LeaseOwnerToLeaseKeyIndex"

ENTITY: Final = "entityType"
_LEASE: Final = "LEASE"
_OTHER_KINDS: Final = frozenset(
    {"STREAM", "LEADER", "CLIENT_VERSION_MIGRATION", "TABLE_MIGRATION", "WORKER_METRIC_STATS"}
)
"""What else lies in the lease table where an application has only that one."""

ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = {
    "key": (KEY,),
    "counter": (COUNTER,),
    "checkpoint": ("checkpoint", "checkpointSubSequenceNumber"),
    "owner": (OWNER,),
    "checkpoint_owner": (CHECKPOINT_OWNER,),
    "owner_switches": ("ownerSwitchesSinceCheckpoint",),
    "pending": ("pendingCheckpoint", "pendingCheckpointSubSequenceNumber"),
    "pending_state": ("pendingCheckpointState",),
    "parents": ("parentShardId",),
    "children": ("childShardIds",),
    "hash_range": ("startingHashKey", "endingHashKey"),
    "throughput_kbps": ("throughputKBps",),
    "stream": ("streamName",),
    "shard": ("shardId",),
    # Ours.
    "stream_epoch": ("streamEpoch",),
    "run_claim": ("runClaim",),
    "wanted_by": ("wantedBy",),
    "landed": ("landedCheckpoint", "landedSub"),
    "looked_at": ("lookedAt",),
    "behind_ms": ("behindMs",),
    "assigned_at": ("assignedAt",),
}

OUR_FIELDS: Final = (
    "stream_epoch",
    "run_claim",
    "wanted_by",
    "landed",
    "looked_at",
    "behind_ms",
    "assigned_at",
)
"""KCL's readers pass over their attributes."""

_ZERO_IF_MISSING: Final = frozenset(
    {
        "checkpointSubSequenceNumber",
        "landedSub",
        "ownerSwitchesSinceCheckpoint",
        "pendingCheckpointSubSequenceNumber",
    }
)
"""Read as 0 where they are missing, so a condition on 0 must hold there too."""


# --- a row as a lease ---------------------------------------------------------------------------------------


def is_no_lease(item: Item) -> bool:
    """A row of another kind that KCL knows."""
    return item.get(ENTITY, {}).get("S") in _OTHER_KINDS


def has_type(item: Item) -> bool:
    """Workers before KCL 3.5 write leases without one."""
    return ENTITY in item


def is_ours(item: Item) -> bool:
    """Written by us at least once."""
    return any(name in item for field in OUR_FIELDS for name in ATTRIBUTES[field])


def read_lease(item: Item) -> Lease | SkippedRow:
    """A row that we don't understand is an answer too: it must never hide the others."""
    try:
        kind = av.text(item, ENTITY)
        if kind not in {None, _LEASE}:
            return SkippedRow(_name_of(item), f"a row of type {kind}, not a lease")
        return _lease(item)
    except (WrongShape, ValueError) as error:
        return SkippedRow(_name_of(item), str(error))


def _lease(item: Item) -> Lease:
    checkpoint = _checkpoint(item, "checkpoint")
    if checkpoint is None:
        raise WrongShape("checkpoint is missing")
    throughput = av.number(item, "throughputKBps")
    return Lease(
        av.mandatory_text(item, KEY),
        av.mandatory_integer(item, "leaseCounter"),
        checkpoint,
        owner=av.text(item, OWNER),
        checkpoint_owner=av.text(item, CHECKPOINT_OWNER),
        owner_switches=av.integer(item, "ownerSwitchesSinceCheckpoint") or 0,
        pending=_checkpoint(item, "pending"),
        pending_state=av.blob(item, "pendingCheckpointState"),
        parents=av.texts(item, "parentShardId"),
        children=av.texts(item, "childShardIds"),
        hash_range=_hash_range(item),
        throughput_kbps=None if throughput is None else float(throughput),
        stream=av.text(item, "streamName"),
        shard=av.text(item, "shardId"),
        stream_epoch=av.integer(item, "streamEpoch"),
        run_claim=av.text(item, "runClaim"),
        wanted_by=av.text(item, "wantedBy"),
        landed=_checkpoint(item, "landed"),
        looked_at=av.moment(item, "lookedAt", av.MILLISECOND),
        behind_ms=av.integer(item, "behindMs"),
        assigned_at=av.moment(item, "assignedAt", av.MILLISECOND),
    )


def _checkpoint(item: Item, field: str) -> Checkpoint | None:
    sequence_name, sub_name = ATTRIBUTES[field]
    sequence = av.text(item, sequence_name)
    if sequence is None:
        return None
    try:
        return Checkpoint(sequence, av.integer(item, sub_name) or 0)
    except WrongShape as error:
        raise WrongShape(f"{sequence_name}: {error}") from error


def _hash_range(item: Item) -> HashRange | None:
    start, end = (av.text(item, name) for name in ATTRIBUTES["hash_range"])
    return None if start is None or end is None else HashRange(int(start), int(end))


def _name_of(item: Item) -> str:
    key = item.get(KEY, {})
    return str(next(iter(key.values()), "a row without leaseKey"))


# --- a lease, or a part of it, as attributes ----------------------------------------------------------------


def write_lease(lease: Lease, *, entity_type: bool = True) -> Item:
    item: dict[str, Any] = {}
    for field in ATTRIBUTES:
        item |= _write(field, getattr(lease, field))
    return item | {ENTITY: av.text_value(_LEASE)} if entity_type else item


def _write(field: str, value: Any) -> Item:
    """The attributes that say this value; none for None."""
    names = ATTRIBUTES[field]
    match value:
        case None:
            return {}
        case Checkpoint():
            parts: tuple[Item, ...] = (av.text_value(value.sequence), av.number_value(value.sub))
        case HashRange():
            # KCL demands start < end: a row that it must be able to read goes without a range of one hash key.
            if value.start == value.end:
                return {}
            parts = (av.text_value(str(value.start)), av.text_value(str(value.end)))
        case frozenset():
            if not value:
                return {}
            parts = (av.texts_value(value),)
        case datetime():
            parts = (av.moment_value(value, av.MILLISECOND),)
        case bytes():
            parts = ({"B": value},)
        case str():
            parts = (av.text_value(value),)
        case _:
            parts = (av.number_value(value),)
    return dict(zip(names, parts, strict=True))


# --- a change as a request ----------------------------------------------------------------------------------


def write_change(change: Change, *, entity_type: bool = True) -> tuple[Write, Mapping[str, Any]]:
    """The operation and what it is asked with, but for the table."""
    if change.create is not None:
        item = write_lease(change.create, entity_type=entity_type)
        return "put_item", {"Item": item, "ConditionExpression": f"attribute_not_exists({KEY})"}
    words = _Words()
    conditions = " AND ".join([f"attribute_exists({KEY})", *_conditions(change, words)])
    request: dict[str, Any] = {"Key": {KEY: av.text_value(change.key)}, "ConditionExpression": conditions}
    operation: Write = "delete_item"
    if not change.delete:
        operation = "update_item"
        request["UpdateExpression"] = _update(change, words)
    return operation, {**request, **words.request()}


class _Words:
    """The names and values that an expression's placeholders stand for. Names are reserved words too often."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, Item] = {}

    def name(self, attribute: str) -> str:
        self._names[f"#{attribute}"] = attribute
        return f"#{attribute}"

    def value(self, role: str, value: Item) -> str:
        self._values[f":{role}"] = value
        return f":{role}"

    def request(self) -> Mapping[str, Any]:
        """DynamoDB refuses empty maps here."""
        words = {"ExpressionAttributeNames": self._names, "ExpressionAttributeValues": self._values}
        return {name: each for name, each in words.items() if each}


def _conditions(change: Change, words: _Words) -> list[str]:
    found = [
        each
        for field, value in change.requires.items()
        for each in _each(field, value, lambda name, part: _is(name, part, words))
    ]
    if change.holder is not None:
        me = words.value("holder", av.text_value(change.holder))
        owner, checkpoint_owner = words.name(OWNER), words.name(CHECKPOINT_OWNER)
        found.append(
            f"({checkpoint_owner} = {me} OR (attribute_not_exists({checkpoint_owner}) AND {owner} = {me}))"
        )
    return found


def _each(field: str, value: Any, say: Callable[[str, Item | None], str]) -> list[str]:
    """One phrase for each attribute of a field."""
    parts = _write(field, value)
    return [say(name, parts.get(name)) for name in ATTRIBUTES[field]]


def _is(attribute: str, value: Item | None, words: _Words) -> str:
    name = words.name(attribute)
    if value is None:
        return f"attribute_not_exists({name})"
    same = f"{name} = {words.value(f'was_{attribute}', value)}"
    if attribute in _ZERO_IF_MISSING and value == {"N": "0"}:
        return f"({same} OR attribute_not_exists({name}))"
    return same


def _update(change: Change, words: _Words) -> str:
    put: dict[str, Item | None] = {}
    for field, value in change.put.items():
        parts = _write(field, value)
        put |= {name: parts.get(name) for name in ATTRIBUTES[field]}
    put |= {name: None for field in change.remove for name in ATTRIBUTES[field]}
    sets = [
        f"{words.name(name)} = {words.value(f'new_{name}', v)}" for name, v in put.items() if v is not None
    ]
    removes = [words.name(name) for name in sorted(put) if put[name] is None]
    adds = [
        f"{words.name(name)} {words.value(f'add_{name}', av.number_value(more))}"
        for field, more in change.add.items()
        for name in ATTRIBUTES[field]
    ]
    phrases = {"SET": sets, "REMOVE": removes, "ADD": adds}
    return " ".join(f"{verb} {', '.join(what)}" for verb, what in phrases.items() if what)
