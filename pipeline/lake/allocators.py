"""Freed memory goes back to the system, so that a task's peak isn't that of an allocator's leftovers.

Sixteen threads take and free buffers of 10 MiB. glibc keeps a heap for each thread, and both glibc and Arrow keep freed memory for
later: of a task's peak, that was the larger half. Where the C library isn't glibc, only Arrow gives memory back.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from typing import Final

import pyarrow as pa

_ARENA_MAX: Final = -8
"""M_ARENA_MAX of glibc's malloc.h."""
_ARENAS: Final = 2


@cache
def use_few_heaps() -> None:
    """From now on all threads of this process share two heaps of glibc. Heaps that exist already stay."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Give freed memory back to the system. It takes a millisecond or two, so it is worth it after a row group, not after a page."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
