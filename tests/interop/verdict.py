"""What must hold over the outputs of all workers, and how long things took. Pure: events in, facts out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tests.interop.fleet import Event
from tests.interop.records import Record


@dataclass(frozen=True, slots=True)
class Verdict:
    put: int
    missing: tuple[Record, ...]
    """Put, and given to nobody."""
    unknown: tuple[Record, ...]
    """Given to somebody, though Kinesis took no record of this payload in this shard at this sequence number."""
    ours_doubled: tuple[Record, ...]
    """Landed twice by us: never."""
    kcl_doubled: int
    """KCL promises every record at least once."""
    both: tuple[Record, ...]
    """Landed by us and also processed by KCL: `overlaps.py` says why."""

    @property
    def holds(self) -> bool:
        return bool(self.put) and not self.missing and not self.unknown and not self.ours_doubled

    def __str__(self) -> str:
        told = f"{self.put} records put, {len(self.missing)} missing, {len(self.ours_doubled)} landed twice by us"
        wrong = self.unknown[:1]
        misplaced = f", {len(self.unknown)} that Kinesis never took, as {wrong[0]}" if wrong else ""
        return f"{told}{misplaced}, {self.kcl_doubled} processed twice by KCL, {len(self.both)} by both"


def judge(put: Collection[Record], events: Iterable[Event], ours: Sequence[Record] = ()) -> Verdict:
    """`put`: what Kinesis took; `ours`: what we landed. Shard, sequence number and payload have to agree."""
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
    """Who processed or landed a record of each shard last, and hasn't ended or lost the shard: shard -> worker."""
    found: dict[str, str] = {}
    for event in events:
        if event.kind in {"record", "landed"}:
            found[event.shard] = event.worker
        elif event.kind == "initialize" and found.get(event.shard) != event.worker:
            found.pop(event.shard, None)  # it may have begun a shard that it can't read
        elif event.kind in {"leaseLost", "shardEnded"} and found.get(event.shard) == event.worker:
            del found[event.shard]
    return found


def read_again(events: Sequence[Event], dead: str, at: float) -> dict[str, float]:
    """After a worker died: shard -> seconds until another worker processed or landed a record of it, or its end."""
    left = [shard for shard, worker in readers(e for e in events if e.at <= at).items() if worker == dead]
    found: dict[str, float] = {}
    for event in events:
        if event.at > at and event.worker != dead and event.shard in left and _is_read(event):
            found.setdefault(event.shard, event.at - at)
    return found


def hand_overs(events: Sequence[Event]) -> list[tuple[str, str, str, float]]:
    """Those that KCL was asked for: (shard, from, to, seconds from the old worker's farewell to the new one's first record)."""
    found = []
    stopping: set[str] = set()  # whoever ends says farewell to all that it has, and hands nothing over
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
    """A claim or a lease proves no reading: only a record that came out does, or the end of a shard that has none left."""
    return event.kind in {"record", "landed", "shardEnded"}
