"""How often Dagster's daemon ticks a sensor."""

from datetime import timedelta


def interval(tick: timedelta) -> int:
    """A sensor's `minimum_interval_seconds`, so that the daemon ticks it every `tick`.

    The daemon looks every 5 s whether the interval has passed since the last tick began. An interval of just
    5 s may not have passed when the daemon looks, and the sensor would tick every 10 s: one second less is
    asked for.
    """
    return max(1, int(tick.total_seconds()) - 1)
