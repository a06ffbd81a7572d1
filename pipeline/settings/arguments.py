"""Values as in the settings, as arguments of commands.

Slow imports stand inside functions, so that help and messages about mistyped arguments appear at once.
"""

import argparse
from datetime import datetime, timedelta
from typing import Any


def duration(text: str) -> timedelta:
    """An argument such as 30s or 2m, as in the settings."""
    period: timedelta = _value(timedelta, text, "a duration such as 30s or 2m")
    return period


def moment(text: str) -> datetime:
    """An argument such as 2026-01-31T00:00:00Z, as in the settings."""
    time: datetime = _value(datetime, text, "a moment such as 2026-01-31T00:00:00Z")
    return time


def _value(kind: type, text: str, expected: str) -> Any:
    from headrace.pipeline.settings.values import read_value

    try:
        return read_value(kind, text)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} isn't {expected}") from error
