"""Decodes many payloads of one schema at once to columns. Payloads that differ from most others are decoded by a
library, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.pipeline.typed.formats.decoder import Payloads, Read, Reasons
from headrace.pipeline.typed.formats.lanes import FEWEST

Columns = Callable[[list[bytes]], tuple["pa.Array[Any]", Any]]
"""The rows of payloads, and which of them are left to the library, as an array of numpy's."""


def side_by_side(columns: Columns, library: Read, a_byte: float, most: int) -> Read:
    """A function that reads many payloads at once, and by `library` those that can't be read so.

    `a_byte`: the most values that one byte of a payload can make. `most`: the most values that are made at once.
    """

    def read(payloads: Payloads) -> Iterator[tuple[pa.Array[Any], Reasons]]:
        wanted = [place for place, payload in enumerate(payloads) if payload is not None]
        given = [payload for payload in payloads if payload is not None]
        is_much = a_byte * sum(map(len, given)) > most
        # A step of numpy costs the same for one lane as for hundreds: for fewer than 256 payloads
        # the library is quicker.
        if len(given) < FEWEST or is_much:
            if is_much and len(given) > FEWEST:
                half = len(payloads) // 2
                yield from read(payloads[:half])
                yield from read(payloads[half:])
            else:
                yield from library(payloads)
            return
        try:
            rows, is_left = columns(given)
        except MemoryError:
            raise
        # Whatever numpy or Arrow raise on hostile bytes: the library judges each payload alone.
        except Exception:  # noqa: BLE001
            yield from library(payloads)
            return
        reasons: Reasons = [None] * len(payloads)
        places = np.full(len(payloads), -1)
        places[wanted] = np.arange(len(given))
        # The library's reason counts for what the lanes have left, so that a payload has the same
        # reason alone and among others.
        if is_left.any():
            left = np.flatnonzero(is_left)
            by_library, judged = _whole(library([given[place] for place in left]))
            places[np.array(wanted)[left]] = len(given) + np.arange(len(left))
            for place, why in zip(left, judged, strict=True):
                reasons[wanted[place]] = why
            rows = pa.concat_arrays([rows, by_library])
        elif len(given) == len(payloads):
            yield rows, reasons
            return
        yield rows.take(pa.array(places, mask=places < 0)), reasons

    return read


def _whole(parts: Iterator[tuple[pa.Array[Any], Reasons]]) -> tuple[pa.Array[Any], Reasons]:
    rows, reasons = zip(*parts, strict=True)
    return pa.concat_arrays(rows), [why for part in reasons for why in part]
