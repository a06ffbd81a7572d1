"""The port of Spark's tasks: a function of a number is run once for each number, and returns a few bytes each time.

Rows never pass through this port: a task reads and writes files by itself, and returns a report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

_Item = TypeVar("_Item")
_TASKS_A_CORE = 4
"""More tasks than cores, so that a slow one doesn't hold up the others."""

Now = Callable[[], datetime]
Work = Callable[[int, Now], bytes]
"""A function inside of a function: Spark pickles such a function whole, with the values that it uses, and its imports
run on the worker, from the shipped zip. The second argument tells the time of the host on which the task runs."""


@dataclass(frozen=True, slots=True)
class Job:
    """The words in which a failed job is reported to people: "<name> failed: <why>. <safe>"."""

    name: str
    """The job in words, such as `the Spark job that compares rows`."""
    safe: str
    """What is safe, and what to do next, as whole sentences without the last full stop."""


class Tasks(Protocol):
    @property
    def cores(self) -> int:
        """How many tasks run at the same time."""
        ...

    def run(self, count: int, work: Work, job: Job) -> list[bytes]:
        """Run `count` tasks, numbered from 0, and return the bytes that they returned, in any order. Raises
        Unreachable where the job failed.
        """
        ...


def packed(items: Sequence[_Item], *, cores: int) -> tuple[tuple[_Item, ...], ...]:
    """The items for each task: neighbours together, so that a task reads few files."""
    count = min(len(items), cores * _TASKS_A_CORE)
    return tuple(tuple(items[len(items) * n // count : len(items) * (n + 1) // count]) for n in range(count))
