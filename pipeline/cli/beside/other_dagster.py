"""A Dagster that somebody else has started on this DAGSTER_HOME, such as by `dagster dev` or `dagster-daemon run`.

Two daemons run each sensor twice, and each fails the runs of the other. The lock of `headrace.pipeline.cli.beside.holding`
knows only Headrace's own commands. So two things are looked at:

    the processes of this host (Linux)    a daemon whose environment names this DAGSTER_HOME: refused at once
    the heartbeats in Dagster's storage   a daemon writes one every 30 s. A fresh one may be that of a daemon that has
                                          just ended: only a second, newer one is of a living daemon, on another host
                                          or in another container
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.pipeline.cli.beside.holding import home_in_use
from headrace.pipeline.errors import BadSetting

# Pieces of the command lines of Dagster's daemon, under `dagster dev` and alone.
_DAEMONS = ("dagster._daemon run", "dagster-daemon run")
_DEV = "dagster dev"
# Seconds from one heartbeat of a daemon to its next.
_BEAT = 30.0
# Seconds by which a heartbeat of a busy machine may come late.
_LATE = 3.0
_LOOK_EVERY = 1.0
_PROCESSES = Path("/proc")

Beats = Callable[[], Mapping[str, float]]
"""The time of the newest heartbeat of each daemon, in seconds since 1970, by the daemon's id."""


@dataclass(frozen=True, slots=True)
class OtherDagster:
    pid: int
    command: str

    def __str__(self) -> str:
        return f"`{self.command}` (process {self.pid})"


def require_alone(home: Path, *, say: Callable[[str], None]) -> None:
    """Raise an error where another Dagster is at work on this DAGSTER_HOME. Waits for half a minute at most to
    find out.
    """
    require_no_process(home)
    # Without this file no Dagster has ever been at work here, and its storage would be made by a look.
    if (home / "dagster.yaml").exists():
        require_no_beat(home, lambda: _beats_in(home), say=say)


def require_no_process(home: Path) -> None:
    daemon = next(processes_on(home), None)
    if daemon is not None:
        raise BadSetting(home_in_use(str(daemon), home, "stop that one first (Ctrl-C or `kill`)"))


def require_no_beat(
    home: Path,
    beats: Beats,
    *,
    say: Callable[[str], None],
    now: Callable[[], float] = time.time,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    before = beats()
    newest = max(before.values(), default=0.0)
    # A heartbeat of the future is that of a host with another clock: it is waited for as a new one is.
    until = min(newest, now()) + _BEAT + _LATE
    if until <= now():
        return
    say(
        f"a Dagster daemon was at work on DAGSTER_HOME {home} {max(0, now() - newest):.0f} s ago: "
        f"waiting for {until - now():.0f} s at most to see whether it still is"
    )
    while now() < until:
        pause(_LOOK_EVERY)
        if any(beat > before.get(daemon, newest) for daemon, beat in beats().items()):
            raise BadSetting(
                home_in_use(
                    "a Dagster daemon that isn't a process of this host", home, "stop it where it runs first"
                )
            )


def processes_on(home: Path, processes: Path = _PROCESSES) -> Iterator[OtherDagster]:
    """Dagster's daemons on this DAGSTER_HOME; in the place of a daemon that a `dagster dev` has started, that
    command.
    """
    resolved = home.resolve()
    for folder in processes.glob("[0-9]*"):
        # A process may end while it is looked at, and one of another user can't be looked at.
        with suppress(OSError):
            command = _command(folder)
            if any(mark in command for mark in _DAEMONS) and _home_of(folder) == resolved:
                parent = processes / _parent(folder)
                starter = _command(parent) if parent.exists() else ""
                yield (
                    OtherDagster(int(parent.name), starter)
                    if _DEV in starter
                    else OtherDagster(int(folder.name), command)
                )


def _command(process: Path) -> str:
    # The kernel separates the arguments by zero bytes.
    return os.fsdecode((process / "cmdline").read_bytes()).replace("\0", " ").strip()


def _home_of(process: Path) -> Path | None:
    for variable in (process / "environ").read_bytes().split(b"\0"):
        name, _, value = variable.partition(b"=")
        if name == b"DAGSTER_HOME" and value:
            # Two names of one folder, such as a link and its target, are the same home.
            return Path(os.fsdecode(value)).resolve()
    return None


def _parent(process: Path) -> str:
    # After the name, which is in brackets and may have spaces: state, parent, ...
    return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]


def _beats_in(home: Path) -> Mapping[str, float]:
    from headrace.resources.daemons import beats_in

    try:
        return beats_in(home)
    except Exception:  # noqa: BLE001 - a storage that can't be opened is told by Dagster itself, a moment later
        return {}
