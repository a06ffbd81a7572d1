"""Finds the places of a text in many bytes with a few steps of numpy.

A text of 23 bytes has a whole word of eight bytes at an offset that 16 divides, wherever the text lies; one of
15 bytes has such a word at an offset that 8 divides. So only every second word, or every word, is examined: a
multiplication gives each word a number of twelve bits, and a table of these numbers tells which words may be a
part of the text. Those are compared with the text's own words.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from headrace.pipeline.encoding.cbor import Body

_WORD: Final = 8
_STEPS: Final = (16, 8)
_BITS: Final = 12
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(64 - _BITS)

_Words = np.ndarray[Any, np.dtype[np.uint64]]


@dataclass(frozen=True, slots=True)
class _Table:
    step: int
    is_part: np.ndarray[Any, np.dtype[np.bool_]]
    words: _Words
    offsets: np.ndarray[Any, np.dtype[np.int64]]
    """Where in the text the word with this number is."""


def places_of(text: bytes, body: Body) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """The places in `body` where `text` may be: all of those where it is, and maybe others that share eight bytes
    with it. None where the text is too short, or has the same eight bytes twice.
    """
    table = _table(text)
    if table is None:
        return None
    words: Any = np.frombuffer(body, np.uint64, count=len(body) // _WORD)[:: table.step // _WORD]
    numbers = (words * _FACTOR) >> _SHIFT
    matches = np.flatnonzero(table.is_part[numbers])
    numbers = numbers[matches]
    is_same: Any = table.words[numbers] == words[matches]
    places: np.ndarray[Any, np.dtype[np.int64]] = (matches * table.step - table.offsets[numbers])[is_same]
    return places


@lru_cache(maxsize=8)
def _table(text: bytes) -> _Table | None:
    step = next((step for step in _STEPS if len(text) >= step + _WORD - 1), None)
    if step is None:
        return None
    words = np.array([np.frombuffer(text, np.uint64, 1, offset)[0] for offset in range(step)], np.uint64)
    numbers = ((words * _FACTOR) >> _SHIFT).astype(np.int64)
    if len(np.unique(numbers)) < step:
        return None
    table = _Table(
        step, np.zeros(2**_BITS, np.bool_), np.zeros(2**_BITS, np.uint64), np.zeros(2**_BITS, np.int64)
    )
    table.is_part[numbers], table.words[numbers], table.offsets[numbers] = True, words, np.arange(step)
    return table
