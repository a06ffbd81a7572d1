"""Cases of shard sync and of the auditor."""

from typing import Any

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END, Checkpoint
from headrace.pipeline.core.shards.shard import HashRange, Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId, epoch_of_serialized, lease_key
from headrace.pipeline.errors import BadSetting, WrongShape
from headrace.pipeline.kcl import auditor, missing_leases
from tests.vectors.rules import prioritize
from tests.vectors.rules.shard_filter import shard_filter


def _range(pair: Any) -> HashRange:
    return HashRange(int(pair[0]), int(pair[1]))


def _listed(shard: Any) -> missing_leases.Listed:
    one = Shard(
        shard["id"],
        tuple(shard.get("parents") or ()),
        hash_range=None if shard.get("hash") is None else _range(shard["hash"]),
        closed=shard.get("end") is not None,
    )
    return missing_leases.Listed(one, int(shard["start"]))


def _starts(leases: tuple[Lease, ...]) -> dict[str, str]:
    return {lease.key: lease.checkpoint.sequence for lease in leases}


def _synced(case: Any, shards: Any) -> dict[str, str]:
    leases = missing_leases.plan_missing_leases(
        map(_listed, shards),
        case.get("leases") or (),
        initial=Checkpoint(case.get("initial_position", "LATEST")),
        passed_over=case.get("inconsistent") or (),
    )
    return _starts(leases)


def sync_nonempty(case: Any, expected: Any, graphs: Any) -> Any:
    return _synced(case, graphs[case["graph"]])


def sync_custom(case: Any, expected: Any, graphs: Any) -> Any:
    return _synced(case, case["shards"])


def sync_empty(case: Any, expected: Any, graphs: Any) -> Any:
    initial = Checkpoint(case["initial_position"])
    if case.get("filter") not in {None, shard_filter(initial)}:
        return {"filter": shard_filter(initial)}
    listed = [shard for shard in graphs[case["graph"]] if shard["id"] in case["filtered_shards"]]
    return _starts(missing_leases.plan_first_sync(map(_listed, listed), initial))


def sync_tiles(case: Any, expected: Any, graphs: Any) -> Any:
    return missing_leases.tiles(map(_range, case["ranges"]))


def sync_inconsistent(case: Any, expected: Any, graphs: Any) -> Any:
    reopened = [
        {**shard, "end": None} if shard["id"] in (case.get("open") or ()) else shard
        for shard in graphs[case["graph"]]
    ]
    found = missing_leases.inconsistent(_listed(shard).shard for shard in reopened)
    strict = found and not case.get("ignore", False)
    created = None if strict else _synced({**case, "inconsistent": found}, reopened)
    if isinstance(expected.get("created"), list) and created is not None:
        return {"inconsistent": sorted(found), "created": list(created)}
    return {"inconsistent": sorted(found), "created": created}


def hole(case: Any, expected: Any, graphs: Any) -> Any:
    found = auditor.find_hole(map(_range, case["ranges"]))
    if found is None:
        return None
    sides = [[str(side.start), str(side.end)] for side in (found.before, found.after) if side is not None]
    return sides or [None] * len(expected or ())  # a hole of all hash keys has no ranges beside it


def audit(case: Any, expected: Any, graphs: Any) -> Any:
    answers, remembered = [], auditor.SeenHole()
    for run in case["runs"]:
        leases = [
            Lease(
                f"shardId-{number}",
                # A lease without a checkpoint counts as inactive, as one with SHARD_END does.
                checkpoint=Checkpoint(row.get("checkpoint") or SHARD_END.sequence),
                hash_range=None if row.get("hash") is None else _range(row["hash"]),
            )
            for number, row in enumerate(run)
        ]
        verdict = auditor.audit(leases, remembered, confidence=case.get("threshold", auditor.CONFIDENCE))
        answers.append(verdict.sync)
        remembered = verdict.remembered
    return answers


def parents_first(case: Any, expected: Any, graphs: Any) -> Any:
    parents = {shard_id: shard.get("parents") or () for shard_id, shard in case["shards"].items()}
    done = [shard_id for shard_id, shard in case["shards"].items() if shard.get("done")]
    try:
        order = prioritize.prioritize(parents, done, max_depth=case.get("max_depth", 2**31 - 1))
        depth = prioritize.depths(parents, done)
    except (BadSetting, WrongShape):
        return "error"
    return {shard_id: depth[shard_id] for shard_id in order} if isinstance(expected, dict) else list(order)


def stream_id(case: Any, expected: Any, graphs: Any) -> Any:
    return epoch_of_serialized(case["text"]) is not None


def key_of_lease(case: Any, expected: Any, graphs: Any) -> Any:
    if not case.get("stream"):
        anywhere = StreamId("arn:aws:kinesis:us-east-1:000000000000:stream/any", 1)
        return lease_key(ShardKey(anywhere, case["shard"]), multi=False)
    account, name, epoch = case["stream"].split(":")
    stream = StreamId(f"arn:aws:kinesis:us-east-1:{account}:stream/{name}", int(epoch))
    return lease_key(ShardKey(stream, case["shard"]), multi=True)


FORMS = {
    "sync_nonempty": sync_nonempty,
    "sync_custom": sync_custom,
    "sync_empty": sync_empty,
    "sync_tiles": sync_tiles,
    "sync_inconsistent": sync_inconsistent,
    "hole": hole,
    "auditor": audit,
    "parents_first": parents_first,
    "stream_id": stream_id,
    "lease_key": key_of_lease,
}
