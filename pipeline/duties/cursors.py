"""What a tick remembers, as the text of a Dagster cursor: small, without a version, and safe to lose.

Where sightings are many only the suspects go in (what moved at the last look needs no memory), and nothing that grows
with the number of leases: the process that ticked remembers the rest (`pipeline.duties.turns.PartMemory`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pipeline.core.backoff import Backoff
from pipeline.core.sighting import (
    MOST_IN_CURSOR,
    Sighting,
    from_cursor,
    suspects_to_cursor,
    time_from_cursor,
    time_to_cursor,
    to_cursor,
)
from pipeline.duties.assignment_pass import AssignmentMemory
from pipeline.duties.cleanup import CleanupMemory
from pipeline.duties.leader_report import LeaderMemory
from pipeline.duties.leader_watch import LeaderWatchMemory
from pipeline.duties.part_memory import as_json
from pipeline.duties.streams import StreamsMemory
from pipeline.duties.worker_report import WorkerMemory


def write_leader(memory: LeaderMemory, failures: int) -> str:
    return _text(
        {
            "look": time_to_cursor(memory.last_look),
            "lock": _one_out(memory.lock),
            "workers": suspects_to_cursor(memory.workers),
            "sync": time_to_cursor(memory.last_sync),
            "former": _former_out(memory.streams),
            "assign": time_to_cursor(memory.assignment.last_pass),
            "leases": suspects_to_cursor(memory.assignment.lease_sightings),
            "handovers": suspects_to_cursor(memory.assignment.handover_sightings),
            "runs": memory.assignment.passes,
            "stirred": memory.assignment.cpu_passes,
            "kept": as_json(memory.election_memory, whole=True),
            "completed": time_to_cursor(memory.cleanup.completed),
            "garbage": time_to_cursor(memory.cleanup.garbage),
            "failures": failures,
        }
    )


def read_leader(text: str | None) -> tuple[LeaderMemory, int]:
    said = _said(text)
    try:
        memory = LeaderMemory(
            last_look=time_from_cursor(said.get("look")),
            lock=_one_in(said.get("lock")),
            workers=from_cursor(said.get("workers", {})),
            last_sync=time_from_cursor(said.get("sync")),
            cleanup=CleanupMemory(
                time_from_cursor(said.get("completed")), time_from_cursor(said.get("garbage"))
            ),
            streams=_former_in(said.get("former")),
            assignment=AssignmentMemory(
                time_from_cursor(said.get("assign")),
                from_cursor(said.get("leases", {})),
                from_cursor(said.get("handovers", {})),
                int(said.get("runs", 0)),
                cpu_passes=int(said.get("stirred", 0)),
            ),
            election_memory=said.get("kept"),
        )
        return memory, int(said.get("failures", 0))
    except (TypeError, ValueError, AttributeError):
        return LeaderMemory(), 0


def write_worker(memory: WorkerMemory) -> str:
    is_whole = len(memory.held) <= MOST_IN_CURSOR
    return _text(
        {
            "look": time_to_cursor(memory.last_look),
            "claims": to_cursor(memory.claims),
            "rival": _one_out(memory.rival),
            "probe": time_to_cursor(memory.last_probe),
            "probed": memory.probed,
            "run": memory.latest_run,
            "backoff": {key: [b.failures, time_to_cursor(b.until)] for key, b in memory.backoff.items()},
            "leader": _watching_out(memory.leader),
            "kept": as_json(memory.own_leases_memory, whole=is_whole),
            "company": as_json(memory.other_workers_memory, whole=is_whole),
            "held": sorted(memory.held) if is_whole and memory.own_leases_memory is not None else None,
        }
    )


def read_worker(text: str | None) -> WorkerMemory:
    said = _said(text)
    try:
        return WorkerMemory(
            last_look=time_from_cursor(said.get("look")),
            claims=from_cursor(said.get("claims", {})),
            rival=_one_in(said.get("rival")),
            last_probe=time_from_cursor(said.get("probe")),
            probed=said.get("probed"),
            latest_run=said.get("run"),
            backoff={
                key: Backoff(int(count), datetime.fromtimestamp(until, UTC))
                for key, (count, until) in said.get("backoff", {}).items()
            },
            leader=_watching_in(said.get("leader")),
            own_leases_memory=said.get("kept"),
            other_workers_memory=said.get("company"),
            held=frozenset(said.get("held") or ()),
        )
    except (TypeError, ValueError, AttributeError):
        return WorkerMemory()


def _former_out(memory: StreamsMemory) -> list[Any] | None:
    """Those that have waited longest; the others begin anew. What prefix and tags find is asked again."""
    longest = sorted(memory.former, key=lambda name: memory.former[name].credit, reverse=True)[
        :MOST_IN_CURSOR
    ]
    if not longest:
        return None
    return [time_to_cursor(memory.counted), to_cursor({name: memory.former[name] for name in longest})]


def _former_in(row: list[Any] | None) -> StreamsMemory:
    if row is None:
        return StreamsMemory()
    looked, former = row
    return StreamsMemory(counted=time_from_cursor(looked), former=from_cursor(former))


def _watching_out(seen: LeaderWatchMemory) -> list[Any] | None:
    if seen.last is None:
        return None
    return [time_to_cursor(seen.last), seen.lock, _one_out(seen.passes), _one_out(seen.other)]


def _watching_in(row: list[Any] | None) -> LeaderWatchMemory:
    if row is None:
        return LeaderWatchMemory()
    last, lock, passes, *other = row
    return LeaderWatchMemory(time_from_cursor(last), lock, _one_in(passes), *map(_one_in, other))


def _text(said: Mapping[str, Any]) -> str:
    return json.dumps({key: value for key, value in said.items() if value}, separators=(",", ":"))


def _said(text: str | None) -> dict[str, Any]:
    """A cursor that a person edited, or that another version wrote, is a lost one."""
    try:
        said = json.loads(text or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _one_out(seen: Sighting | None) -> list[str | int] | None:
    return None if seen is None else to_cursor({"it": seen})["it"]


def _one_in(row: list[str | int] | None) -> Sighting | None:
    return None if row is None else from_cursor({"it": row})["it"]
