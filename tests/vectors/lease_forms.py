"""Cases of the life of one lease: its checkpoints, its handover, its end; and of which worker leads."""

from typing import Any

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.shard import Child
from headrace.pipeline.errors import BadSetting, Unknown, WrongShape
from headrace.pipeline.kcl import checkpointer, leader, lease_availability, migration
from tests.vectors.rules import client_version, shard_end

MS = 1_000_000  # nanoseconds


def _checkpoint(given: Any) -> Checkpoint:
    """A sequence number with a sub-sequence number, which is 0 if it isn't given."""
    sequence, sub = given if isinstance(given, list) else (given, 0)
    return Checkpoint(sequence or "", sub)


def esn_cmp(case: Any, expected: Any, graphs: Any) -> Any:
    try:
        a, b = _checkpoint(case["a"]), _checkpoint(case["b"])
    except WrongShape:
        return "error"
    return (a > b) - (a < b)


class _Consumer:
    """Applies an application's calls to a row."""

    def __init__(self, case: Any) -> None:
        initial = case.get("initial")
        self.row = _checkpoint(case["row_checkpoint"])
        self.pending: Checkpoint | None = None
        self.progress = checkpointer.CheckpointProgress(None if initial is None else _checkpoint(initial))
        self.prepared: list[checkpointer.CheckpointAnswer] = []

    def do(self, operation: str, given: Any = None) -> str:
        try:
            match operation:
                case "largest":
                    self.progress = checkpointer.delivered(self.progress, _checkpoint(given))
                    return "ok"
                case "shard_end":
                    self.progress = checkpointer.shard_ended(self.progress)
                    return "ok"
                case "checkpoint":
                    return self._checkpoint(None if given is None else _checkpoint(given))
                case "prepare":
                    return self._prepare(None if given is None else _checkpoint(given))
                case "commit":
                    prepared = self.prepared[given]
                    is_write = isinstance(prepared, checkpointer.Write)
                    return self._checkpoint(prepared.checkpoint) if is_write else "no-write"
        except (WrongShape, IndexError):
            return "error"
        return f"unknown operation {operation!r}"

    def _checkpoint(self, at: Checkpoint | None) -> str:
        answer = checkpointer.plan_checkpoint(self.progress, at)
        if isinstance(answer, checkpointer.Write):
            self.row, self.pending = answer.checkpoint, None
            self.progress = checkpointer.written(self.progress, answer)
        return _WORDS[type(answer)]

    def _prepare(self, at: Checkpoint | None) -> str:
        answer = checkpointer.plan_prepare(self.progress, at)
        if isinstance(answer, checkpointer.Write):
            self.pending = answer.checkpoint
        if not isinstance(answer, checkpointer.OutOfBounds):
            self.prepared.append(answer)
        return _WORDS[type(answer)]


_WORDS = {checkpointer.Write: "ok", checkpointer.Unchanged: "no-write", checkpointer.OutOfBounds: "error"}


def checkpoints(case: Any, expected: Any, graphs: Any) -> Any:
    consumer = _Consumer(case)
    results = [consumer.do(*operation) for operation in case["ops"]]
    pending = consumer.pending
    return {
        "results": results,
        "checkpoint": [consumer.row.sequence, consumer.row.sub],
        "pending": None if pending is None else [pending.sequence, pending.sub],
    }


def lease_available(case: Any, expected: Any, graphs: Any) -> Any:
    return lease_availability.is_available(
        case.get("owner"), case.get("last_ns"), duration_ns=case["duration_ns"], at_ns=case["now_ns"]
    )


def handoff_blocked(case: Any, expected: Any, graphs: Any) -> Any:
    row = case["lease"]
    lease = Lease(
        "shardId-0",
        checkpoint=Checkpoint(row["checkpoint"]),
        owner=row.get("leaseOwner"),
        checkpoint_owner=row.get("checkpointOwner"),
    )
    # The true and false values of the case are KCL's flag isExpiredOrUnassigned, which KCL keeps in memory only.
    free = any(value is True for value in row.values())
    deadline = (row.get("handoffDeadlineMs") or 0) * MS
    return lease_availability.is_blocked(lease, deadline, at_ns=case["now_ms"] * MS, free=free)


def block_on_parent(case: Any, expected: Any, graphs: Any) -> Any:
    return shard_end.is_blocked_on_parents(
        None if text is None else Checkpoint(text) for text in case.get("parent_checkpoints") or ()
    )


def cleanup_completed(case: Any, expected: Any, graphs: Any) -> Any:
    children = [None if text is None else Checkpoint(text) for text in case.get("child_checkpoints") or ()]
    try:
        return shard_end.may_clean_up(children, parents_present=case["parent_leases_present"])
    except Unknown:
        return (
            "error" if isinstance(expected, bool) else expected
        )  # the file has KCL's text for a refusal, which Headrace's needn't match


def shutdown_reason(case: Any, expected: Any, graphs: Any) -> Any:
    before, new = (
        None if name is None else shard_end.Reason[name] for name in (case.get("a"), case.get("b"))
    )
    return shard_end.may_become(before, new)


def response_valid(case: Any, expected: Any, graphs: Any) -> Any:
    return shard_end.is_whole(case.get("next_iterator"), case.get("child_parent_lists") or ())


_ENDINGS = {"end_shard": shard_end.ShardEnding.END, "give_up_lease": shard_end.ShardEnding.GIVE_UP}


def shard_end_merge(case: Any, expected: Any, graphs: Any) -> Any:
    parents = tuple(case["child"]["parents"])
    children = [Child(f"child-{number}", parents) for number in range(case.get("child_count") or 1)]
    present = case.get("parent_leases_present")
    plan = shard_end.plan_shard_end(children, (True, True) if present is None else present)
    word = next((word for word, ending in _ENDINGS.items() if ending is plan.ending), None)
    if word is None:  # the file may have any word for the third ending
        word = "retry" if expected["outcome"] in _ENDINGS else expected["outcome"]
    return {"outcome": word, "children_created": len(plan.create)}


def init_version(case: Any, expected: Any, graphs: Any) -> Any:
    stored = None if case.get("stored") is None else migration.ClientVersion(case["stored"])
    return str(client_version.first_version(client_version.ClientConfig(case["config"]), stored))


def table_status(case: Any, expected: Any, graphs: Any) -> Any:
    stored = None if case.get("stored") is None else migration.TableStatus(case["stored"])
    try:
        return str(
            migration.table_status(
                stored, legacy_table=bool(case.get("legacy_table")), migrate=bool(case.get("migrate_flag"))
            )
        )
    except BadSetting:
        return "ERROR"


def det_leader(case: Any, expected: Any, graphs: Any) -> Any:
    order = leader.order_of_leadership(case["owners"])
    return {"order": list(order), "leader": order[0] if order else None}


FORMS = {
    "esn_cmp": esn_cmp,
    "checkpointer": checkpoints,
    "lease_available": lease_available,
    "handoff_blocked": handoff_blocked,
    "block_on_parent": block_on_parent,
    "cleanup_completed": cleanup_completed,
    "shutdown_reason": shutdown_reason,
    "response_valid": response_valid,
    "shard_end_merge": shard_end_merge,
    "init_version": init_version,
    "table_status": table_status,
    "det_leader": det_leader,
}
