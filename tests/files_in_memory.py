"""The folders of tests (`tmp_path`) in memory: a third of the time of tests on Iceberg was waiting for the disk.

SQLite, which holds the catalog, waits for the disk at each commit, and whenever the last connection to a file is closed.
"""

import os
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ENOUGH = 4 << 30
"""Bytes that have to be free: the whole suite in three processes needs less than half of that."""


def put_test_folders_in_memory() -> None:
    """Where the machine has enough of such memory, and where nobody has said another place."""
    if "PYTEST_DEBUG_TEMPROOT" not in os.environ and _is_fit(_MEMORY):
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(_MEMORY)


def _is_fit(folder: Path) -> bool:
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return False
    place = os.statvfs(folder)
    # Tests install programs into their folders and run them. Docker's own /dev/shm has 64 MB and forbids that.
    return place.f_bavail * place.f_frsize >= _ENOUGH and not place.f_flag & os.ST_NOEXEC
