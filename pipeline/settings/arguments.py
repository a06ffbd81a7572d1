"""Values as in the settings, as arguments of commands.

Slow imports stand inside functions, so that help and messages about mistyped arguments appear at once.
"""

import argparse
from datetime import timedelta


def duration(text: str) -> timedelta:
    """An argument such as 30s or 2m, as in the settings."""
    from headrace.pipeline.settings.values import read_value

    try:
        period: timedelta = read_value(timedelta, text)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a duration such as 30s or 2m") from error
    return period
