"""What the permissions of files are, for tests of who may read them."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def usual_umask() -> Iterator[None]:
    """As most systems have it: whoever is on the machine may read new files."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def modes_below(folder: Path) -> dict[str, str]:
    """Path from the folder -> octal mode, of all that lies in it and of the folder itself."""
    found = [folder, *folder.rglob("*")]
    return {path.relative_to(folder).as_posix(): mode_of(path) for path in found if not path.is_symlink()}


def open_to_others(folder: Path) -> dict[str, str]:
    return {path: mode for path, mode in modes_below(folder).items() if int(mode, 8) & 0o077}


def mode_of(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))
