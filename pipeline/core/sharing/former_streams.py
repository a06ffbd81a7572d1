"""Former streams: streams that have lease rows and that the settings no longer ask for.

    the settings ask for it by name, prefix or tag   the stream is synced and read
    the settings no longer ask for it                the stream is read on, and the leader counts how long this lasts
    ... and `former_streams_wait` has passed, where  its rows are deleted; the lake table keeps its positions, so a stream
        `former_streams` allows the deletion         that is asked for again is read on from there

Only applications with several streams have them: there, each row has the name of its stream (`account:name:epoch`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from headrace.pipeline.core.leases.change import Change, delete_garbage
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import Sighting, Sightings, after_look
from headrace.pipeline.core.shards.stream import epoch_of_serialized

_LONGEST_SILENCE = timedelta(minutes=10)
"""A leader that didn't look for longer than this starts all waits again, because the settings may have asked for the
streams meanwhile."""


def account_and_name(row: Lease) -> str | None:
    """`account:name` of the row's stream, for all lives of the stream; None in an application with a single stream."""
    return None if row.stream is None else row.stream.rpartition(":")[0]


def newest_lives(leases: Iterable[Lease]) -> dict[str, str]:
    """`account:name` of each stream -> `account:name:epoch` of its newest life that has rows."""
    lives = {row.stream: epoch_of_serialized(row.stream) or 0 for row in leases if row.stream is not None}
    # By the epoch: the newest life comes last, and so it stays in the dictionary.
    return {life.rpartition(":")[0]: life for life in sorted(lives, key=lambda life: lives[life])}


def watch_former(
    before: Sightings, former: Iterable[str], *, since: timedelta | None, tick: timedelta
) -> dict[str, Sighting]:
    """How long each stream has been a former one, counted in this leader's looks, as
    `headrace.pipeline.core.leases.sighting` counts."""
    if since is None or not timedelta(0) <= since <= _LONGEST_SILENCE:
        before, since = {}, None
    # There is no counter to watch, so the token never changes: a stream leaves the sightings when it isn't a former one
    # any more.
    return after_look(before, dict.fromkeys(former, "former"), since=since, tick=tick)


def plan_forget(stream: str, leases: Iterable[Lease], why: str) -> list[Change]:
    """Delete the rows of all lives of one stream, given as `account:name`."""
    rows = (row for row in leases if account_and_name(row) == stream)
    return [delete_garbage(row, why) for row in sorted(rows, key=lambda row: row.key)]
