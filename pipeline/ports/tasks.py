"""The port of Spark's tasks: a function of a number, run once for each number, whose answers are a few bytes each.

Rows never pass through it: a task reads and writes files by itself, and answers with a report.
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
    """What people are told of a job that failed: "the Spark job that <does> failed: <why>. <safe>"."""

    does: str
    safe: str
    """What is safe, and what to do next, as whole sentences without the last full stop."""


class Tasks(Protocol):
    @property
    def cores(self) -> int:
        """How many tasks run at the same time."""
        ...

    def run(self, count: int, work: Work, job: Job) -> list[bytes]:
        """The answers of tasks 0 to `count`, in any order. Raises Unreachable where the job failed."""
        ...


def packed(items: Sequence[_Item], *, cores: int) -> tuple[tuple[_Item, ...], ...]:
    """What each task gets: neighbours together, so that a task reads few files."""
    count = min(len(items), cores * _TASKS_A_CORE)
    return tuple(tuple(items[len(items) * n // count : len(items) * (n + 1) // count]) for n in range(count))
