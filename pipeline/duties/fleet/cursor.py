"""A tick's memory as the text of a Dagster cursor: small, without a version, and safe to lose.

Dagster copies the cursor into the row of every tick. So a cursor has nothing that grows with the number of leases, and
of many sightings only those that stood still the longest; a counter that moved at the last look needs no memory. The
process that made the tick remembers the rest (`headrace.pipeline.duties.fleet.sensor_turn.LastTick`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.pipeline.core.leases.backoff import Backoff
from headrace.pipeline.core.leases.sighting import (
    MOST_IN_CURSOR,
    Sighting,
    from_cursor,
    suspects_to_cursor,
    time_from_cursor,
    time_to_cursor,
    to_cursor,
)
from headrace.pipeline.duties.fleet.assignment_pass import AssignmentMemory
from headrace.pipeline.duties.fleet.cleanup import CleanupMemory
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory
from headrace.pipeline.duties.policy.leader_watch import LeaderWatchMemory
from headrace.pipeline.duties.policy.memory import as_json
from headrace.pipeline.duties.streams.streams import StreamsMemory

_ENCODER = json.JSONEncoder(separators=(",", ":"))


def write_leader(memory: LeaderMemory, failures: int) -> str:
    # The keys stay when names in the code change: after an upgrade the new code reads a cursor of the old one.
    return _as_text(
        {
            "look": time_to_cursor(memory.last_look),
            "lock": _write_sighting(memory.lock),
            "workers": suspects_to_cursor(memory.workers),
            "sync": time_to_cursor(memory.last_sync),
            "former": _write_former(memory.streams),
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
    """The leader's memory, and how many of its ticks have failed in a row."""
    values = _values_in(text)
    try:
        memory = LeaderMemory(
            last_look=time_from_cursor(values.get("look")),
            lock=_read_sighting(values.get("lock")),
            workers=from_cursor(values.get("workers", {})),
            last_sync=time_from_cursor(values.get("sync")),
            cleanup=CleanupMemory(
                time_from_cursor(values.get("completed")), time_from_cursor(values.get("garbage"))
            ),
            streams=_read_former(values.get("former")),
            assignment=AssignmentMemory(
                time_from_cursor(values.get("assign")),
                from_cursor(values.get("leases", {})),
                from_cursor(values.get("handovers", {})),
                int(values.get("runs", 0)),
                cpu_passes=int(values.get("stirred", 0)),
            ),
            election_memory=values.get("kept"),
        )
        return memory, int(values.get("failures", 0))
    except (TypeError, ValueError, AttributeError):
        # A cursor that can't be read counts as lost, never as an error: a tick that fails over its
        # cursor would fail for ever, because a failed tick writes no new one.
        return LeaderMemory(), 0


def write_worker(memory: WorkerMemory) -> str:
    is_whole = len(memory.held) <= MOST_IN_CURSOR
    return _as_text(
        {
            "look": time_to_cursor(memory.last_look),
            "claims": to_cursor(memory.claims),
            "rival": _write_sighting(memory.rival),
            "beater": _write_sighting(memory.beater),
            "probe": time_to_cursor(memory.last_probe),
            "probed": memory.probed,
            "run": memory.latest_run,
            "ask": time_to_cursor(memory.last_ask),
            "backoff": {key: [b.failures, time_to_cursor(b.until)] for key, b in memory.backoff.items()},
            "leader": _write_leader_watch(memory.leader),
            "kept": as_json(memory.own_leases_memory, whole=is_whole),
            "company": as_json(memory.other_workers_memory, whole=is_whole),
            # A policy without a memory finds the worker's rows by the index, and does without these keys after a
            # reload.
            "held": sorted(memory.held) if is_whole and memory.own_leases_memory is not None else None,
        }
    )


def read_worker(text: str | None) -> WorkerMemory:
    values = _values_in(text)
    try:
        return WorkerMemory(
            last_look=time_from_cursor(values.get("look")),
            claims=from_cursor(values.get("claims", {})),
            rival=_read_sighting(values.get("rival")),
            beater=_read_sighting(values.get("beater")),
            last_probe=time_from_cursor(values.get("probe")),
            probed=values.get("probed"),
            latest_run=values.get("run"),
            last_ask=time_from_cursor(values.get("ask")),
            backoff={
                key: Backoff(int(count), datetime.fromtimestamp(until, UTC))
                for key, (count, until) in values.get("backoff", {}).items()
            },
            leader=_read_leader_watch(values.get("leader")),
            own_leases_memory=values.get("kept"),
            other_workers_memory=values.get("company"),
            held=frozenset(values.get("held") or ()),
        )
    except (TypeError, ValueError, AttributeError):
        # As for the leader's: what is forgotten costs a longer look, and no row.
        return WorkerMemory()


def _write_former(memory: StreamsMemory) -> list[Any] | None:
    """The former streams that have waited longest. After a reload the wait of the others starts again."""
    longest = sorted(memory.former, key=lambda name: memory.former[name].credit, reverse=True)[
        :MOST_IN_CURSOR
    ]
    if not longest:
        return None
    return [time_to_cursor(memory.counted), to_cursor({name: memory.former[name] for name in longest})]


def _read_former(row: list[Any] | None) -> StreamsMemory:
    if row is None:
        return StreamsMemory()
    looked, former = row
    return StreamsMemory(counted=time_from_cursor(looked), former=from_cursor(former))


def _write_leader_watch(watch: LeaderWatchMemory) -> list[Any] | None:
    if watch.last is None:
        return None
    return [
        time_to_cursor(watch.last),
        watch.lock,
        _write_sighting(watch.passes),
        _write_sighting(watch.other),
    ]


def _read_leader_watch(row: list[Any] | None) -> LeaderWatchMemory:
    if row is None:
        return LeaderWatchMemory()
    last, lock, passes, *rest = row
    return LeaderWatchMemory(time_from_cursor(last), lock, _read_sighting(passes), *map(_read_sighting, rest))


def _as_text(values: Mapping[str, Any]) -> str:
    # Without empty values and zeros, which are the defaults of reading: most ticks then have a short cursor.
    return _ENCODER.encode({key: value for key, value in values.items() if value})


def _values_in(text: str | None) -> dict[str, Any]:
    """The JSON object in a cursor; an empty one where a person or another version has written something else."""
    try:
        values = json.loads(text or "{}")
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _write_sighting(sighting: Sighting | None) -> list[str | int] | None:
    return None if sighting is None else to_cursor({"it": sighting})["it"]


def _read_sighting(row: list[str | int] | None) -> Sighting | None:
    return None if row is None else from_cursor({"it": row})["it"]
