"""Each operation as a call of the product's own function. Its arguments are what the caller had read (`seen_*`)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from headrace.pipeline.aws.leases.leader_lock import DynamoLeaderLock
from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.aws.leases.rows import Place
from headrace.pipeline.aws.leases.workers import DynamoWorkerStore
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Metrics, Worker
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.kcl import writes
from headrace.pipeline.kcl.migration import ClientVersion
from tests.kcl_client_version import KclClientVersion
from tests.memory.clock import MemoryClock
from tests.vectors.rules import row_writes

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Args = Mapping[str, Any]
Operation = Callable[["DynamoDBClient", Place, Args], Any]
"""Performs the operation and returns the product's answer."""
KeysOf = Callable[["DynamoDBClient", Place, Args], list[str]]
LOCK = timedelta(seconds=120)
"""KCL's dynamoDbLockBasedLeaderLeaseDurationInMillis, for cases that don't set it."""


# --- leases -------------------------------------------------------------------------------------------------


def _lease(plan: Callable[[Args], Change]) -> Operation:
    def operation(client: DynamoDBClient, place: Place, args: Args) -> Any:
        return DynamoLeaseStore(client, place.table).apply(plan(args))

    return operation


def _seen(args: Args, **more: Any) -> Lease:
    """The lease that the caller had read."""
    return Lease(
        args["lease_key"],
        args.get("seen_counter") or 0,
        owner=args.get("seen_owner"),
        checkpoint_owner=args.get("seen_checkpoint_owner"),
        **more,
    )


def _checkpoint_of(args: Args, name: str = "checkpoint", sub: str = "sub") -> Checkpoint:
    return Checkpoint(args[name] or "", args.get(sub) or 0)


def _hash_range(args: Args) -> HashRange | None:
    both = args.get("hash_range")
    return None if both is None else HashRange(int(both[0]), int(both[1]))


def _of_shard(args: Args) -> dict[str, Any]:
    """What the caller knows of the shard."""
    return {
        "hash_range": _hash_range(args),
        "children": frozenset(args.get("children") or ()),
        "stream": args.get("stream", args.get("stream_name")),
        "shard": args.get("shard", args.get("shard_id")),
    }


def _create(args: Args) -> Change:
    parents = frozenset(args.get("parents") or ())
    lease = Lease(args["lease_key"], checkpoint=_checkpoint_of(args), parents=parents, **_of_shard(args))
    return change.create(lease, "wire")


def _renew(args: Args) -> Change:
    known = "somebody" if args.get("knows_checkpoint_owner") else None
    read = Lease(args["lease_key"], args["seen_counter"], checkpoint_owner=known)
    kbps = args.get("throughput_kbps")
    return row_writes.renew(read, throughput_kbps=None if kbps is None else float(kbps))


def _write_checkpoint(args: Args) -> Change:
    if args.get("pending") is not None:
        return _prepare(args)
    return row_writes.kcl_checkpoint(_seen(args, **_of_shard(args)), _checkpoint_of(args))


def _prepare(args: Args) -> Change:
    name, sub = ("pending", "pending_sub") if "pending" in args else ("checkpoint", "sub")
    state = args.get("pending_state", args.get("state"))
    text = state["B64"] if isinstance(state, dict) else state
    return row_writes.kcl_prepare(
        _seen(args, **_of_shard(args)),
        _checkpoint_of(args, name, sub),
        state=None if text is None else base64.b64decode(text),
    )


def _note_hash_range(args: Args) -> Change:
    found = _hash_range(args)
    assert found is not None
    return writes.note_hash_range(_seen(args), found)


def _delete(client: DynamoDBClient, place: Place, args: Args) -> Any:
    """Headrace deletes only rows that it has read."""
    store = DynamoLeaseStore(client, place.table)
    read = store.get(args["lease_key"])
    return read is None or store.apply(change.delete_garbage(read, "wire"))


def _held(client: DynamoDBClient, place: Place, args: Args) -> list[str]:
    me = next(
        value for value in args.values() if isinstance(value, str)
    )  # the owner is the only argument that is text
    found = DynamoLeaseStore(client, place.table).held_by(me)
    return [lease.key for lease in found.leases if lease.owner == me and lease.checkpoint_owner is None]


# --- the lock -----------------------------------------------------------------------------------------------


def _duration(args: Args) -> timedelta:
    return timedelta(milliseconds=int(args["duration_ms"])) if "duration_ms" in args else LOCK


def _acquire(client: DynamoDBClient, place: Place, args: Args) -> bool:
    lock = DynamoLeaderLock(client, place.table, key=place.key)
    found = lock.read()
    seen = None if args.get("seen") is None else LockRow("somebody", args["seen"], LOCK)
    if found is not None and found.released:  # KCL reads the lock before every acquisition
        seen = found
    return lock.take(LockRow(args["me"], args["new_version"], _duration(args)), seen=seen)


def _heartbeat(client: DynamoDBClient, place: Place, args: Args) -> bool:
    mine = LockRow(args["me"], args["seen"], _duration(args))
    return DynamoLeaderLock(client, place.table, key=place.key).beat(mine, args["new_version"])


def _release(client: DynamoDBClient, place: Place, args: Args) -> bool:
    mine = LockRow(args["me"], args["seen"], LOCK)
    return DynamoLeaderLock(client, place.table, key=place.key).release(mine)


# --- workers and versions -----------------------------------------------------------------------------------


def _moment(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _delete_metrics(client: DynamoDBClient, place: Place, args: Args) -> bool:
    store = DynamoWorkerStore(client, place.table, clock=MemoryClock(), key=place.key)
    return store.delete_stale(Worker(args["worker"], last_update=_moment(args["seen_last_update"])))


def _first(args: Args, *names: str) -> Any:
    return next(args[name] for name in names if name in args)


def _write_metrics(client: DynamoDBClient, place: Place, args: Args) -> bool:
    seconds = _first(args, "now_s", "last_update", "lut")
    store = DynamoWorkerStore(
        client,
        place.table,
        clock=MemoryClock(datetime.fromtimestamp(seconds, UTC)),
        key=place.key,
        as_in_35=True,
    )
    metrics = Metrics(
        {name: tuple(float(n) for n in values) for name, values in _first(args, "stats", "sts").items()},
        {name: tuple(int(n) for n in values) for name, values in _first(args, "ranges", "opr").items()},
    )
    return store.report(args["worker"], metrics, seen=None)


def _set_version(client: DynamoDBClient, place: Place, args: Args) -> bool:
    store = KclClientVersion(client, place.table, key=place.key)
    seen = args.get("seen")
    return store.change(
        _version(args["new"]),
        args["me"],
        datetime.fromtimestamp(args["now_ms"] // 1000, UTC) + timedelta(milliseconds=args["now_ms"] % 1000),
        seen=None if seen is None else _version(seen),
    )


def _version(said: str) -> ClientVersion:
    return ClientVersion(said.removeprefix("CLIENT_VERSION_"))


OPERATIONS: dict[str, Operation] = {
    "create_lease": _lease(_create),
    "take": _lease(lambda args: writes.take(_seen(args), args["me"])),
    "renew": _lease(_renew),
    "checkpoint": _lease(_write_checkpoint),
    "prepare_checkpoint": _lease(_prepare),
    "assign": _lease(lambda args: row_writes.kcl_assign(_seen(args), args["new_owner"], "wire")),
    "initiate_handover": _lease(
        lambda args: row_writes.begin_handover(_seen(args), args["new_owner"], "wire")
    ),
    "evict": _lease(lambda args: row_writes.evict(_seen(args), "wire")),
    "set_child_shards": _lease(
        lambda args: row_writes.kcl_note_children(_seen(args), frozenset(args["children"]))
    ),
    "set_hash_range": _lease(_note_hash_range),
    "delete_lease": _delete,
    "lock_acquire": _acquire,
    "lock_heartbeat": _heartbeat,
    "lock_release": _release,
    "write_worker_metrics": _write_metrics,
    "delete_worker_metrics": _delete_metrics,
    "set_client_version": _set_version,
}
KEYS_OF: dict[str, KeysOf] = {"leases_of_by_index": _held}
"""Operations that read. They return keys of leases."""
NOT_BUILT: dict[str, str] = {
    "set_table_migration": "headrace.pipeline.migrate writes it, with the time of the decision before it as a condition too",
    "create_stream": "KCL's stream rows are off by default and reserved for future use there",
    "delete_stream": "KCL's stream rows are off by default and reserved for future use there",
}
"""Why an operation isn't implemented, by its name."""
