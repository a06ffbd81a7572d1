"""Makes a staging task reuse the memory that its C library (glibc) has allocated.

A task takes and frees a body of up to 10 MiB with each page. glibc by itself gives such memory back to the system
at once, and the system fills it with zeros before it is given out again, which took a third of a task's CPU. It
also keeps a heap for each thread, and of a task's peak the free memory in sixteen heaps was the larger half.
Where the C library isn't glibc, nothing is changed.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
"""Numbers in glibc's malloc.h."""
_HEAPS: Final = 1
_LARGEST: Final = 32 * 1024 * 1024
"""Larger pieces of memory come from the system and go back to it. glibc allows no higher limit."""
_KEPT: Final = 1024 * 1024 * 1024
"""So much free memory at a heap's end isn't given back: more than a task ever has."""


@cache
def keep_memory() -> None:
    """Let the process keep memory that is freed. From now on all threads of this process share one heap of glibc,
    which keeps what they free until the process ends. Spark ends a worker after a minute without a task. Heaps that
    exist already stay."""
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        for option, value in ((_ARENA_MAX, _HEAPS), (_MMAP_THRESHOLD, _LARGEST), (_TRIM_THRESHOLD, _KEPT)):
            library.mallopt(option, value)
