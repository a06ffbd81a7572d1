"""A lease row as it would be if each wave wrote it. A run that keeps its claims writes the row later, and decides
by these values until then.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.throughput import rate_after_quiet, throughput_after
from headrace.pipeline.core.ledger.batch import Staged


def as_landed(row: Lease, staged: Staged) -> Lease:
    """The row as it will be after the checkpoint of what was staged and committed."""
    checkpoint, rate = staged.upto.checkpoint, throughput_after(row, staged)
    rate = row.throughput_kbps if rate is None else rate
    # None: no record of the shard has landed yet, so that there is nothing to checkpoint.
    return (
        row
        if checkpoint is None
        else replace(row, checkpoint=checkpoint, landed=checkpoint, throughput_kbps=rate)
    )


def as_looked_at(row: Lease, staged: Staged, now: datetime) -> Lease:
    """The row as it will be after a wave that read the shard without an error. `now`: by the clock of this host."""
    # None: the wave's limits were reached before the shard was asked for a page. It may have records to read, and 1 ms
    # behind makes it due.
    behind = 1 if staged.behind is None else staged.behind // timedelta(milliseconds=1)
    # Kinesis's times, if there are any: a probe of a shard without a record begins at this time. A shard that wasn't asked
    # keeps its time, because the records that it may have came after that one.
    looked_at = staged.upto.witness or (row.looked_at if staged.behind is None else now)
    rate = None if looked_at is None else rate_after_quiet(row, staged, looked_at)
    rate = row.throughput_kbps if rate is None else rate
    # Also where KCL wrote the checkpoint and nothing was left of its record. Else the row would be due for ever.
    checkpoint = row.checkpoint
    landed = checkpoint if checkpoint.is_digits and checkpoint == staged.upto.checkpoint else row.landed
    return replace(row, looked_at=looked_at, behind_ms=behind, throughput_kbps=rate, landed=landed)


def caught_up(row: Lease, ought: Lease) -> Lease:
    """The lease row as it is (`row`), brought up to what it ought to have after the last wave (`ought`). What another
    program, or a write whose answer was lost, has moved further stays.
    """
    landed = [checkpoint for checkpoint in (row.landed, ought.landed) if checkpoint is not None]
    return replace(
        row,
        checkpoint=max(row.checkpoint, ought.checkpoint),
        landed=max(landed, default=None),
        throughput_kbps=ought.throughput_kbps,
        looked_at=ought.looked_at,
        behind_ms=ought.behind_ms,
    )
