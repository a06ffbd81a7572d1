"""How long a commit to the lake table waits so that other writers get their turn. Pure functions on values.

The catalog lets any writer win whose request comes first, and most often that is the writer that has just won: it
starts anew while the others still wait for their refusals. So a writer whose last commit took long lets others come
first before its next one, and of those that were refused the oldest pauses the shortest. All times are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

AT_MOST = 20.0
"""A commit that has waited this long doesn't pause any more, and no pause is longer. A run counts as hung after two
minutes at least."""
_CROWDED = 2.0
"""A commit that took more than this many times its last attempt met other writers."""
_LEAST, _MOST = 0.7, 0.9
"""Between two commits a crowded writer waits for this part of the time that the first one took. Less than the whole, so
that the waits shrink once the other writers are gone: to five attempts for a writer that goes on committing without a
break."""
_CROWD = 12
"""A pause is up to an attempt long where a writer's commits take up to this many attempts. Where they take longer there
are more writers, and the pauses grow with them: of all writers only a few should try at the same moment."""


@dataclass(frozen=True, slots=True)
class LastCommit:
    """A writer's last commit that landed."""

    ended: float
    """When the commit ended, by the monotonic clock."""
    took: float
    """How long all attempts and pauses of the commit took together."""
    attempt: float
    """The attempt that landed."""

    @property
    def was_crowded(self) -> bool:
        return self.took > _CROWDED * self.attempt


def pause_before(last: LastCommit | None, *, now: float, dice: float) -> float:
    """How long to wait before the first attempt of a commit. `last`: the writer's last commit. `dice`: a random
    number in [0, 1).
    """
    if last is None or not last.was_crowded:
        return 0.0
    # The wait counts from the end of the last commit: a run that has read from Kinesis meanwhile has waited long
    # enough.
    until = last.ended + last.took * (_LEAST + (_MOST - _LEAST) * dice)
    return min(max(until - now, 0.0), AT_MOST)


def pause_after_refusal(last: LastCommit | None, *, attempt: float, waited: float, dice: float) -> float:
    """How long to wait after a refusal. `attempt`: what the refused attempt took. `waited`: what the commit has
    taken so far.

    The pause is random, so that two writers that collided don't collide again, and shorter for a commit that has
    waited longer.
    """
    if waited >= AT_MOST or not attempt:
        return 0.0
    # A writer without a last commit guesses by what this one has taken so far.
    usual = max(attempt, waited if last is None else last.took)
    pause = dice * max(attempt, usual / _CROWD) / (1 + waited / usual)
    return min(pause, AT_MOST - waited)
