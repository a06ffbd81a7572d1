"""How far behind a shard is, from what its lease row says and what Kinesis answered."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from headrace.pipeline.console.sequence import arrived
from headrace.pipeline.console.values import Behind, LagKind, ShardLag
from headrace.pipeline.core.leases.lag import A_LIVING_WORKER, LivingWorker, is_read_by_others, lag_of
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.inspect.telling import in_words

FRESH: Final = timedelta(seconds=30)
"""How long an answer that nothing newer is there counts as true."""
_NONE: Final = timedelta(0)


def position_time(lease: Lease) -> datetime | None:
    """The arrival time of the record at the lease's checkpoint."""
    return arrived(int(lease.checkpoint.sequence)) if lease.checkpoint.is_digits else None


def shown_lag(
    lease: Lease,
    behind: Behind | None,
    now: datetime,
    *,
    reader: LivingWorker | None = A_LIVING_WORKER,
) -> ShardLag:
    """How far behind a shard is, with a sentence that says how this is known.

    `reader`: the worker that reads the shard, if one may be alive. Without a reader, nobody notices a record that
    comes after the last wave.
    """
    if lease.has_ended:
        return ShardLag(LagKind.MEASURED, _NONE, "the shard was read to its end")
    if behind is not None:
        return _told_by_kinesis(behind, now)
    if lease.behind_ms is not None and not is_read_by_others(lease):
        # Headrace's own word goes before the checkpoint's time: a checkpoint may be old although
        # nothing newer is there.
        return _told_by_headrace(lease, timedelta(milliseconds=lease.behind_ms), now, reader)
    return _by_the_checkpoint(lease, now)


def _told_by_kinesis(behind: Behind, now: datetime) -> ShardLag:
    ago = max(now - behind.asked_at, _NONE)
    since = behind.unread_since
    if since is not None:
        lag = max(now - since, _NONE)
        return ShardLag(
            LagKind.MEASURED,
            lag,
            f"the oldest record after the checkpoint arrived {in_words(lag)} ago, as Kinesis said {in_words(ago)} ago",
            since,
        )
    if ago <= FRESH:
        return ShardLag(
            LagKind.MEASURED, _NONE, f"Kinesis said {in_words(ago)} ago that nothing newer was there"
        )
    return ShardLag(
        LagKind.AT_MOST,
        ago,
        f"Kinesis said {in_words(ago)} ago that nothing newer was there; a record that came since may be unread",
        behind.asked_at,
    )


def _told_by_headrace(
    lease: Lease, behind: timedelta, now: datetime, reader: LivingWorker | None
) -> ShardLag:
    when = (
        ""
        if lease.looked_at is None
        else f", which had read up to {in_words(max(now - lease.looked_at, _NONE))} ago,"
    )
    left = "at its newest record" if not behind else f"{in_words(behind)} behind its newest record"
    lag = lag_of(lease, now, reader=reader)
    if lag is None and reader is not None and not reader.is_ours and lease.looked_at is not None:
        return ShardLag(
            LagKind.AT_MOST,
            max(now - lease.looked_at, _NONE),
            f"the last wave{when} left the shard {left}; a worker of KCL reads it since, and tells no more before its next "
            "checkpoint",
            lease.looked_at,
        )
    if lag is None:
        return ShardLag(
            sentence=f"the last wave{when} left the shard {left}; its worker is back only just now, or has only just got the "
            "lease, and may not have looked into it yet"
        )
    since = "" if reader is not None else "; no worker that lives reads it since"
    kind = LagKind.AT_MOST if lag else LagKind.MEASURED
    return ShardLag(kind, lag, f"the last wave{when} left the shard {left}{since}")


def _by_the_checkpoint(lease: Lease, now: datetime) -> ShardLag:
    position = position_time(lease)
    if position is not None:
        at_most = max(now - position, _NONE)
        return ShardLag(
            LagKind.AT_MOST,
            at_most,
            f"the record at the checkpoint arrived {in_words(at_most)} ago, by its sequence number; whether a newer "
            "record waits isn't known (--peek asks Kinesis)",
            position,
        )
    word = lease.checkpoint.sequence
    if lease.checkpoint.is_digits:
        return ShardLag(
            sentence="the checkpoint's sequence number has a form that tells no time (--peek asks Kinesis)"
        )
    reasons = {
        "TRIM_HORIZON": "nothing was checkpointed yet: reading begins at the oldest record (--peek asks Kinesis)",
        "LATEST": "nothing was checkpointed yet: reading begins at whatever is the newest record when it begins, so that "
        "the lease row doesn't tell which records are unread",
        "AT_TIMESTAMP": "nothing was checkpointed yet: reading begins at a time that only the application's configuration "
        "has",
    }
    return ShardLag(sentence=reasons[word])
