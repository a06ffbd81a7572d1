"""Streams that have lease rows and that nothing asks for any more.

    rows, and asked for by name, prefix or tag     looked after like any other
    rows, asked for no more                        read on from where they stand, and watched
    ... for the whole wait, where the strategy     its rows are deleted; the lake table keeps its positions, so that
        says so                                    a stream that comes back is read on from there

Only with several streams in an application: there a row says whose it is (`account:name:epoch`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from pipeline.core.change import Change, delete_garbage
from pipeline.core.lease import Lease
from pipeline.core.sighting import Sighting, Sightings, look
from pipeline.core.stream import epoch_of_serialized

_LONGEST_SILENCE = timedelta(minutes=10)
"""Of the watcher. Who knows what was asked for meanwhile: the wait begins anew."""


def whose(row: Lease) -> str | None:
    """`account:name` of the row's stream, whatever life of it; None in an application with a single stream."""
    return None if row.stream is None else row.stream.rpartition(":")[0]


def is_of_form(row: Lease, *, multi: bool) -> bool:
    """Whether the row is as this application makes them: its key says the same as its attributes, and the mode fits."""
    if row.stream is None:
        return not multi
    return multi and epoch_of_serialized(row.stream) is not None and row.key == f"{row.stream}:{row.shard_id}"


def newest_lives(leases: Iterable[Lease]) -> dict[str, str]:
    """`account:name` -> `account:name:epoch` of the newest life that has rows."""
    lives = {row.stream: epoch_of_serialized(row.stream) or 0 for row in leases if row.stream is not None}
    return {life.rpartition(":")[0]: life for life in sorted(lives, key=lambda life: lives[life])}


def watch_former(
    before: Sightings, former: Iterable[str], *, since: timedelta | None, tick: timedelta
) -> dict[str, Sighting]:
    """How long each stream has been a former one, counted in looks of this watcher: never more than went by."""
    if since is None or not timedelta(0) <= since <= _LONGEST_SILENCE:
        before, since = {}, None
    return look(before, dict.fromkeys(former, "former"), since=since, tick=tick)


def plan_forget(stream: str, leases: Iterable[Lease], why: str) -> list[Change]:
    """`stream`: its `account:name`. Rows of all its lives, and of no other stream."""
    rows = (row for row in leases if whose(row) == stream)
    return [delete_garbage(row, why) for row in sorted(rows, key=lambda row: row.key)]
