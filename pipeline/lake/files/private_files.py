"""Local files and folders that only the user who runs Headrace may read, whatever the umask is.

pyarrow, SQLite and pyiceberg create files with the mode that the umask gives, and have no option for it. All of them
keep the mode of an existing file, so an empty private file is created first, and the library then opens it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyarrow import NativeFile, fs

from headrace.pipeline.errors import BadSetting, Unreachable

_FOLDER, _FILE, _UMASK = 0o700, 0o600, 0o077
_WRONG_PLACE = frozenset(
    (
        *(errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS),
        *(errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL),
    )
)
"""Errors that stay until a person names another folder, or changes the mode of this one."""


def make_folder(path: Path, *, private: bool) -> None:
    """Create a folder and its missing parents. An existing folder keeps its mode."""
    if path.is_dir():
        return
    make_folder(path.parent, private=private)
    # Another process may have created the folder meanwhile. If it is a file, the first use as a folder fails.
    with suppress(FileExistsError):
        path.mkdir(_FOLDER if private else 0o777)


def make_named_folder(path: Path, *, private: bool, name: str) -> None:
    """Create a folder that a person has named by a setting or a variable. If that fails, the error tells the
    `name` of the setting or variable.
    """
    try:
        make_folder(path, private=private)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        said = f"{name}: the folder {path} can't be made ({why})"
        # Such as a full disk: the same folder may be made later.
        if isinstance(error, OSError) and error.errno not in _WRONG_PLACE:
            raise Unreachable(f"{said}. Nothing was written; the next try may succeed") from error
        raise BadSetting(
            f"{said}; allowed: a folder in which this user may write. Nothing was written"
        ) from error


def make_private_file(path: Path) -> None:
    """Create an empty file. An existing file keeps its mode and its content."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _FILE))


@contextmanager
def umask(*, private: bool) -> Iterator[None]:
    """Let this process and its children create private files: for commands, which own their process.

    Not for library code: the umask counts for the whole process, and so for threads that aren't Headrace's.
    """
    before = os.umask(_UMASK) if private else None
    try:
        yield
    finally:
        if before is not None:
            os.umask(before)


class PrivateFiles(fs.LocalFileSystem):
    """pyarrow's local file system, which creates private files and folders."""

    def create_dir(self, path: str, *, recursive: bool = True) -> None:
        # Missing parents are always created.
        del recursive
        make_folder(Path(path), private=True)

    def open_output_stream(self, path: str, *args: Any, **how: Any) -> NativeFile:
        make_folder(Path(path).parent, private=True)
        make_private_file(Path(path))
        return super().open_output_stream(path, *args, **how)
