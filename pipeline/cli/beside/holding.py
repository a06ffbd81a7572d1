"""One `headrace dev` or `headrace demo` at a time on each DAGSTER_HOME.

Two Dagster daemons on one DAGSTER_HOME run each sensor twice, and the command that stops first cancels the
runs of the other. The lock is the operating system's (flock) on a file: when the process that holds the lock
ends, even by SIGKILL, the lock is free. The file's text describes that process. The refusal of a second
command quotes it, and the next command finds by it a Dagster that outlived its killed `headrace dev`.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from headrace.pipeline.errors import BadSetting, Unreachable
from headrace.pipeline.lake.files.private_files import make_named_folder
from headrace.resources.home_room import is_writable, why_no_room, why_refused

LOCK = "headrace.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    command: str
    pid: int = field(default_factory=os.getpid)
    since: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    ui: str = ""
    dagster: int | None = None
    """Process id, which is the process group's too; None before Dagster was started."""

    def __str__(self) -> str:
        return f"`{self.command}` (process {self.pid}, since {self.since}, UI at {self.ui})"


@dataclass(slots=True)
class Hold:
    """The lock, while this process holds it."""

    file: TextIO
    holder: Holder
    former: Holder | None
    """The process that held the lock before and was killed, so that it couldn't empty the file; None after a
    clean end."""

    def has_dagster(self, pid: int) -> None:
        self.holder = replace(self.holder, dagster=pid)
        _write(self.file, json.dumps(asdict(self.holder)))


@contextmanager
def home_held(home: Path, holder: Holder, *, private: bool = True) -> Iterator[Hold]:
    """Hold DAGSTER_HOME during the `with` block, or raise an error that says who holds it."""
    make_named_folder(home, private=private, name="DAGSTER_HOME")
    with _opened(home / LOCK) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadSetting(_refusal_of(_read(file), home)) from None
        _require_room(home)
        # Read before it is overwritten: text that is left shows that the process before was killed.
        hold = Hold(file, holder, _read(file))
        _write(file, json.dumps(asdict(holder)))
        try:
            yield hold
        finally:
            # Everything that this process started was stopped; after a SIGKILL the text stays.
            _write(file, "")


def _require_room(home: Path) -> None:
    """Raise an error where Dagster couldn't write into this folder."""
    if not is_writable(home):
        raise BadSetting(
            f"DAGSTER_HOME: {home} can't be written by this user, or its file system is read-only; allowed: a folder in which this "
            "user may write. Nothing was started"
        )
    why = why_no_room(home) or why_refused(home)
    if why is not None:
        raise Unreachable(
            f"DAGSTER_HOME {home} is full: {why}. Nothing was started, and no record is lost while Kinesis keeps it; make room, or set "
            "DAGSTER_HOME to a folder on another disk"
        )


def require_free(home: Path) -> None:
    """Raise an error where another command holds this DAGSTER_HOME, because the caller is about to empty the folder."""
    if (home / LOCK).exists():
        with (home / LOCK).open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BadSetting(_refusal_of(_read(file), home)) from None


def _opened(lock: Path) -> TextIO:
    try:
        # Not "w", which would empty the file before the lock is held.
        return lock.open("a+", encoding="utf-8")
    except OSError as error:
        raise BadSetting(
            f"DAGSTER_HOME: {lock} can't be written ({error.strerror}); allowed: "
            "a folder in which this user may write. Nothing was started"
        ) from error


def home_in_use(who: str, home: Path, to_do: str) -> str:
    """Why no second Dagster starts on this DAGSTER_HOME, in a sentence. `who` is at work there; `to_do` ends that."""
    return (
        f"{who} is running on DAGSTER_HOME {home}, and two Dagsters on one DAGSTER_HOME fail each other's "
        f"runs. Nothing was started or changed; {to_do}, or set another DAGSTER_HOME"
    )


def _refusal_of(holder: Holder | None, home: Path) -> str:
    who = str(holder) if holder else "another headrace command"
    return home_in_use(who, home, "stop that command first (Ctrl-C or `kill`)")


def _read(file: TextIO) -> Holder | None:
    file.seek(0)
    try:
        return Holder(**json.loads(file.read()))
    except (ValueError, TypeError):
        # Empty, half written, or of another version.
        return None


def _write(file: TextIO, text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()
