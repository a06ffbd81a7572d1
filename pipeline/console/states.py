"""The states of a shard, in words, and which of them a shard is in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from headrace.pipeline.console.values import Kin, Severity
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.inspect.findings import DEAD_AFTER, HANDOVER
from headrace.pipeline.inspect.leader_findings import IDLE_AFTER
from headrace.pipeline.inspect.observation import Observation
from headrace.pipeline.inspect.telling import in_words


@dataclass(frozen=True, slots=True)
class ShardState:
    name: str
    """Two or three words, for a legend."""
    words: str
    """What the state means, and what to do where something is to be done."""


STATES: Final[Mapping[str, ShardState]] = {
    "reading": ShardState("read", "A worker owns the lease, and the worker or the lease has moved lately."),
    "assigned": ShardState(
        "assigned", "A worker owns the lease. Whether it is alive shows only once two looks can be compared."
    ),
    "handover": ShardState(
        "handed over",
        "One worker still reads the shard, another is to go on. KCL forces a handover after 40 s, Headrace after 90 s.",
    ),
    "unowned": ShardState(
        "without a worker",
        "The lease has no owner. The leader gives it to a worker, usually within 20 s; KCL 2.x workers take it.",
    ),
    "silent": ShardState(
        "worker is silent",
        "The owner's row and all its leases stand still: the worker is dead, or frozen. Another worker gets the lease "
        "once it expires.",
    ),
    "dropped": ShardState(
        "no longer renewed",
        "The owner renews its other leases, but not this one: its reader hangs, or the worker has given up on it.",
    ),
    "failing": ShardState(
        "failing", "The worker can't read or land the shard, and has written why into the lease row."
    ),
    "waiting": ShardState(
        "waits for parents",
        "The shard is read once the shards that it came from have been read to their ends.",
    ),
    "ended": ShardState("read to its end", "The shard was split or merged, and all its records were read."),
    "no-lease": ShardState(
        "no lease",
        "Kinesis lists the shard, and there is no lease for it. The next shard sync makes one, if records of the shard are "
        "wanted.",
    ),
    "before": ShardState(
        "not needed",
        "Kinesis still lists this closed shard, and its lease is gone or was never made: it was read to its end, or closed "
        "before the application's start.",
    ),
    "orphan": ShardState(
        "orphan lease",
        "The lease isn't at its end, and Kinesis doesn't list its shard any more: what was unread is lost, and a worker that "
        "gets the lease can only fail. Make sure that the stream is the right one; then delete the lease row while no worker "
        "runs, or let the application's own clean-up do so.",
    ),
}


@dataclass(frozen=True, slots=True)
class Judged:
    state: str
    level: Severity
    sentence: str


@dataclass(frozen=True, slots=True)
class Marks:
    """What an observation says about leases, as sets, so that thousands of leases are judged quickly."""

    still: frozenset[str]
    dropped: frozenset[str]
    failing: Mapping[str, str]
    still_unowned: frozenset[str]
    long_handovers: frozenset[str]
    moved: Mapping[str, bool | None]
    watched: timedelta

    @classmethod
    def of(cls, observation: Observation) -> Marks:
        return cls(
            still=frozenset(observation.still),
            dropped=frozenset(observation.dropped),
            failing={failure.lease: failure.why for failure in observation.failing},
            still_unowned=frozenset(observation.still_unowned),
            long_handovers=frozenset(
                handover.lease for handover in observation.pending if handover.all_the_while
            ),
            moved={worker.worker_id: worker.moved for worker in observation.workers},
            watched=observation.watched or timedelta(0),
        )


def without_lease(kin: Kin, leases: Mapping[str, Lease]) -> Judged:
    if kin.is_closed:
        return Judged("before", Severity.GOOD, STATES["before"].words)
    waits = [parent for parent in kin.parents if parent in leases and not leases[parent].has_ended]
    if waits:
        return Judged(
            "waiting", Severity.GOOD, "the shard has no lease yet: its parents are still being read"
        )
    return Judged("no-lease", Severity.WARN, STATES["no-lease"].words)


def state_of(kin: Kin, lease: Lease, leases: Mapping[str, Lease], marks: Marks) -> Judged:
    if lease.has_ended:
        return Judged("ended", Severity.GOOD, STATES["ended"].words)
    # False and not None: while Kinesis couldn't be asked, no lease is called an orphan.
    if kin.is_listed is False:
        return Judged("orphan", Severity.BAD, STATES["orphan"].words)
    if lease.key in marks.failing:
        return Judged("failing", Severity.BAD, f"failing: {marks.failing[lease.key]}")
    if not lease.checkpoint.is_digits and any(
        parent in leases and not leases[parent].has_ended for parent in kin.parents
    ):
        return Judged("waiting", Severity.GOOD, STATES["waiting"].words)
    return _by_owner(lease, marks)


def _by_owner(lease: Lease, marks: Marks) -> Judged:
    holder = lease.holder
    watched = in_words(marks.watched)
    if lease.checkpoint_owner is not None and lease.checkpoint_owner not in marks.still:
        is_long = lease.key in marks.long_handovers and marks.watched >= HANDOVER
        return Judged(
            "handover",
            Severity.BAD if is_long else Severity.NOTE,
            f"{lease.checkpoint_owner} hands it over to {lease.owner or 'no worker yet'}"
            + (f", for more than {watched}" if is_long else ""),
        )
    if holder is None:
        is_long = lease.key in marks.still_unowned and marks.watched >= IDLE_AFTER
        waits = f", for {watched} at least" if lease.key in marks.still_unowned else ""
        return Judged("unowned", Severity.BAD if is_long else Severity.WARN, f"no worker reads it{waits}")
    # Rows are read some seconds apart, and a worker that beats every few seconds may stand still
    # between two looks.
    is_sure = marks.watched >= DEAD_AFTER
    if holder in marks.still and is_sure:
        return Judged("silent", Severity.BAD, f"the shard's worker {holder} has not moved for {watched}")
    if lease.key in marks.dropped and is_sure:
        return Judged(
            "dropped",
            Severity.BAD,
            f"{holder} renews other leases, and hasn't renewed this one for {watched}",
        )
    if marks.moved.get(holder) is None:
        return Judged("assigned", Severity.GOOD, f"assigned to {holder}")
    return Judged("reading", Severity.GOOD, f"read by {holder}")
