"""Converts lease rows of DynamoDB to `Lease` values and back. No other module knows the rows' attribute names:
KCL's, and Headrace's own.

A change becomes an UpdateItem on single attributes, so that attributes which Headrace doesn't know stay in
the row. A None in a change means that the attribute is missing: DynamoDB has no empty sets, and KCL writes no
nulls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from headrace.pipeline.aws.leases import attributes as av
from headrace.pipeline.aws.leases.attributes import Item
from headrace.pipeline.aws.leases.rows import Write
from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.throughput import believable
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.ports.leases import SkippedRow

KEY: Final = "leaseKey"
OWNER: Final = "leaseOwner"
COUNTER: Final = "leaseCounter"
CHECKPOINT_OWNER: Final = "checkpointOwner"
OWNER_INDEX: Final = "LeaseOwnerToLeaseKeyIndex"

ENTITY: Final = "entityType"
_LEASE: Final = "LEASE"
# Types of the other rows in the lease table, where an application has only this table (layout S).
_OTHER_KINDS: Final = frozenset(
    {"STREAM", "LEADER", "CLIENT_VERSION_MIGRATION", "TABLE_MIGRATION", "WORKER_METRIC_STATS"}
)

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
    # Headrace's own attributes.
    "stream_epoch": ("streamEpoch",),
    "run_claim": ("runClaim",),
    "wanted_by": ("wantedBy",),
    "landed": ("landedCheckpoint", "landedSub"),
    "looked_at": ("lookedAt",),
    "behind_ms": ("behindMs",),
    "assigned_at": ("assignedAt",),
    "failure": ("failingSince", "failure"),
}

OUR_FIELDS: Final = (
    "stream_epoch",
    "run_claim",
    "wanted_by",
    "landed",
    "looked_at",
    "behind_ms",
    "assigned_at",
    "failure",
)
"""Fields whose attributes only Headrace writes. KCL's workers ignore unknown attributes."""

# Attributes that are read as 0 where they are missing. A condition that one of them is 0 must hold for a
# missing one, too.
_ZERO_IF_MISSING: Final = frozenset(
    {
        "checkpointSubSequenceNumber",
        "landedSub",
        "ownerSwitchesSinceCheckpoint",
        "pendingCheckpointSubSequenceNumber",
    }
)


# --- a row as a lease ---------------------------------------------------------------------------------------


def is_no_lease(item: Item) -> bool:
    """Whether this row isn't a lease but of another known type: a worker, the lock, a stream or a migration."""
    return item.get(ENTITY, {}).get("S") in _OTHER_KINDS


def has_type(item: Item) -> bool:
    """Whether the row has the attribute entityType. Workers before KCL 3.5 write leases without it."""
    return ENTITY in item


def is_ours(item: Item) -> bool:
    """Whether Headrace has written this row at least once."""
    return any(name in item for field in OUR_FIELDS for name in ATTRIBUTES[field])


def read_lease(item: Item) -> Lease | SkippedRow:
    """The lease, or a SkippedRow for a row that can't be understood: one such row must not keep a scan from
    reading the others."""
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
        throughput_kbps=_throughput(item),
        stream=av.text(item, "streamName"),
        shard=av.text(item, "shardId"),
        stream_epoch=av.integer(item, "streamEpoch"),
        run_claim=av.text(item, "runClaim"),
        wanted_by=av.text(item, "wantedBy"),
        landed=_checkpoint(item, "landed"),
        looked_at=av.moment(item, "lookedAt", av.MILLISECOND),
        behind_ms=av.integer(item, "behindMs"),
        assigned_at=av.moment(item, "assignedAt", av.MILLISECOND),
        failure=_failure(item),
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


def _throughput(item: Item) -> float | None:
    """The measured throughput, or None for nonsense: it only helps to balance, so it must not make the row
    unreadable."""
    try:
        number = av.number(item, "throughputKBps")
    except WrongShape:
        return None
    return None if number is None else believable(number)


def _hash_range(item: Item) -> HashRange | None:
    start, end = (av.text(item, name) for name in ATTRIBUTES["hash_range"])
    return None if start is None or end is None else HashRange(int(start), int(end))


def _failure(item: Item) -> Failure | None:
    since, why = av.moment(item, "failingSince", av.MILLISECOND), av.text(item, "failure")
    return None if since is None or why is None else Failure(since, why)


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
    """The attributes for a field's value; none for None."""
    # DynamoDB refuses an empty set, and a missing attribute means the same in KCL.
    names = ATTRIBUTES[field]
    match value:
        case None | frozenset() if not value:
            return {}
        case Checkpoint():
            values: tuple[Item, ...] = (av.text_value(value.sequence), av.number_value(value.sub))
        case Failure():
            values = (av.moment_value(value.since, av.MILLISECOND), av.text_value(value.why))
        case HashRange():
            # KCL can't read a row unless start < end. So a range of a single hash key is left out.
            if value.start == value.end:
                return {}
            values = (av.text_value(str(value.start)), av.text_value(str(value.end)))
        case frozenset():
            values = (av.texts_value(value),)
        case datetime():
            values = (av.moment_value(value, av.MILLISECOND),)
        case bytes():
            values = ({"B": value},)
        case str():
            values = (av.text_value(value),)
        case _:
            values = (av.number_value(value),)
    return dict(zip(names, values, strict=True))


# --- a change as a request ----------------------------------------------------------------------------------


def write_change(change: Change, *, entity_type: bool = True) -> tuple[Write, Mapping[str, Any]]:
    """The DynamoDB operation that writes the change, and its parameters without the table's name."""
    item = None if change.create is None else write_lease(change.create, entity_type=entity_type)
    if change.kind is ChangeKind.CREATE:
        return "put_item", {"Item": item, "ConditionExpression": f"attribute_not_exists({KEY})"}
    words = _Words()
    # An UpdateItem without this condition would create a missing row, which then has no checkpoint.
    conditions = " AND ".join([f"attribute_exists({KEY})", *_conditions(change, words)])
    if item is not None:
        return "put_item", {"Item": item, "ConditionExpression": conditions, **words.request()}
    request: dict[str, Any] = {"Key": {KEY: av.text_value(change.key)}, "ConditionExpression": conditions}
    operation: Write = "delete_item" if change.deletes else "update_item"
    if not change.deletes:
        request["UpdateExpression"] = _update(change, words)
    return operation, {**request, **words.request()}


class _Words:
    """Placeholders of an expression and what they stand for. Attribute names need placeholders, because many
    are reserved words of DynamoDB.
    """

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
        """The two maps for the request. An empty one is left out, because DynamoDB refuses it."""
        words = {"ExpressionAttributeNames": self._names, "ExpressionAttributeValues": self._values}
        return {name: entries for name, entries in words.items() if entries}


def _conditions(change: Change, words: _Words) -> list[str]:
    conditions = [
        condition
        for field, value in change.requires.items()
        for condition in _each(field, value, lambda name, attribute_value: _is(name, attribute_value, words))
    ]
    if change.holder is not None:
        me = words.value("holder", av.text_value(change.holder))
        owner, checkpoint_owner = words.name(OWNER), words.name(CHECKPOINT_OWNER)
        # The holder is checkpointOwner while a handover runs, and leaseOwner at all other times.
        conditions.append(
            f"({checkpoint_owner} = {me} OR (attribute_not_exists({checkpoint_owner}) AND {owner} = {me}))"
        )
    return conditions


def _each(field: str, value: Any, phrase: Callable[[str, Item | None], str]) -> list[str]:
    """One condition for each attribute of a field."""
    attributes = _write(field, value)
    return [phrase(name, attributes.get(name)) for name in ATTRIBUTES[field]]


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
        attributes = _write(field, value)
        put |= {name: attributes.get(name) for name in ATTRIBUTES[field]}
    # A None becomes REMOVE: DynamoDB has no null that KCL's readers would understand.
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
