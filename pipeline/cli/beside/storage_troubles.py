"""What `headrace dev` says where Dagster's daemons can't use their storage, as on a full disk: each of them logs each time a
stack of its database, hundreds of lines a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from headrace.pipeline.cli.beside.reminders import Reminders

ENTRY: Final = re.compile(
    r"dagster\.daemon(\.\w+)? - .*(ERROR|WARNING).* - .*(Failed to add heartbeat|[Cc]aught (an )?error|Error attempting to check daemon)"
)
"""How an entry of the log begins in which a daemon tells of an error, beside those of sensors' ticks."""
_REASON: Final = re.compile(
    r"sqlite3\.OperationalError\S* (?P<why>disk I/O error|database or disk is full|attempt to write a readonly database"
    r"|unable to open database file)|(?P<room>No space left on device|Disk quota exceeded)"
)
_STACK: Final = re.compile(
    r"\s|$|\x1b|Traceback \(most|Stack Trace:|The above exception|During handling|sqlite3\.|sqlalchemy\.|\(Background on|"
    r"dagster\._|OSError: "
)
_STATEMENT: Final = re.compile(r"\[(SQL|parameters): ")
_OVER: Final = timedelta(minutes=10)
"""Daemons beat each half a minute: after so long without an error it is over."""


@dataclass(slots=True)
class StorageTroubles:
    """Times are those of Dagster's log."""

    _reminders: Reminders | None = None
    _last: datetime | None = None

    def told(self, entry: Sequence[str], now: datetime) -> list[str] | None:
        """What to print in the place of this entry; None where it tells of something else."""
        reason = next((found for line in entry if (found := _REASON.search(line))), None)
        if reason is None:
            return None
        why = reason["why"] or reason["room"]
        return [*self._sentence(why, now), *_foreign(entry[1:])]

    def _sentence(self, why: str, now: datetime) -> Iterator[str]:
        if self._reminders is None or self._last is None or now - self._last > _OVER:
            self._reminders = Reminders(now)
            yield (
                f"headrace: Dagster's storage can't be used ({why}), so that no tick and no run begins, and nothing more lands. No landed "
                "record is touched, and Kinesis keeps the others; make room in DAGSTER_HOME, or give the right to write there\n"
            )
        elif self._reminders.is_due(now):
            yield f"headrace: Dagster's storage still can't be used, since {self._reminders.since:%Y-%m-%d %H:%M:%S %z} ({why})\n"
        self._last = now


def _foreign(lines: Sequence[str]) -> Iterator[str]:
    """What other processes have printed meanwhile: no part of a stack, nor of a statement of SQL, which has several lines."""
    in_statement = False
    for line in lines:
        in_statement = in_statement or bool(_STATEMENT.match(line))
        if in_statement:
            in_statement = not line.rstrip().endswith("]")
        elif not _STACK.match(line):
            yield line
