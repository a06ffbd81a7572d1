"""Checks of a GetRecords answer, before any part of it is used.

A sequence number that is lower than the one before, or an arrival in the year 9999, would move a position
past unread records, or hide that records were lost. So nothing of such an answer lands. The checks use Arrow
on whole pages, and cost 0.05 us a record.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise, starmap
from operator import lt
from typing import Any, Final

from headrace.pipeline.core.shards.shard import HashRange

# The most digits of a sequence number, by Kinesis's API.
_LONGEST: Final = 129
# How far an arrival may be after the answer's Date. Arrivals are approximate, but both times are by
# Kinesis's clocks.
_AHEAD: Final = timedelta(hours=1)
# Ten times Kinesis's longest retention (365 days).
_OLDEST: Final = timedelta(days=3660)


class Absurd(Exception):
    """An answer of Kinesis can't be right. The argument is the reason, which never quotes a value that a producer
    chose.
    """


def check_numbers(column: Any) -> tuple[int, int]:
    """The first and the last sequence number of a page. Raises Absurd unless the numbers grow from record to record.

    `column`: the numbers, as an Arrow column of texts.
    """
    import pyarrow.compute as pc

    lengths: Any = pc.min_max(pc.binary_length(column)).as_py()
    if lengths["max"] > _LONGEST or not pc.all(pc.ascii_is_decimal(column)).as_py():
        index = next(n for n, number in enumerate(column.to_pylist()) if not _is_number(number))
        raise Absurd(f"the sequence number of record {index + 1} of {len(column)} isn't a number")
    if lengths["min"] == lengths["max"]:
        # Numbers with the same count of digits compare as text, which Arrow does for the whole page at once.
        # Without `min_count=0`, `all` gives null for a page of one record, which has no pairs to compare.
        grows = pc.all(pc.less(column[:-1], column[1:]), min_count=0).as_py()
    else:
        grows = all(starmap(lt, pairwise(map(int, column.to_pylist()))))
    if not grows:
        index = next(n for n, (a, b) in enumerate(pairwise(map(int, column.to_pylist()))) if a >= b)
        raise Absurd(
            f"the sequence number of record {index + 2} of {len(column)} isn't higher than that of the record before it"
        )
    return int(column[0].as_py()), int(column[-1].as_py())


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST


def check_number(text: str, what: str) -> None:
    """Raise Absurd for a text that can't be a sequence number. `what`: its name in the message."""
    if not _is_number(text):
        raise Absurd(f"{what} isn't a number")


def check_arrivals(arrivals: Any, answered: datetime) -> None:
    """Raise Absurd for arrival times that can't be right. `arrivals`: a numpy array of seconds since 1970."""
    # A comparison with NaN is false, so that NaN is refused too.
    right = (arrivals >= 0) & (arrivals <= (answered + _AHEAD).timestamp())
    if not right.all():
        raise Absurd(
            f"record {int(right.argmin()) + 1} of {len(arrivals)} arrived before 1970 or more than an hour "
            "after the answer itself"
        )


def check_behind(milliseconds: int) -> timedelta:
    if not 0 <= milliseconds <= _OLDEST // timedelta(milliseconds=1):
        raise Absurd(f"MillisBehindLatest is {milliseconds}")
    return timedelta(milliseconds=milliseconds)


def check_range(shard: str, start: str, end: str) -> HashRange:
    try:
        return HashRange(int(start), int(end))
    except ValueError:
        raise Absurd(f"the hash key range of shard {shard} isn't a range of numbers") from None


def check_after(first: int | None, after: int | None) -> None:
    """Raise Absurd unless the page begins after `after`, the sequence number of the last record before it."""
    if first is not None and after is not None and first <= after:
        raise Absurd(f"the page's first record isn't after {after}, from where the request asked to go on")
