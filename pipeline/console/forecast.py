"""Whether unread records leave the stream before they are read, and when."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from headrace.pipeline.console.values import LagKind, LossRisk, Severity, ShardLag
from headrace.pipeline.inspect.telling import in_words

SOON: Final = timedelta(hours=4)
"""A loss that comes sooner than this needs a person now."""
NEAR_THE_END: Final = 0.1
"""A shard that has less than this part of the retention left needs a person, also where it catches up."""
HALF: Final = 0.5
_STANDS: Final = 0.02
"""A lag that grows by less than this many seconds a second counts as one that doesn't grow."""


def risk_of(lag: ShardLag, retention: timedelta | None, growth: float | None, *, is_read: bool) -> LossRisk:
    """When a shard loses its oldest unread record, at the rate at which its lag grows now.

    `growth`: seconds by which the lag grows in a second; None where it isn't known. `is_read`: whether a worker
    that may be alive reads the shard.
    """
    if lag.behind is None or retention is None:
        return LossRisk()
    left = retention - lag.behind
    if lag.kind is LagKind.AT_MOST:
        return _by_a_bound(left, retention)
    if not lag.behind:
        return LossRisk()
    if left <= timedelta(0):
        return LossRisk(
            Severity.BAD,
            timedelta(0),
            f"unread records are older than the stream's retention of {in_words(retention)}: records are being lost now",
        )
    # Nobody reads the shard: its oldest unread record grows older by the clock.
    pace = growth if is_read and growth is not None else 1.0
    grows = pace > _STANDS
    loses_in = left / pace if grows else None
    return LossRisk(
        _level(left, retention, loses_in), loses_in, _sentence(left, loses_in, pace, is_read=is_read)
    )


def _level(left: timedelta, retention: timedelta, loses_in: timedelta | None) -> Severity:
    if (loses_in is not None and loses_in < SOON) or left < NEAR_THE_END * retention:
        return Severity.BAD
    return Severity.WARN if loses_in is not None and left < HALF * retention else Severity.GOOD


def _sentence(left: timedelta, loses_in: timedelta | None, pace: float, *, is_read: bool) -> str:
    if loses_in is None:
        return f"the oldest unread record leaves the stream in {in_words(left)}; the shard catches up or keeps its distance"
    why = "at this rate" if is_read and pace < 1.0 else "if nothing more is read"
    return f"loses records in {in_words(loses_in)} {why}"


def _by_a_bound(left: timedelta, retention: timedelta) -> LossRisk:
    if left > HALF * retention:
        # A bound: the shard's real lag is at most this.
        return LossRisk()
    leave = (
        "have left the stream already" if left <= timedelta(0) else f"leave the stream in {in_words(left)}"
    )
    return LossRisk(
        Severity.WARN,
        None,
        f"if records came after the checkpoint, the first of them {leave}; if none came, nothing is at risk "
        "(--peek asks Kinesis which it is)",
    )
