"""What a tick remembers, as the text of a Dagster cursor: small, versionless, and safe to lose.

Where sightings are many only the suspects go in (what moved at the last look needs no memory), and nothing that grows
with the number of leases: this process remembers the rest (`Kept`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from pipeline.core.backoff import Backoff
from pipeline.core.sighting import Sighting, Sightings, from_cursor, to_cursor
from pipeline.duties.assignment import AssignmentMemory
from pipeline.duties.cleanup import CleanupMemory
from pipeline.duties.kcl_leader_watch import Unassigned
from pipeline.duties.leader_tick import LeaderMemory
from pipeline.duties.leader_watch import Watching
from pipeline.duties.streams import StreamsMemory
from pipeline.duties.taking import ShuffleMemory, TakingMemory
from pipeline.duties.worker_tick import WorkerMemory

_Memory = TypeVar("_Memory")
_FEW = 25
"""Sightings. Dagster copies a cursor into the row of every tick."""


@dataclass(slots=True)
class Kept(Generic[_Memory]):
    """Whole memories by their cursor: believed only where Dagster brings that very cursor back."""

    memories: dict[str, tuple[str, _Memory]] = field(default_factory=dict)

    def put(self, name: str, cursor: str, memory: _Memory) -> str:
        self.memories[name] = (cursor, memory)
        return cursor

    def get(self, name: str, cursor: str | None) -> _Memory | None:
        kept = self.memories.get(name)
        return kept[1] if kept is not None and kept[0] == cursor else None


def write_leader(memory: LeaderMemory, failures: int) -> str:
    return _text(
        {
            "look": _time_out(memory.last_look),
            "lock": _one_out(memory.lock),
            "workers": _suspects(memory.workers),
            "sync": _time_out(memory.last_sync),
            "former": _former_out(memory.streams),
            "assign": _time_out(memory.assignment.last),
            "leases": _suspects(memory.assignment.leases),
            "handovers": _suspects(memory.assignment.handovers),
            "runs": memory.assignment.runs,
            "shuffle": _shuffle_out(memory.shuffle),
            "completed": _time_out(memory.cleanup.completed),
            "garbage": _time_out(memory.cleanup.garbage),
            "failures": failures,
        }
    )


def read_leader(text: str | None) -> tuple[LeaderMemory, int]:
    said = _said(text)
    try:
        memory = LeaderMemory(
            last_look=_time_in(said.get("look")),
            lock=_one_in(said.get("lock")),
            workers=from_cursor(said.get("workers", {})),
            last_sync=_time_in(said.get("sync")),
            cleanup=CleanupMemory(_time_in(said.get("completed")), _time_in(said.get("garbage"))),
            streams=_former_in(said.get("former")),
            assignment=AssignmentMemory(
                _time_in(said.get("assign")),
                from_cursor(said.get("leases", {})),
                from_cursor(said.get("handovers", {})),
                int(said.get("runs", 0)),
            ),
            shuffle=_shuffle_in(said.get("shuffle")),
        )
        return memory, int(said.get("failures", 0))
    except (TypeError, ValueError, AttributeError):
        return LeaderMemory(), 0


def write_worker(memory: WorkerMemory) -> str:
    return _text(
        {
            "look": _time_out(memory.last_look),
            "claims": to_cursor(memory.claims),
            "rival": _one_out(memory.rival),
            "probe": _time_out(memory.last_probe),
            "probed": memory.probed,
            "run": memory.latest_run,
            "backoff": {key: [b.failures, _time_out(b.until)] for key, b in memory.backoff.items()},
            "leader": _watching_out(memory.leader),
            "unassigned": _unassigned_out(memory.unassigned),
            # Without them the next tick of another process scans at once.
            "taking": _taking_out(memory.taking) if len(memory.held) <= _FEW else None,
            "held": sorted(memory.held) if memory.taking.last and len(memory.held) <= _FEW else None,
        }
    )


def read_worker(text: str | None) -> WorkerMemory:
    said = _said(text)
    try:
        return WorkerMemory(
            last_look=_time_in(said.get("look")),
            claims=from_cursor(said.get("claims", {})),
            rival=_one_in(said.get("rival")),
            last_probe=_time_in(said.get("probe")),
            probed=said.get("probed"),
            latest_run=said.get("run"),
            backoff={
                key: Backoff(int(count), datetime.fromtimestamp(until, UTC))
                for key, (count, until) in said.get("backoff", {}).items()
            },
            leader=_watching_in(said.get("leader")),
            unassigned=_unassigned_in(said.get("unassigned")),
            taking=_taking_in(said.get("taking")),
            held=frozenset(said.get("held") or ()),
        )
    except (TypeError, ValueError, AttributeError):
        return WorkerMemory()


def _suspects(seen: Sightings) -> dict[str, list[str | int]]:
    """Those that stood still for the longest: they are nearest to a verdict, and the others begin anew after a reload."""
    nearest = sorted(seen, key=lambda name: (-seen[name].credit, name))[:_FEW]
    return to_cursor({name: seen[name] for name in nearest})


def _former_out(memory: StreamsMemory) -> list[Any] | None:
    """Those that have waited longest; the others begin anew. What prefix and tags find is asked again."""
    longest = sorted(memory.former, key=lambda name: memory.former[name].credit, reverse=True)[:_FEW]
    if not longest:
        return None
    return [_time_out(memory.looked), to_cursor({name: memory.former[name] for name in longest})]


def _former_in(row: list[Any] | None) -> StreamsMemory:
    if row is None:
        return StreamsMemory()
    looked, former = row
    return StreamsMemory(looked=_time_in(looked), former=from_cursor(former))


def _watching_out(seen: Watching) -> list[Any] | None:
    if seen.last is None:
        return None
    return [_time_out(seen.last), seen.lock, _one_out(seen.passes), _one_out(seen.kcl)]


def _watching_in(row: list[Any] | None) -> Watching:
    if row is None:
        return Watching()
    last, lock, passes, *kcl = row
    return Watching(_time_in(last), lock, _one_in(passes), *map(_one_in, kcl))


def _unassigned_out(seen: Unassigned) -> list[Any] | None:
    if seen.last is None:
        return None
    return [_time_out(seen.last), seen.leader, seen.lock, _suspects(seen.leases)]


def _unassigned_in(row: list[Any] | None) -> Unassigned:
    if row is None:
        return Unassigned()
    last, leader, lock, leases = row
    return Unassigned(_time_in(last), leader, lock, from_cursor(leases))


def _taking_out(seen: TakingMemory) -> list[Any] | None:
    """What moved at the last scan begins anew when only the cursor is left: nobody is condemned by that."""
    if seen.last is None:
        return None
    return [_time_out(seen.last), seen.last_mono, _suspects(seen.leases)]


def _taking_in(row: list[Any] | None) -> TakingMemory:
    return TakingMemory() if row is None else TakingMemory(_time_in(row[0]), row[1], from_cursor(row[2]))


def _shuffle_out(seen: ShuffleMemory) -> list[Any] | None:
    return None if seen.last is None else [_time_out(seen.first), _time_out(seen.last), seen.leader]


def _shuffle_in(row: list[Any] | None) -> ShuffleMemory:
    return ShuffleMemory() if row is None else ShuffleMemory(_time_in(row[0]), _time_in(row[1]), row[2])


def _text(said: Mapping[str, Any]) -> str:
    return json.dumps({key: value for key, value in said.items() if value}, separators=(",", ":"))


def _said(text: str | None) -> dict[str, Any]:
    """A cursor that a person edited, or that another version wrote, is a lost one."""
    try:
        said = json.loads(text or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _time_out(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _time_in(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)


def _one_out(seen: Sighting | None) -> list[str | int] | None:
    return None if seen is None else to_cursor({"it": seen})["it"]


def _one_in(row: list[str | int] | None) -> Sighting | None:
    return None if row is None else from_cursor({"it": row})["it"]
