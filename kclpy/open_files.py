"""Raises the limit of open files of a process that holds some files for each of many other processes."""

from __future__ import annotations

import resource
from collections.abc import Callable
from contextlib import suppress

_FILES_ON_MACOS = 10_240
"""The most files that a process of macOS may ask to open."""


def open_more_files(set_limit: Callable[[int, tuple[int, int]], None] = resource.setrlimit) -> None:
    """Let this process open as many files as the system allows, because the usual limit is meant for a process on
    its own.
    """
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for number in (most, _FILES_ON_MACOS):
        # macOS states no limit, and takes no such number.
        with suppress(ValueError, OSError):
            set_limit(resource.RLIMIT_NOFILE, (number, most))
            return
