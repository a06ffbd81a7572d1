"""The local Spark servers of this user on this host, as `headrace status` and `headrace doctor` show them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headrace.pipeline.core.words.words import counted
from headrace.pipeline.lake.spark.server import key as server_key
from headrace.pipeline.lake.spark.server.joining import STAYS
from headrace.pipeline.lake.spark.server.key import ServerKey
from headrace.pipeline.lake.spark.server.process import ServerProcess, processes_of_user
from headrace.pipeline.lake.spark.server.users import User, users_of
from headrace.pipeline.lake.spark.server.watch import UNUSED, is_watched

_TOLD = 3
"""So many users are named."""
_MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalServer:
    process: ServerProcess
    since: datetime
    key: ServerKey | None
    """None for a server that Headrace hasn't started, or that was given by its file."""
    users: tuple[User, ...] = ()
    is_watched: bool = False
    ends: datetime | None = None
    """When the server ends by itself; None while it has users, and where nothing watches it."""

    def is_own(self, folder: Path) -> bool:
        """Whether this is the server in the folder `folder`, which the calling process would join."""
        return self.process.folder == folder

    def is_of_project(self, key: ServerKey) -> bool:
        return self.key is not None and self.key.is_of_project(key)

    def __str__(self) -> str:
        size = f"{self.process.memory / _MB:,.0f} MB"
        return f"process {self.process.pid}, since {_time(self.since)}, {size} of memory, {self._use()}"

    def _use(self) -> str:
        if self.users:
            named = [str(user) for user in self.users[:_TOLD]]
            more = (
                [f"{counted(len(self.users) - _TOLD, 'more process', 'more processes')}"]
                if len(self.users) > _TOLD
                else []
            )
            end = (
                f"it ends {STAYS.total_seconds() / 60:.0f} minutes after its last user"
                if self.is_watched
                else _UNWATCHED
            )
            return f"used by {', '.join((*named, *more))}; {end}"
        if self.process.folder is None:
            return "which Headrace hasn't started"
        if not self.is_watched:
            return f"used by no process; {_UNWATCHED}"
        return (
            f"used by no process; it ends by itself at {_time(self.ends)}"
            if self.ends
            else "used by no process; it ends by itself"
        )

    def as_json(self) -> dict[str, object]:
        return {
            "pid": self.process.pid,
            "since": self.since.isoformat(timespec="seconds"),
            "memory_bytes": self.process.memory,
            "users": [{"name": user.name, "pid": user.pid} for user in self.users],
            "ends": self.ends.isoformat(timespec="seconds") if self.ends else None,
            "is_watched": self.is_watched,
        }


_UNWATCHED = "the process that would end it was killed, and the next process that joins it starts another"


def servers_of_user() -> list[LocalServer]:
    now = datetime.now(UTC)
    return [_server(process, now) for process in processes_of_user()]


def _server(process: ServerProcess, now: datetime) -> LocalServer:
    since = now - timedelta(seconds=process.age)
    folder = process.folder
    if folder is None or not folder.is_dir():
        return LocalServer(process=process, since=since, key=None)
    return LocalServer(
        process=process,
        since=since,
        key=server_key.read(folder),
        users=users_of(folder),
        is_watched=is_watched(folder),
        ends=_end(folder),
    )


def _end(folder: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(json.loads((folder / UNUSED).read_text(encoding="utf-8"))["ends"], UTC)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
