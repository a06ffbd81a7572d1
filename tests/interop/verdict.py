"""What must hold for the outputs of all workers, and how long things took, worked out from the workers' events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tests.interop.fleet import Event
from tests.interop.records import Record


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came out of a scenario, compared with what was put."""

    put: int
    missing: tuple[Record, ...]
    """Records that were put and came out on neither side."""
    unknown: tuple[Record, ...]
    """Records that came out, though Kinesis took no record with this payload in this shard at this sequence number."""
    ours_doubled: tuple[Record, ...]
    """Records that Headrace landed twice. There must be none."""
    kcl_doubled: int
    """Records that KCL processed twice. KCL promises to process every record at least once."""
    both: tuple[Record, ...]
    """Records that Headrace landed and KCL processed. `overlaps.py` finds out why."""

    @property
    def holds(self) -> bool:
        return bool(self.put) and not self.missing and not self.unknown and not self.ours_doubled

    def __str__(self) -> str:
        counts = f"{self.put} records put, {len(self.missing)} missing, {len(self.ours_doubled)} landed twice by Headrace"
        wrong = self.unknown[:1]
        misplaced = f", {len(self.unknown)} that Kinesis never took, such as {wrong[0]}" if wrong else ""
        return f"{counts}{misplaced}, {self.kcl_doubled} processed twice by KCL, {len(self.both)} by both"


def judge(put: Collection[Record], events: Iterable[Event], ours: Sequence[Record] = ()) -> Verdict:
    """Judge. `put`: the records that Kinesis took; `ours`: those that Headrace landed. Shard, sequence number and
    payload have to agree."""
    by_kcl = Counter(event.record for event in events if event.record is not None)
    by_us = Counter(ours)
    return Verdict(
        put=len(put),
        missing=tuple(sorted(set(put) - set(by_kcl) - set(by_us))),
        unknown=tuple(sorted((set(by_kcl) | set(by_us)) - set(put))),
        ours_doubled=tuple(sorted(record for record, times in by_us.items() if times > 1)),
        kcl_doubled=sum(times - 1 for times in by_kcl.values()),
        both=tuple(sorted(set(by_kcl) & set(by_us))),
    )


def readers(events: Iterable[Event]) -> dict[str, str]:
    """Which worker processed or landed the last record of each shard, and hasn't ended or lost the shard: worker by
    shard."""
    found: dict[str, str] = {}
    for event in events:
        if event.kind in {"record", "landed"}:
            found[event.shard] = event.worker
        elif event.kind == "initialize" and found.get(event.shard) != event.worker:
            found.pop(event.shard, None)  # the worker may have begun a shard that it can't read
        elif event.kind in {"leaseLost", "shardEnded"} and found.get(event.shard) == event.worker:
            del found[event.shard]
    return found


def read_again(events: Sequence[Event], dead: str, at: float) -> dict[str, float]:
    """For each shard of a dead worker, the seconds until another worker processed or landed a record of it, or its
    end."""
    left = [shard for shard, worker in readers(e for e in events if e.at <= at).items() if worker == dead]
    found: dict[str, float] = {}
    for event in events:
        if event.at > at and event.worker != dead and event.shard in left and _is_read(event):
            found.setdefault(event.shard, event.at - at)
    return found


def hand_overs(events: Sequence[Event]) -> list[tuple[str, str, str, float]]:
    """The handovers that KCL asked for: shard, old worker, new worker, and the seconds from the old worker's
    shutdown request to the new worker's first record."""
    found = []
    stopping: set[str] = (
        set()
    )  # a worker that ends gets a shutdown request for all its shards, and hands none over
    for number, event in enumerate(events):
        if event.kind == "stopping":
            stopping.add(event.worker)
        if event.kind != "shutdownRequested" or event.worker in stopping:
            continue
        later = (e for e in events[number:] if e.shard == event.shard and _is_read(e))
        read = next((e for e in later if e.worker != event.worker), None)
        if read is not None:
            found.append((event.shard, event.worker, read.worker, read.at - event.at))
    return found


def _is_read(event: Event) -> bool:
    """A claim or a lease proves no reading. Only a record that came out does, or the end of a shard without further
    records."""
    return event.kind in {"record", "landed", "shardEnded"}
