"""Cases of each write on a lease row: the row that the write leaves, the rows that refuse it, and the values that
it leaves alone."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pipeline.core import change
from pipeline.core.change import Change
from pipeline.core.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint
from pipeline.core.failure import Failure
from pipeline.core.lease import Lease
from pipeline.core.shard import HashRange
from pipeline.kcl import writes

Row = dict[str, Any]

KEY = "shardId-000000000007"
AT = Checkpoint("49590338271490256608559692538361571095921575989136588898", 3)
IDLE = Lease(KEY, 5, AT, owner="me", owner_switches=2, stream_epoch=1_700_000_000)
CLAIMED = replace(IDLE, run_claim="run/1")
PENDING = replace(CLAIMED, pending=Checkpoint("150", 1), pending_state=b"state")
HANDING: Row = {"owner": "next", "checkpoint_owner": "me"}
NOON = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
FAILURE = Failure(NOON, "AWS doesn't let this worker read the shard (AccessDeniedException)")
FAILING = replace(CLAIMED, failure=Failure(NOON - timedelta(minutes=3), "the same, three minutes before"))
FURTHER = Checkpoint("49590338271490256608559692538361571095921575989136588999", 0)


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
        allowed_by=({"counter": 77}, {"checkpoint": FURTHER}),
    ),
    "hold what nobody owns": Case(
        change.hold(replace(IDLE, owner=None), "shell/1", "a person decides"),
        replace(IDLE, owner=None),
        {"counter": 6, "run_claim": "shell/1"},
        refused_by=({"owner": "other"}, {"run_claim": "run/1"}),
    ),
    "reposition": Case(
        change.reposition(PENDING, "run/1", at=Checkpoint("7"), landed=Checkpoint("7"), why="a person's"),
        PENDING,
        {
            "counter": 6,
            "checkpoint": Checkpoint("7"),
            "landed": Checkpoint("7"),
            "pending": None,
            "pending_state": None,
        },
        refused_by=({"run_claim": "run/2"}, {"run_claim": None}, {"checkpoint": FURTHER}),
    ),
    "reposition to a start": Case(
        change.reposition(
            replace(CLAIMED, landed=AT), "run/1", at=TRIM_HORIZON, landed=None, why="a person's"
        ),
        replace(CLAIMED, landed=AT),
        {"counter": 6, "checkpoint": TRIM_HORIZON, "landed": None},
        refused_by=({"run_claim": "run/2"}, {"checkpoint": FURTHER}),
    ),
    "claim": Case(
        change.claim(IDLE, "me", "run/2"),
        IDLE,
        {"counter": 6, "run_claim": "run/2"},
        refused_by=(
            {"owner": "other"},
            {"owner": None},
            {"checkpoint_owner": "other"},
            HANDING,
            {"run_claim": "run/1"},
            {"wanted_by": "run/9"},
        ),
        allowed_by=({"counter": 77}, {"checkpoint": FURTHER}),
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
        allowed_by=({"counter": 77}, HANDING),
    ),
    "repair": Case(
        change.repair(CLAIMED, "run/1", FURTHER),
        CLAIMED,
        {"counter": 6, "checkpoint": FURTHER, "landed": FURTHER},
        refused_by=(
            {"owner": "other"},
            {"owner": None},
            {"checkpoint_owner": "other"},
            {"run_claim": None},
            {"run_claim": "run/2"},
            {"checkpoint": Checkpoint(AT.sequence, 4)},
            {"checkpoint": Checkpoint("100", 3)},
            {"checkpoint": SHARD_END},
        ),
        allowed_by=({"counter": 77}, HANDING),
    ),
    "checkpoint": Case(
        change.checkpoint(PENDING, "me", "run/1", at=FURTHER, throughput_kbps=12.345678),
        PENDING,
        {
            "counter": 6,
            "checkpoint": FURTHER,
            "landed": FURTHER,
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
            {"checkpoint": Checkpoint(AT.sequence, 4)},
            {"checkpoint": Checkpoint("100", 3)},
        ),
        allowed_by=({"counter": 77}, HANDING),
    ),
    "checkpoint of an end": Case(
        change.checkpoint(CLAIMED, "me", "run/1", at=SHARD_END),
        CLAIMED,
        {"counter": 6, "checkpoint": SHARD_END, "landed": SHARD_END, "owner_switches": 0},
        refused_by=({"run_claim": None}, {"checkpoint": SHARD_END}),
    ),
    "release": Case(
        change.release(CLAIMED, "run/1", looked_at=NOON, behind_ms=0),
        CLAIMED,
        {"run_claim": None, "looked_at": NOON, "behind_ms": 0},
        refused_by=({"run_claim": None}, {"run_claim": "run/2"}),
        allowed_by=({"counter": 77}, {"owner": "other"}, HANDING, {"wanted_by": "run/9"}),
    ),
    "release of a shard that failed": Case(
        change.release(CLAIMED, "run/1", failure=FAILURE),
        CLAIMED,
        {"run_claim": None, "failure": FAILURE},
        refused_by=({"run_claim": None}, {"run_claim": "run/2"}),
        allowed_by=({"counter": 77}, {"owner": "other"}, HANDING, {"looked_at": NOON, "behind_ms": 5}),
    ),
    "release of a shard that was read well after a failure": Case(
        change.release(FAILING, "run/1", looked_at=NOON, behind_ms=0, is_well=True),
        FAILING,
        {"run_claim": None, "looked_at": NOON, "behind_ms": 0, "failure": None},
        refused_by=({"run_claim": None}, {"run_claim": "run/2"}),
        allowed_by=({"counter": 77}, HANDING),
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
            change.checkpoint(PENDING, "me", "run/1", at=FURTHER, throughput_kbps=12.345678),
            change.release(PENDING, "run/1", looked_at=NOON, behind_ms=7),
        ),
        PENDING,
        {
            "counter": 6,
            "checkpoint": FURTHER,
            "landed": FURTHER,
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
            {"checkpoint": Checkpoint(AT.sequence, 4)},
            {"checkpoint": Checkpoint("100", 3)},
        ),
        allowed_by=({"counter": 77}, HANDING, {"wanted_by": "run/9"}),
    ),
    "checkpoint and release after a failure": Case(
        change.checkpoint_and_release(
            change.checkpoint(FAILING, "me", "run/1", at=FURTHER),
            change.release(FAILING, "run/1", is_well=True),
        ),
        FAILING,
        {
            "counter": 6,
            "checkpoint": FURTHER,
            "landed": FURTHER,
            "owner_switches": 0,
            "run_claim": None,
            "failure": None,
        },
        refused_by=({"run_claim": None}, {"checkpoint": FURTHER}),
    ),
    "note failure": Case(
        change.note_failure(IDLE, "me", FAILURE.why, at=FAILURE.since + timedelta(microseconds=7)),
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
        allowed_by=({"counter": 77}, HANDING, {"wanted_by": "run/9"}, {"checkpoint": FURTHER}),
    ),
    "want": Case(
        change.want(CLAIMED, "run/2"),
        CLAIMED,
        {"wanted_by": "run/2"},
        refused_by=({"wanted_by": "run/9"},),
        allowed_by=({"counter": 77}, {"run_claim": None}, HANDING),
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
        allowed_by=({"run_claim": "run/2"}, {"checkpoint": FURTHER}),
    ),
    "assign of an orphan": Case(
        change.assign(replace(IDLE, owner=None), "you", "orphan"),
        replace(IDLE, owner=None),
        {"counter": 6, "owner": "you"},
        refused_by=({"owner": "other"}, {"checkpoint_owner": "other"}, {"counter": 4}),
        allowed_by=({"checkpoint": FURTHER},),
    ),
    "assign, stamped": Case(
        change.move(CLAIMED, "you", "more to read", at=NOON + timedelta(microseconds=7)),
        CLAIMED,
        {"counter": 6, "owner": "you", "run_claim": None, "owner_switches": 3, "assigned_at": NOON},
        refused_by=({"owner": "other"}, {"checkpoint_owner": "other"}, {"counter": 6}),
        allowed_by=({"run_claim": "run/2"}, {"assigned_at": NOON}),
    ),
    "initiate handover": Case(
        change.initiate_handover(CLAIMED, "you", "more to read", at=NOON),
        CLAIMED,
        {"owner": "you", "checkpoint_owner": "me", "assigned_at": NOON},
        refused_by=({"owner": None}, {"owner": "other"}, {"checkpoint_owner": "other"}),
        allowed_by=({"counter": 77}, {"run_claim": "run/2"}, {"checkpoint": FURTHER}),
    ),
    "redirect handover": Case(
        change.redirect_handover(replace(CLAIMED, **HANDING), "third", "the next owner died"),
        replace(CLAIMED, **HANDING),
        {"owner": "third"},
        refused_by=({"owner": "other"}, {"checkpoint_owner": None}, {"checkpoint_owner": "other"}),
        allowed_by=({"counter": 77}, {"run_claim": "run/2"}),
    ),
    "complete handover": Case(
        change.complete_handover(replace(CLAIMED, **HANDING), "its wave is over"),
        replace(CLAIMED, **HANDING),
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
        change.prepare_checkpoint(CLAIMED, "me", "run/1", at=FURTHER, state=b"half way"),
        CLAIMED,
        {"counter": 6, "pending": FURTHER, "pending_state": b"half way"},
        refused_by=(
            {"owner": "other"},
            {"run_claim": None},
            {"run_claim": "run/2"},
            {"checkpoint": Checkpoint("100", 3)},
        ),
        allowed_by=({"counter": 77}, HANDING),
    ),
    "prepare again, without a state": Case(
        change.prepare_checkpoint(PENDING, "me", "run/1", at=FURTHER),
        PENDING,
        {"counter": 6, "pending": FURTHER, "pending_state": None},
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
        change.give_up(replace(CLAIMED, **HANDING), "me"),
        replace(CLAIMED, **HANDING),
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
        refused_by=({"counter": 6}, {"checkpoint": AT}),
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
        allowed_by=({"checkpoint": FURTHER},),
    ),
    "KCL's renewal": Case(
        writes.renew(IDLE, throughput_kbps=12.5),
        IDLE,
        {"counter": 6, "throughput_kbps": 12.5},
        refused_by=({"counter": 6}, HANDING),
        allowed_by=({"owner": "other"}, {"checkpoint": FURTHER}),
    ),
    "KCL's renewal in a known handover": Case(
        writes.renew(replace(IDLE, **HANDING)),
        replace(IDLE, **HANDING),
        {"counter": 6},
        refused_by=({"counter": 6},),
        allowed_by=({"checkpoint_owner": None}, {"owner": "third"}),
    ),
    "KCL's checkpoint": Case(
        writes.checkpoint(PENDING, FURTHER),
        PENDING,
        {"counter": 6, "checkpoint": FURTHER, "owner_switches": 0, "pending": None, "pending_state": None},
        refused_by=({"counter": 6},),
        allowed_by=(HANDING, {"run_claim": "run/2"}),
    ),
    "KCL's prepare": Case(
        writes.prepare(IDLE, FURTHER, state=b"x"),
        IDLE,
        {"counter": 6, "pending": FURTHER, "pending_state": b"x"},
        refused_by=({"counter": 6},),
        allowed_by=(HANDING, {"owner_switches": 9}),
    ),
    "KCL's assign": Case(
        writes.assign(IDLE, "you", "more to read"),
        IDLE,
        {"counter": 6, "owner": "you", "owner_switches": 3},
        refused_by=({"owner": None}, {"owner": "other"}, {"checkpoint_owner": "other"}),
        allowed_by=({"counter": 77}, {"checkpoint": FURTHER}),
    ),
    "KCL's evict": Case(
        writes.evict(IDLE, "too much to do"),
        IDLE,
        {"counter": 6, "owner": None},
        refused_by=({"owner": None}, {"owner": "other"}, {"checkpoint_owner": "other"}),
        allowed_by=({"counter": 77},),
    ),
    "KCL's evict in a handover": Case(
        writes.evict(replace(IDLE, **HANDING), "too much to do"),
        replace(IDLE, **HANDING),
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
