"""A run that keeps its claims from wave to wave, and the writes that it makes on their rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON, Checkpoint
from tests.duties.claims_place import MINE, TIMES, Place, a_key, a_row, landed

SECOND = timedelta(seconds=1)
STAYS = "meanwhile; what was committed stays"
SEVEN, NINE = Checkpoint("7"), Checkpoint("9")
AT_THE_LATEST = TIMES.checkpoint - 2 * TIMES.worker_tick
"""How long after a commit the row is written at the latest."""


def kept(*rows: Lease, lands: str | None = "s1") -> Place:
    """A run that has claimed these rows, and has landed one shard up to record 9 without writing the row."""
    place = Place(*(rows or (a_row(),)))
    place.take()
    place.kept.keeps = True
    if lands is not None:
        place.kept.note_landed(a_key(lands), landed(lands).staged)
    place.rows.writes.clear()
    return place


def changed(place: Place, key: str = "s1", **to: Any) -> Lease:
    """Another process, or a write whose answer was lost, changes the row."""
    place.rows._rows[key] = replace(place.row(key), **to)
    return place.row(key)


def written(at: Checkpoint = NINE, *, seen: Checkpoint = TRIM_HORIZON, **put: Any) -> Change:
    """The write of a late checkpoint."""
    return Change(
        "s1",
        f"landed up to {at}",
        holder="w1",
        requires={"run_claim": MINE, "checkpoint": seen},
        put={"checkpoint": at, "landed": at, "owner_switches": 0, **put},
        add={"counter": 1},
        remove=frozenset({"pending", "pending_state"}),
        kind=ChangeKind.CHECKPOINT,
    )


def freed(key: str = "s1", *, removed: frozenset[str] = frozenset(), **put: Any) -> Change:
    """The write that only releases a row."""
    return Change(
        key,
        "the wave is over",
        requires={"run_claim": MINE},
        put=put,
        remove=removed | {"run_claim"},
        kind=ChangeKind.RELEASE,
    )
