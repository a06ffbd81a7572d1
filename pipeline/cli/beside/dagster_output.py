"""`python -m headrace.pipeline.cli.beside.dagster_output`: print what `headrace dev` shows of Dagster's output,
which is the standard input.

All output is printed as it is, except log entries about failed ticks: a tick that failed for a reason which
Headrace knows becomes one sentence (`failing_sensors`), and a tick that was interrupted by the end of Dagster's
daemon becomes nothing. Dagster's daemon logs a failed tick twice, each time with its own stack and that of the code server: 80
lines for a mistyped name of a stream, every five seconds.
"""

from __future__ import annotations

import errno
import os
import re
import select
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from io import TextIOWrapper
from typing import Final

from headrace.pipeline.cli import discard_output
from headrace.pipeline.cli.beside.failing_sensors import FailingSensors
from headrace.pipeline.cli.beside.storage_troubles import ENTRY as STORAGE_ENTRY
from headrace.pipeline.cli.beside.storage_troubles import StorageTroubles

_ENTRY: Final = re.compile(
    r"(?:\x1b\[\d+m)?(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4})(?:\x1b\[0m)? - "
)
"""How each entry of Dagster's log begins."""
_FAILED_TICK: Final = re.compile(
    r"dagster\.daemon\.SensorDaemon - .*ERROR.* - (?:\x1b\[\d+m)?"
    r"Sensor (?P<which>tick caught an error|daemon caught an error for sensor (?P<sensor>\S+?))(?:\x1b\[0m)?$"
)
_BEGINS: Final = re.compile(
    r"dagster\.daemon\.SensorDaemon - .*Checking for new runs for sensor: ([^\s\x1b]+)"
)
"""How Dagster logs that a tick begins."""
_FIRST: Final = "tick caught an error"
"""The first of the two entries of a failed tick."""
_CAUSED: Final = "The above exception was caused by the following exception:"
_SENSOR: Final = re.compile(r"Error occurred during the execution of evaluation_fn for sensor (\S+)$")
_KNOWN: Final = re.compile(r"headrace\.pipeline\.errors\.\w+: (.*)$")
_STACK: Final = "Stack Trace:"
_OF_A_STACK: Final = re.compile(rf"$|[ ]{{2}}|Traceback \(most|{_STACK}$|dagster\._core\.errors\.")
"""How the lines of a stack begin, and those between two stacks."""
_ENDS: Final = re.compile(r"dagster\.daemon - .*Received interrupt, shutting down daemon threads")
_TOO_LATE: Final = re.compile(
    r"dagster\._core\.errors\.DagsterCodeLocationNotFoundError: Location \S+ does not exist"
)
"""How a tick fails that begins when the daemon has already ended everything else. It has done nothing."""
_LONGEST: Final = 500
"""Lines of an entry that are held back at most."""
_CLOSED: Final = {errno.EPIPE, errno.EIO}
"""What the system answers where the reader of the output has ended, or the terminal was closed."""
_AWAITED: Final = 100
"""Ticks of which the second entry is waited for at most. It never comes as expected where other output is in it."""


@dataclass(slots=True)
class FailedTicks:
    """Replaces the stack traces of failed ticks by a sentence. Each method returns the lines to print."""

    _entry: list[str] = field(default_factory=list)
    """The entry of a failed tick that isn't over yet."""
    _logged_once: deque[list[str]] = field(default_factory=lambda: deque(maxlen=_AWAITED))
    """The stacks of the ticks whose second entry is still to come."""
    _failing: FailingSensors = field(default_factory=FailingSensors)
    _storage: StorageTroubles = field(default_factory=StorageTroubles)
    _has_ended: bool = False
    """Whether the daemon was told to end."""

    def next(self, line: str) -> Iterator[str]:
        if self._entry and (_ENTRY.match(line) or len(self._entry) >= _LONGEST):
            yield from self.end()
        self._has_ended = self._has_ended or bool(_ENDS.search(line))
        if self._entry or _FAILED_TICK.search(line) or STORAGE_ENTRY.search(line):
            self._entry.append(line)
            return
        begins = _BEGINS.search(line)
        if begins and not self._has_ended:
            yield from self._failing.ticks(begins[1])
        yield line

    def end(self) -> Iterator[str]:
        """Called when the output, or a log entry, is over. Returns the lines that are left to print."""
        entry, self._entry = self._entry, []
        if not entry:
            return
        failed, stack = _FAILED_TICK.search(entry[0]), entry[1:]
        now = _time_of(entry[0])
        if (told := self._storage.told(entry, now)) is not None:
            yield from told
            return
        if failed and failed["sensor"]:
            self._failing.stays_failed(failed["sensor"], now)
        if failed and failed["which"] == _FIRST:
            self._logged_once.append(stack)
        elif stack in self._logged_once:
            # Dagster has written the same before.
            self._logged_once.remove(stack)
            return
        if self._has_ended and _TOO_LATE.match(_last_line(stack)):
            return
        known = _known_failure(stack)
        if known is None:
            yield from entry
            return
        yield from self._failing.failed(known.sensor, known.reason, known.more, now)
        yield from known.others


def _last_line(stack: list[str]) -> str:
    return next((line for line in reversed(stack) if line.strip()), "")


def _time_of(line: str) -> datetime:
    entry = _ENTRY.match(line)
    if entry is None:
        raise ValueError(f"no entry of a log: {line!r}")
    return datetime.strptime(entry["time"], "%Y-%m-%d %H:%M:%S %z")


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownFailure:
    """What an entry tells of a tick that failed for a reason which Headrace knows."""

    sensor: str
    reason: str
    more: tuple[str, ...]
    """The further lines of the reason."""
    others: tuple[str, ...]
    """What other processes have printed meanwhile."""


def _known_failure(stack: list[str]) -> _KnownFailure | None:
    """None where the stack has to be printed itself."""
    lines = [line.rstrip("\n") for line in stack]
    if lines.count(_CAUSED) != 1:
        return None
    cause = lines.index(_CAUSED)
    sensors = [match[1] for line in lines[:cause] if (match := _SENSOR.search(line))]
    known = _KNOWN.match(lines[cause + 1]) if cause + 1 < len(lines) else None
    if len(sensors) != 1 or known is None or _STACK not in lines[cause:]:
        return None
    stack_of_cause = lines.index(_STACK, cause)
    end = lines.index("", stack_of_cause) if "" in lines[stack_of_cause:] else len(lines)
    others = (
        line
        for number, line in enumerate(stack)
        if number >= end or (number not in range(cause, stack_of_cause) and not _OF_A_STACK.match(line))
    )
    return _KnownFailure(
        sensor=sensors[0],
        reason=known[1],
        more=tuple(line for line in stack[cause + 2 : stack_of_cause] if line.strip()),
        others=tuple(line for line in others if line.strip()),
    )


def relay(output: Iterable[str]) -> None:
    ticks = FailedTicks()
    for line in output:
        _print(ticks.next(line))
    _print(ticks.end())


def _print(lines: Iterable[str]) -> None:
    # As bytes, which the terminal gets as Dagster has written them.
    unwritten = b"".join(line.encode("utf-8", "surrogateescape") for line in lines)
    output = sys.stdout.fileno()
    while unwritten:
        try:
            unwritten = unwritten[os.write(output, unwritten) :]
        except BlockingIOError:
            # Another program has switched the terminal to not wait.
            select.select([], [output], [])
        except OSError as error:
            # Dagster would wait if nobody read what it writes. A full disk loses these lines only, a closed terminal all.
            if error.errno in _CLOSED:
                discard_output()
            return


if __name__ == "__main__":
    relay(TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="surrogateescape", newline="\n"))
