"""A door between a deployment and the stand-in of AWS, through which all requests pass, and the CPU of all processes at a moment. No
benchmark by itself."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
HELLO = b"the asset has begun"
"""What an asset that reads nothing sends to the door when it begins."""
_GET_RECORDS = b"Kinesis_20131202.GetRecords"
_TICKS = os.sysconf("SC_CLK_TCK")


class Door:
    """Calls `on_first` once, before the first answer to GetRecords goes through, or when an asset says hello."""

    def __init__(self, behind: int) -> None:
        self.on_first: Callable[[], None] | None = None
        self._behind = behind
        self._once = threading.Lock()
        self._listening = socket.create_server((HOST, 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            came, _ = self._listening.accept()
            threading.Thread(target=self._serve, args=(came,), daemon=True).start()

    def _serve(self, came: socket.socket) -> None:
        asks_for_records = threading.Event()
        with came, socket.create_connection((HOST, self._behind)) as behind, suppress(ConnectionError):
            threading.Thread(target=self._answer, args=(behind, came, asks_for_records), daemon=True).start()
            before = b""
            while data := came.recv(65536):
                if data == HELLO:
                    self._first()
                    return
                if _GET_RECORDS in before + data:
                    asks_for_records.set()
                before = data[-len(_GET_RECORDS) :]
                behind.sendall(data)

    def _answer(self, behind: socket.socket, came: socket.socket, asks_for_records: threading.Event) -> None:
        with suppress(OSError):  # one of the two has closed the connection
            while data := behind.recv(65536):
                if asks_for_records.is_set():
                    self._first()
                came.sendall(data)

    def _first(self) -> None:
        with self._once:
            tell, self.on_first = self.on_first, None
        if tell is not None:
            tell()


@dataclass(frozen=True, slots=True)
class Process:
    parent: int
    own: float
    """CPU seconds of the process."""
    ended: float
    """CPU seconds of its children that have ended."""
    command: str

    def since(self, before: Process | None) -> float:
        """CPU seconds since then. The children of a process that has begun since then have begun since then, too."""
        return self.own + self.ended if before is None else self.own - before.own


def processes() -> dict[int, Process]:
    """All processes of this machine, by their ids."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # the process has ended
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                own, ended = (sum(map(int, fields[n : n + 2])) / _TICKS for n in (11, 13))
                command = (entry / "cmdline").read_text(errors="replace").replace("\0", " ")
                found[int(entry.name)] = Process(int(fields[1]), own, ended, command)
    return found


def below(roots: Iterable[int], of: Mapping[int, Process]) -> Iterator[int]:
    """Processes that these have started, and that those have started, and so on."""
    for pid, each in of.items():
        if each.parent in roots:
            yield pid
            yield from below((pid,), of)
