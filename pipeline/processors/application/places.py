"""Places where tasks find the processes that outlive them: names of sockets in a folder that only this user may
open.
"""

from __future__ import annotations

import os
import re
import socket
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from headrace.pipeline.errors import Unreachable

_LONGEST_NAME = 200
LONGEST_LOG = 16 * 1024 * 1024
"""Bytes of a log, of which the newer half stays where it has become longer."""
OLDEST_LOG = 7 * 24 * 3600.0
"""Seconds that the log of a process stays after its end."""


def meeting_place(*names: str) -> Path:
    """The place (a socket's path) of the process with these names."""
    folder = Path(tempfile.gettempdir(), f"headrace-kept-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    # The folder for temporary files is everybody's. Whoever made this one first could read the
    # records that pass through its socket.
    facts = folder.lstat()
    if facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise Unreachable(
            f"the folder {folder} belongs to somebody else, or others may write into it, so that no process of a processor "
            "was started; remove it"
        )
    return folder / sha256("\n".join(names).encode()).hexdigest()[:32]


def log_of(place: Path) -> Path:
    """The file to which the newest process of this place writes its stderr."""
    return place.with_suffix(".log")


def name_log(place: Path, *names: str) -> None:
    """Make a link to the log of this place, by these names, so that people find it; the last name is the shard's.
    The place itself has a digest as its name, because the names of sockets are short. Where two places have the
    same names, the link leads to the one that was named last.
    """
    # ASCII, of which a file's name has at most 255 characters. The end is kept: it tells the shards apart.
    text = re.sub(r"[^\w.-]+", "_", "-".join(names), flags=re.ASCII)[-_LONGEST_NAME:]
    link, target = place.with_name(f"{text}.log"), log_of(place).name
    if link.is_symlink() and str(link.readlink()) == target:
        return
    new = place.with_suffix(".link")
    # Another task of this shard may do the same at this moment.
    with suppress(FileExistsError, FileNotFoundError):
        new.unlink(missing_ok=True)
        new.symlink_to(target)
        new.replace(link)


def shorten_log(place: Path) -> None:
    """Keep only the newer half of a log that has become too long. The process goes on writing at the log's end."""
    log = log_of(place)
    # The process may not have begun, or somebody has deleted its log.
    with suppress(FileNotFoundError), log.open("r+b") as content:
        if content.seek(0, os.SEEK_END) <= LONGEST_LOG:
            return
        content.seek(-LONGEST_LOG // 2, os.SEEK_END)
        rest = content.read()
        content.truncate(0)
        with log.open("ab") as end:
            end.write(b"(older lines of this log were deleted)\n" + rest.partition(b"\n")[2])


def forget_old_logs(folder: Path, now: float) -> None:
    """Delete the logs of processes that ended long ago, and links to logs that don't exist."""
    for log in folder.glob("*.log"):
        with suppress(FileNotFoundError):
            # A name may be there for a moment before its log is.
            is_old = now - log.lstat().st_mtime > OLDEST_LOG
            is_over = not log.exists() if log.is_symlink() else not log.with_suffix("").exists()
            if is_old and is_over:
                log.unlink()


def bound(place: Path) -> socket.socket:
    """A socket that listens at this place. The socket file of a process that was killed is removed first, because
    it would prevent that.
    """
    door = socket.socket(socket.AF_UNIX)
    place.unlink(missing_ok=True)
    door.bind(str(place))
    door.listen(128)
    return door


def number_of(place: Path) -> int:
    """The inode number of the place's socket file, by which a process tells whether another one has taken its place."""
    return place.stat().st_ino


def is_own(place: Path, number: int) -> bool:
    try:
        return number_of(place) == number
    except FileNotFoundError:
        return False
