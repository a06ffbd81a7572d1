"""Parses arguments of commands whose values have the form of settings, such as durations.

Slow imports stand inside functions, so that help and messages about mistyped arguments appear at once.
"""

import argparse
from datetime import datetime, timedelta
from typing import Any


def duration(text: str) -> timedelta:
    """The duration in an argument such as 30s or 2m, the form of the settings."""
    period: timedelta = _value(timedelta, text, "a duration such as 30s or 2m")
    return period


def moment(text: str) -> datetime:
    """The time in an argument such as 2026-01-31T00:00:00Z, the form of the settings."""
    time: datetime = _value(datetime, text, "a moment such as 2026-01-31T00:00:00Z")
    return time


def _value(kind: type, text: str, expected: str) -> Any:
    from headrace.pipeline.settings.values import read_value

    try:
        return read_value(kind, text)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} isn't {expected}") from error
