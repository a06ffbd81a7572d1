"""The places at which tasks meet the processes that outlive them: names of sockets in a folder that is this user's alone."""

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


def meeting_place(*names: str) -> Path:
    """Where the process of these names is met."""
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
    """Let people find the log of this place by these names, of which the last is the shard's: the place itself has a digest,
    because the names of sockets are short. Of two places with the same names, the one that was named last has the link."""
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


def bound(place: Path) -> socket.socket:
    """The door at this place. A process that was killed leaves its name behind, which would keep this one from binding."""
    door = socket.socket(socket.AF_UNIX)
    place.unlink(missing_ok=True)
    door.bind(str(place))
    door.listen(128)
    return door


def number_of(place: Path) -> int:
    """The number of the name, by which a process tells its own from that of another one in its place."""
    return place.stat().st_ino


def is_own(place: Path, number: int) -> bool:
    try:
        return number_of(place) == number
    except FileNotFoundError:
        return False
