"""Why a record is in both outputs: a worker was cut off before its checkpoint. Events and commits go in, causes
come out.

KCL's workers checkpoint after each batch, Headrace's after each commit. A worker that is killed between output and
checkpoint, or whose lease is taken then, leaves a checkpoint that is older than its output, and the next owner reads
from that checkpoint. A record may be in both outputs for no other reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.interop.fleet import Event
from tests.interop.records import Record

_CHECKPOINTS = frozenset({"checkpoint", "shardEnded", "shutdownRequested"})


class Cause(StrEnum):
    """Why a record may be in both outputs."""

    KCL_CUT_OFF = "processed by a KCL worker that was cut off before its checkpoint"
    OURS_CUT_OFF = "landed by a run of Headrace that was cut off before its checkpoint"


Allowed = Mapping[Cause, int]
"""How many records of each cause may be in both outputs of a scenario."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One shard's part of a commit to Headrace's table."""

    at: float
    shard: str
    after: int | None
    upto: int | None
    rows: int = 0
    ended: bool = False

    def has_landed(self, record: Record) -> bool:
        is_before_end = self.upto is not None and record.number <= self.upto
        return (
            record.shard == self.shard
            and is_before_end
            and (self.after is None or record.number > self.after)
        )


@dataclass(frozen=True, slots=True)
class Overlaps:
    """The records in both outputs, by the cause that explains each."""

    explained: Mapping[Cause, tuple[Record, ...]]
    unexplained: tuple[Record, ...]

    def faults(self, allowed: Allowed) -> list[str]:
        """Why the scenario fails if this many records of each cause are allowed, a sentence for each."""
        found = []
        if self.unexplained:
            found.append(f"{len(self.unexplained)} without a known cause, such as {self.unexplained[0]}")
        for cause, records in self.explained.items():
            if len(records) > allowed.get(cause, 0):
                found.append(f"{len(records)} {cause} ({allowed.get(cause, 0)} allowed), as {records[0]}")
        return found

    def __str__(self) -> str:
        counts = [f"{len(records)} {cause}" for cause, records in self.explained.items() if records]
        counts += [f"{len(self.unexplained)} unexplained"] * bool(self.unexplained)
        return ", ".join(counts) or "none"


def explain(both: Iterable[Record], events: Sequence[Event], commits: Sequence[Commit]) -> Overlaps:
    """Each record that is in both outputs, by its cause."""
    explained: dict[Cause, list[Record]] = {cause: [] for cause in Cause}
    unexplained = []
    for record in both:
        of_shard = [event for event in events if event.shard == record.shard]
        commit = next((each for each in commits if each.has_landed(record)), None)
        causes = [_cause(record, number, of_shard, commit) for number in _processed(record, of_shard)]
        if None in causes or not causes:
            unexplained.append(record)
        else:
            explained[next(cause for cause in causes if cause)].append(record)
    return Overlaps({cause: tuple(found) for cause, found in explained.items()}, tuple(unexplained))


def _processed(record: Record, events: Sequence[Event]) -> list[int]:
    return [number for number, event in enumerate(events) if event.record == record]


def _cause(record: Record, number: int, events: Sequence[Event], commit: Commit | None) -> Cause | None:
    """Why a KCL worker processed the record though Headrace's table has it. `number`: the number of that event;
    `events`: those of the shard."""
    if commit is None:
        return None
    processed = events[number]
    acknowledged = _acknowledged(processed.worker, events[number + 1 :])
    if acknowledged is None or processed.at < commit.at < acknowledged:
        return Cause.KCL_CUT_OFF
    began = max(e.at for e in events[:number] if e.kind == "initialize" and e.worker == processed.worker)
    claimed = [n for n, e in enumerate(events) if e.kind == "claimed" and e.at <= commit.at]
    if not claimed:
        return None
    ours = events[claimed[-1]]
    checkpointed = _acknowledged(ours.worker, events[claimed[-1] + 1 :])
    if ours.at < began and (checkpointed is None or began < checkpointed):
        return Cause.OURS_CUT_OFF
    return None


def _acknowledged(worker: str, events: Iterable[Event]) -> float | None:
    """When this worker's next checkpoint was written; None if the worker began to read the shard anew before that,
    or if no later checkpoint was accepted."""
    for event in events:
        if event.worker == worker and event.kind == "initialize":
            return None
        if event.worker == worker and event.kind in _CHECKPOINTS and not event.more:
            return event.at
    return None
