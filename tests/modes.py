"""The permissions of files, for tests of which users may read them."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def usual_umask() -> Iterator[None]:
    """The umask of most systems, by which all users of the machine may read new files."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def modes_below(folder: Path) -> dict[str, str]:
    """The octal modes of the folder and of everything in it, by relative path."""
    modes: dict[str, str] = {}
    for path in (folder, *folder.rglob("*")):
        # A running SQLite deletes its -wal files.
        with suppress(FileNotFoundError):
            if not path.is_symlink():
                modes[path.relative_to(folder).as_posix()] = mode_of(path)
    return modes


def open_to_others(folder: Path) -> dict[str, str]:
    return {path: mode for path, mode in modes_below(folder).items() if int(mode, 8) & 0o077}


def mode_of(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))
