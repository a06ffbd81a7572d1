"""What must hold over the outputs of all workers, and how long things took. Pure: events in, facts out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tests.interop.fleet import Event


@dataclass(frozen=True, slots=True)
class Verdict:
    put: int
    missing: tuple[str, ...]
    """Put, and given to nobody."""
    ours_doubled: tuple[str, ...]
    """Landed twice by us: never."""
    kcl_doubled: int
    """KCL promises every record at least once."""
    both: int
    """Landed by us and also processed by KCL: what a lease's change of hands may do between two systems."""

    @property
    def holds(self) -> bool:
        return bool(self.put) and not self.missing and not self.ours_doubled

    def __str__(self) -> str:
        told = f"{self.put} records put, {len(self.missing)} missing, {len(self.ours_doubled)} landed twice by us"
        return f"{told}, {self.kcl_doubled} processed twice by KCL, {self.both} by both"


def judge(put: Collection[str], events: Iterable[Event], ours: Sequence[str] = ()) -> Verdict:
    """`put` and `ours` are payloads: what Kinesis took, what we landed."""
    by_kcl = Counter(event.more[2] for event in events if event.kind == "record")
    by_us = Counter(ours)
    return Verdict(
        put=len(put),
        missing=tuple(sorted(set(put) - set(by_kcl) - set(by_us))),
        ours_doubled=tuple(sorted(name for name, times in by_us.items() if times > 1)),
        kcl_doubled=sum(times - 1 for times in by_kcl.values()),
        both=len(set(by_kcl) & set(by_us)),
    )


def readers(events: Iterable[Event]) -> dict[str, str]:
    """Who began each shard last, and hasn't ended or lost it: shard -> worker."""
    found: dict[str, str] = {}
    for event in events:
        if event.kind == "initialize":
            found[event.shard] = event.worker
        elif event.kind in {"leaseLost", "shardEnded"} and found.get(event.shard) == event.worker:
            del found[event.shard]
    return found


def take_overs(events: Sequence[Event], dead: str, at: float) -> dict[str, float]:
    """After a worker died: shard -> seconds until another one began it."""
    left = [shard for shard, worker in readers(e for e in events if e.at <= at).items() if worker == dead]
    found: dict[str, float] = {}
    for event in events:
        if event.kind == "initialize" and event.at > at and event.shard in left:
            found.setdefault(event.shard, event.at - at)
    return found


def hand_overs(events: Sequence[Event]) -> list[tuple[str, str, str, float]]:
    """Those that KCL was asked for: (shard, from, to, seconds from the old worker's farewell to the new one's begin)."""
    found = []
    stopping: set[str] = set()  # whoever ends says farewell to all that it has, and hands nothing over
    for number, event in enumerate(events):
        if event.kind == "stopping":
            stopping.add(event.worker)
        if event.kind != "shutdownRequested" or event.worker in stopping:
            continue
        later = (e for e in events[number:] if e.kind == "initialize" and e.shard == event.shard)
        begun = next((e for e in later if e.worker != event.worker), None)
        if begun is not None:
            found.append((event.shard, event.worker, begun.worker, begun.at - event.at))
    return found
