"""Cases of each write on a lease row: the row that the write leaves, the rows that refuse it, and the values that
it leaves alone."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.kcl import writes
from tests.vectors.rules import row_writes

Row = dict[str, Any]

KEY = "shardId-000000000007"
CHECKPOINT = Checkpoint("49590338271490256608559692538361571095921575989136588898", 3)
IDLE = Lease(KEY, 5, CHECKPOINT, owner="me", owner_switches=2, stream_epoch=1_700_000_000)
CLAIMED = replace(IDLE, run_claim="run/1")
PENDING = replace(CLAIMED, pending=Checkpoint("150", 1), pending_state=b"state")
IN_HANDOVER: Row = {"owner": "next", "checkpoint_owner": "me"}
NOON = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
FAILURE = Failure(NOON, "AWS doesn't let this worker read the shard (AccessDeniedException)")
FAILING = replace(CLAIMED, failure=Failure(NOON - timedelta(minutes=3), "an error of three minutes before"))
FURTHER_CHECKPOINT = Checkpoint("49590338271490256608559692538361571095921575989136588999", 0)


@dataclass(frozen=True)
class Case:
    """A change, the row that it was decided on, and the row that it leaves."""

    change: Change
    read: Lease
    becomes: Row | None
    """None if the change deletes the row."""
    refused_by: tuple[Row, ...]
    allowed_by: tuple[Row, ...] = field(default=({"counter": 77}, {"throughput_kbps": 1.5}))


CASES = {
    "hold": Case(
        change.hold(replace(IDLE, wanted_by="shell/1"), "shell/1", "a person decides"),
        replace(IDLE, wanted_by="shell/1"),
        {"counter": 6, "run_claim": "shell/1", "wanted_by": None},
        refused_by=(
            {"owner": "other"},
            {"owner": None},
            {"checkpoint_owner": "other"},
            {"run_claim": "run/1"},
            {"wanted_by": "run/9"},
        ),
        allowed_by=({"counter": 77}, {"checkpoint": FURTHER_CHECKPOINT}),
    ),
    "hold what nobody owns": Case(
        change.hold(replace(IDLE, owner=None), "shell/1", "a person decides"),
        replace(IDLE, owner=None),
        {"counter": 6, "run_claim": "shell/1"},
        refused_by=({"owner": "other"}, {"run_claim": "run/1"}),
    ),
    "reposition": Case(
        change.reposition(PENDING, "run/1", place=Checkpoint("7"), landed=Checkpoint("7"), why="a person's"),
        PENDING,
        {
            "counter": 6,
            "checkpoint": Checkpoint("7"),
            "landed": Checkpoint("7"),
            "pending": None,
            "pending_state": None,
        },
        refused_by=({"run_claim": "run/2"}, {"run_claim": None}, {"checkpoint": FURTHER_CHECKPOINT}),
    ),
    "reposition to a start": Case(
        change.reposition(
            replace(CLAIMED, landed=CHECKPOINT), "run/1", place=TRIM_HORIZON, landed=None, why="a person's"
        ),
        replace(CLAIMED, landed=CHECKPOINT),
        {"counter": 6, "checkpoint": TRIM_HORIZON, "landed": None},
        refused_by=({"run_claim": "run/2"}, {"checkpoint": FURTHER_CHECKPOINT}),
    ),
    "claim": Case(
        change.claim(IDLE, "me", "run/2"),
        IDLE,
        {"counter": 6, "run_claim": "run/2"},
        refused_by=(
            {"owner": "other"},
            {"owner": None},
            {"checkpoint_owner": "other"},
            IN_HANDOVER,
            {"run_claim": "run/1"},
            {"wanted_by": "run/9"},
        ),
        allowed_by=({"counter": 77}, {"checkpoint": FURTHER_CHECKPOINT}),
    ),
    "claim after a run that is over": Case(
        change.claim(replace(IDLE, run_claim="old/1", wanted_by="old/1"), "me", "run/2", over=True),
        replace(IDLE, run_claim="old/1", wanted_by="old/1"),
        {"counter": 6, "run_claim": "run/2", "wanted_by": None},
        refused_by=({"wanted_by": None}, {"wanted_by": "run/9"}, {"run_claim": None}, {"run_claim": "run/9"}),
    ),
    "beat": Case(
        change.beat(CLAIMED, "me"),
        CLAIMED,
        {"counter": 6},
        refused_by=(
            {"owner": "other"},
            {"owner": None},
            {"checkpoint_owner": "other"},
            {"run_claim": None},
            {"run_claim": "run/2"},
        ),
        allowed_by=({"counter": 77}, IN_HANDOVER),
    ),
    "repair": Case(
        change.repair(CLAIMED, "run/1", FURTHER_CHECKPOINT),
        CLAIMED,
        {"counter": 6, "checkpoint": FURTHER_CHECKPOINT, "landed": FURTHER_CHECKPOINT},
        refused_by=(
            {"owner": "other"},
            {"owner": None},
            {"checkpoint_owner": "other"},
            {"run_claim": None},
            {"run_claim": "run/2"},
            {"checkpoint": Checkpoint(CHECKPOINT.sequence, 4)},
            {"checkpoint": Checkpoint("100", 3)},
            {"checkpoint": SHARD_END},
        ),
        allowed_by=({"counter": 77}, IN_HANDOVER),
    ),
    "checkpoint": Case(
        change.checkpoint(PENDING, "me", "run/1", upto=FURTHER_CHECKPOINT, throughput_kbps=12.345678),
        PENDING,
        {
            "counter": 6,
            "checkpoint": FURTHER_CHECKPOINT,
            "landed": FURTHER_CHECKPOINT,
            "owner_switches": 0,
            "throughput_kbps": 12.345678,
            "pending": None,
            "pending_state": None,
        },
        refused_by=(
            {"owner": "other"},
            {"owner": None},
            {"checkpoint_owner": "other"},
            {"owner": "me", "checkpoint_owner": "other"},
            {"run_claim": None},
            {"run_claim": "run/2"},
            {"checkpoint": Checkpoint(CHECKPOINT.sequence, 4)},
            {"checkpoint": Checkpoint("100", 3)},
        ),
        allowed_by=({"counter": 77}, IN_HANDOVER),
    ),
    "checkpoint of an end": Case(
        change.checkpoint(CLAIMED, "me", "run/1", upto=SHARD_END),
        CLAIMED,
        {"counter": 6, "checkpoint": SHARD_END, "landed": SHARD_END, "owner_switches": 0},
        refused_by=({"run_claim": None}, {"checkpoint": SHARD_END}),
    ),
    "release": Case(
        change.release(CLAIMED, "run/1", looked_at=NOON, behind_ms=0),
        CLAIMED,
        {"run_claim": None, "looked_at": NOON, "behind_ms": 0},
        refused_by=({"run_claim": None}, {"run_claim": "run/2"}),
        allowed_by=({"counter": 77}, {"owner": "other"}, IN_HANDOVER, {"wanted_by": "run/9"}),
    ),
    "release of a shard that failed": Case(
        change.release(CLAIMED, "run/1", failure=FAILURE),
        CLAIMED,
        {"run_claim": None, "failure": FAILURE},
        refused_by=({"run_claim": None}, {"run_claim": "run/2"}),
        allowed_by=({"counter": 77}, {"owner": "other"}, IN_HANDOVER, {"looked_at": NOON, "behind_ms": 5}),
    ),
    "release of a shard that was read well after a failure": Case(
        change.release(FAILING, "run/1", looked_at=NOON, behind_ms=0, is_well=True),
        FAILING,
        {"run_claim": None, "looked_at": NOON, "behind_ms": 0, "failure": None},
        refused_by=({"run_claim": None}, {"run_claim": "run/2"}),
        allowed_by=({"counter": 77}, IN_HANDOVER),
    ),
    "release that tells nothing of a failure": Case(
        change.release(FAILING, "run/1"),
        FAILING,
        {"run_claim": None},
        refused_by=({"run_claim": None},),
        allowed_by=({"failure": None},),
    ),
    "checkpoint and release": Case(
        change.checkpoint_and_release(
            change.checkpoint(PENDING, "me", "run/1", upto=FURTHER_CHECKPOINT, throughput_kbps=12.345678),
            change.release(PENDING, "run/1", looked_at=NOON, behind_ms=7),
        ),
        PENDING,
        {
            "counter": 6,
            "checkpoint": FURTHER_CHECKPOINT,
            "landed": FURTHER_CHECKPOINT,
            "owner_switches": 0,
            "throughput_kbps": 12.345678,
            "pending": None,
            "pending_state": None,
            "run_claim": None,
            "looked_at": NOON,
            "behind_ms": 7,
        },
        refused_by=(
            {"owner": "other"},
            {"owner": None},
            {"checkpoint_owner": "other"},
            {"run_claim": None},
            {"run_claim": "run/2"},
            {"checkpoint": Checkpoint(CHECKPOINT.sequence, 4)},
            {"checkpoint": Checkpoint("100", 3)},
        ),
        allowed_by=({"counter": 77}, IN_HANDOVER, {"wanted_by": "run/9"}),
    ),
    "checkpoint and release after a failure": Case(
        change.checkpoint_and_release(
            change.checkpoint(FAILING, "me", "run/1", upto=FURTHER_CHECKPOINT),
            change.release(FAILING, "run/1", is_well=True),
        ),
        FAILING,
        {
            "counter": 6,
            "checkpoint": FURTHER_CHECKPOINT,
            "landed": FURTHER_CHECKPOINT,
            "owner_switches": 0,
            "run_claim": None,
            "failure": None,
        },
        refused_by=({"run_claim": None}, {"checkpoint": FURTHER_CHECKPOINT}),
    ),
    "note failure": Case(
        change.note_failure(IDLE, "me", FAILURE.why, when=FAILURE.since + timedelta(microseconds=7)),
        IDLE,
        {"failure": FAILURE},
        refused_by=(
            {"owner": "other"},
            {"owner": None},
            {"checkpoint_owner": "other"},
            {"run_claim": "run/1"},
            {"stream_epoch": 1_700_000_001},
            {"failure": Failure(FAILURE.since - timedelta(hours=1), "for longer")},
        ),
        allowed_by=({"counter": 77}, IN_HANDOVER, {"wanted_by": "run/9"}, {"checkpoint": FURTHER_CHECKPOINT}),
    ),
    "want": Case(
        change.want(CLAIMED, "run/2"),
        CLAIMED,
        {"wanted_by": "run/2"},
        refused_by=({"wanted_by": "run/9"},),
        allowed_by=({"counter": 77}, {"run_claim": None}, IN_HANDOVER),
    ),
    "want in place of a run that is over": Case(
        change.want(replace(CLAIMED, wanted_by="old/1"), "run/2"),
        replace(CLAIMED, wanted_by="old/1"),
        {"wanted_by": "run/2"},
        refused_by=({"wanted_by": None}, {"wanted_by": "run/9"}),
    ),
    "take over": Case(
        change.assign(CLAIMED, "you", "its worker died"),
        CLAIMED,
        {"counter": 6, "owner": "you", "run_claim": None, "owner_switches": 3},
        refused_by=({"owner": None}, {"owner": "other"}, {"checkpoint_owner": "other"}, {"counter": 6}),
        allowed_by=({"run_claim": "run/2"}, {"checkpoint": FURTHER_CHECKPOINT}),
    ),
    "assign of an orphan": Case(
        change.assign(replace(IDLE, owner=None), "you", "orphan"),
        replace(IDLE, owner=None),
        {"counter": 6, "owner": "you"},
        refused_by=({"owner": "other"}, {"checkpoint_owner": "other"}, {"counter": 4}),
        allowed_by=({"checkpoint": FURTHER_CHECKPOINT},),
    ),
    "assign, stamped": Case(
        change.move(CLAIMED, "you", "more to read", when=NOON + timedelta(microseconds=7)),
        CLAIMED,
        {"counter": 6, "owner": "you", "run_claim": None, "owner_switches": 3, "assigned_at": NOON},
        refused_by=({"owner": "other"}, {"checkpoint_owner": "other"}, {"counter": 6}),
        allowed_by=({"run_claim": "run/2"}, {"assigned_at": NOON}),
    ),
    "initiate handover": Case(
        change.initiate_handover(CLAIMED, "you", "more to read", when=NOON),
        CLAIMED,
        {"owner": "you", "checkpoint_owner": "me", "assigned_at": NOON},
        refused_by=({"owner": None}, {"owner": "other"}, {"checkpoint_owner": "other"}),
        allowed_by=({"counter": 77}, {"run_claim": "run/2"}, {"checkpoint": FURTHER_CHECKPOINT}),
    ),
    "redirect handover": Case(
        change.redirect_handover(replace(CLAIMED, **IN_HANDOVER), "third", "the next owner died"),
        replace(CLAIMED, **IN_HANDOVER),
        {"owner": "third"},
        refused_by=({"owner": "other"}, {"checkpoint_owner": None}, {"checkpoint_owner": "other"}),
        allowed_by=({"counter": 77}, {"run_claim": "run/2"}),
    ),
    "complete handover": Case(
        change.complete_handover(replace(CLAIMED, **IN_HANDOVER), "its wave is over"),
        replace(CLAIMED, **IN_HANDOVER),
        {"counter": 6, "checkpoint_owner": None, "run_claim": None},
        refused_by=(
            {"owner": "other"},
            {"checkpoint_owner": None},
            {"checkpoint_owner": "other"},
            {"run_claim": None},
            {"run_claim": "run/2"},
        ),
    ),
    "prepare": Case(
        change.prepare_checkpoint(CLAIMED, "me", "run/1", upto=FURTHER_CHECKPOINT, state=b"half way"),
        CLAIMED,
        {"counter": 6, "pending": FURTHER_CHECKPOINT, "pending_state": b"half way"},
        refused_by=(
            {"owner": "other"},
            {"run_claim": None},
            {"run_claim": "run/2"},
            {"checkpoint": Checkpoint("100", 3)},
        ),
        allowed_by=({"counter": 77}, IN_HANDOVER),
    ),
    "prepare again, without a state": Case(
        change.prepare_checkpoint(PENDING, "me", "run/1", upto=FURTHER_CHECKPOINT),
        PENDING,
        {"counter": 6, "pending": FURTHER_CHECKPOINT, "pending_state": None},
        refused_by=({"run_claim": "run/2"},),
    ),
    "give up": Case(
        change.give_up(CLAIMED, "me"),
        CLAIMED,
        {"counter": 6, "owner": None, "run_claim": None},
        refused_by=(
            {"owner": "other"},
            {"owner": None},
            {"checkpoint_owner": "other"},
            {"run_claim": "run/2"},
            {"run_claim": None},
        ),
    ),
    "give up during a handover": Case(
        change.give_up(replace(CLAIMED, **IN_HANDOVER), "me"),
        replace(CLAIMED, **IN_HANDOVER),
        {"counter": 6, "owner": None, "checkpoint_owner": None, "run_claim": None},
        refused_by=({"checkpoint_owner": None}, {"checkpoint_owner": "other"}),
    ),
    "note children": Case(
        change.note_children(CLAIMED, frozenset({"shardId-000000000008", "shardId-000000000009"})),
        CLAIMED,
        {"children": frozenset({"shardId-000000000008", "shardId-000000000009"})},
        refused_by=({"owner": "other"}, {"run_claim": "other/1"}, {"run_claim": None}, {"stream_epoch": 9}),
        allowed_by=({"counter": 99}, {"children": frozenset({"shardId-x"})}),
    ),
    "retire": Case(
        change.retire(CLAIMED, "the stream was made again"),
        CLAIMED,
        None,
        refused_by=({"stream_epoch": None}, {"stream_epoch": 1_700_000_001}),
        allowed_by=({"owner": "other"}, {"counter": 6}),
    ),
    "delete of an ended one": Case(
        change.delete_ended(replace(IDLE, checkpoint=SHARD_END), "its children are past their start"),
        replace(IDLE, checkpoint=SHARD_END),
        None,
        refused_by=({"counter": 6}, {"checkpoint": CHECKPOINT}),
        allowed_by=({"owner": "other"},),
    ),
    "delete of garbage": Case(
        change.delete_garbage(IDLE, "Kinesis doesn't know the shard"),
        IDLE,
        None,
        refused_by=(
            {"owner": "other"},
            {"checkpoint": SHARD_END},
            {"run_claim": "run/9"},
            {"stream_epoch": 1_700_000_001},
        ),
        allowed_by=({"counter": 6},),
    ),
    "KCL's take": Case(
        writes.take(IDLE, "you"),
        IDLE,
        {"counter": 6, "owner": "you", "owner_switches": 3},
        refused_by=({"counter": 6}, {"counter": 4}),
        allowed_by=({"checkpoint": FURTHER_CHECKPOINT},),
    ),
    "KCL's renewal": Case(
        row_writes.renew(IDLE, throughput_kbps=12.5),
        IDLE,
        {"counter": 6, "throughput_kbps": 12.5},
        refused_by=({"counter": 6}, IN_HANDOVER),
        allowed_by=({"owner": "other"}, {"checkpoint": FURTHER_CHECKPOINT}),
    ),
    "KCL's renewal in a known handover": Case(
        row_writes.renew(replace(IDLE, **IN_HANDOVER)),
        replace(IDLE, **IN_HANDOVER),
        {"counter": 6},
        refused_by=({"counter": 6},),
        allowed_by=({"checkpoint_owner": None}, {"owner": "third"}),
    ),
    "KCL's checkpoint": Case(
        row_writes.kcl_checkpoint(PENDING, FURTHER_CHECKPOINT),
        PENDING,
        {
            "counter": 6,
            "checkpoint": FURTHER_CHECKPOINT,
            "owner_switches": 0,
            "pending": None,
            "pending_state": None,
        },
        refused_by=({"counter": 6},),
        allowed_by=(IN_HANDOVER, {"run_claim": "run/2"}),
    ),
    "KCL's prepare": Case(
        row_writes.kcl_prepare(IDLE, FURTHER_CHECKPOINT, state=b"x"),
        IDLE,
        {"counter": 6, "pending": FURTHER_CHECKPOINT, "pending_state": b"x"},
        refused_by=({"counter": 6},),
        allowed_by=(IN_HANDOVER, {"owner_switches": 9}),
    ),
    "KCL's assign": Case(
        row_writes.kcl_assign(IDLE, "you", "more to read"),
        IDLE,
        {"counter": 6, "owner": "you", "owner_switches": 3},
        refused_by=({"owner": None}, {"owner": "other"}, {"checkpoint_owner": "other"}),
        allowed_by=({"counter": 77}, {"checkpoint": FURTHER_CHECKPOINT}),
    ),
    "KCL's evict": Case(
        row_writes.evict(IDLE, "too much to do"),
        IDLE,
        {"counter": 6, "owner": None},
        refused_by=({"owner": None}, {"owner": "other"}, {"checkpoint_owner": "other"}),
        allowed_by=({"counter": 77},),
    ),
    "KCL's evict in a handover": Case(
        row_writes.evict(replace(IDLE, **IN_HANDOVER), "too much to do"),
        replace(IDLE, **IN_HANDOVER),
        {"counter": 6, "checkpoint_owner": None},
        refused_by=({"owner": "other"}, {"checkpoint_owner": None}),
    ),
    "KCL's hash range": Case(
        writes.note_hash_range(IDLE, HashRange(0, 9)),
        IDLE,
        {"hash_range": HashRange(0, 9)},
        refused_by=(),
        allowed_by=({"owner": "other"}, {"counter": 77}),
    ),
}
