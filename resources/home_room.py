"""Whether Dagster can write into its DAGSTER_HOME. Dagster itself answers a full disk, and a folder that it may not write
to, with stacks of its database."""

import os
import shutil
import tempfile
from pathlib import Path

ROOM = 20_000_000
"""Bytes that a Dagster needs: its databases, and the files that SQLite writes beside them."""
_PROBE = 1_000_000
"""Bytes that are written to see whether a quota allows them. No system call tells of all kinds of quotas."""


def is_writable(home: Path) -> bool:
    """Whether this user may write into the folder. Writes nothing."""
    return os.access(home, os.W_OK | os.X_OK)


def why_no_room(home: Path, needed: int = ROOM) -> str | None:
    """Why Dagster can't work with this DAGSTER_HOME; None where it has room. Writes nothing."""
    try:
        total, _, free = shutil.disk_usage(home)
    except OSError as error:
        return f"it can't be looked at ({error.strerror})"
    # Some file systems tell no sizes at all.
    if free >= needed or not total:
        return None
    return f"its disk has {free / 1e6:,.1f} MB left, and Dagster needs {ROOM / 1e6:,.0f} MB"


def why_refused(home: Path) -> str | None:
    """Why a file can't be written there; None where it can. It is written and deleted, which finds a quota that is used up, too."""
    try:
        with tempfile.TemporaryFile(dir=home) as probe:
            probe.write(bytes(_PROBE))
            probe.flush()
    except OSError as error:
        return f"a file of 1 MB can't be written there ({error.strerror})"
    return None
