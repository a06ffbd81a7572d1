"""Virtual time: tasks of plain synchronous code that take turns at every port call, and nothing else runs.

A task is a greenlet of a process; processes live on hosts and can be frozen and killed. What happens next is
the heap's first entry, so that the same seed is the same history.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet


class Killed(BaseException):
    """SIGKILL: nothing after it happens, not even a release."""


class Process:
    """What dies, sleeps and loses its memory together."""

    __slots__ = (
        "alive",
        "began",
        "claim",
        "frozen_until",
        "host",
        "known",
        "loaded",
        "looked_at_workers",
        "name",
        "on_death",
        "scans",
        "tasks",
        "worker",
    )

    def __init__(self, name: str, host: Any, worker: str = "") -> None:
        self.name = name
        self.host = host
        self.worker = worker
        """Of a run: whose it is."""
        self.claim = ""
        self.alive = True
        self.frozen_until = -1e9
        self.tasks: dict[Task, None] = {}
        self.began: dict[str, float] = {}
        """When each worker's tick that is at work, or was last, began."""
        self.known: dict[str, Any] = {}
        """What modules keep between ticks."""
        self.loaded = 0.0
        """When it last looked at the lake table."""
        self.looked_at_workers = 0.0
        self.on_death: Callable[[], None] | None = None
        self.scans: Any = None
        """The listing that this process saw last."""

    def __str__(self) -> str:
        return self.name


class Task:
    __slots__ = ("greenlet", "over", "process", "work")

    def __init__(self, process: Process, work: Callable[[], None]) -> None:
        self.process = process
        self.work = work
        self.over = False
        self.greenlet: greenlet | None = None
        """Once it has begun."""


class _End:
    """Marks the end of a stretch of time in the heap."""


class Scheduler:
    def __init__(self) -> None:
        self.now = 0.0
        self.current: Task | None = None
        self._heap: list[tuple[float, int, Any]] = []
        self._count = 0
        self._hub = getcurrent()
        self._processes: list[Process] = []
        self._idle: list[greenlet] = []
        """Whose task is over: to make a new one costs as much as twenty calls of a port."""

    def at(self, when: float, what: Callable[[], object] | Task | _End) -> None:
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, what))

    def after(self, seconds: float, what: Callable[[], object]) -> None:
        self.at(self.now + seconds, what)

    def a_process(self, name: str, host: Any, worker: str = "") -> Process:
        made = Process(name, host, worker)
        self._processes.append(made)
        return made

    def spawn(self, process: Process, work: Callable[[], None], after: float = 0.0) -> Task:
        """A new thread of a process."""
        task = Task(process, work)
        process.tasks[task] = None
        self.at(self.now + after, task)
        return task

    def _tasks(self) -> None:
        """One after another, in one greenlet."""
        while True:
            task = self.current
            if task is None:
                raise AssertionError("only a task begins here")
            try:
                task.work()
            except Killed:
                pass
            finally:
                task.over = True
                task.process.tasks.pop(task, None)
            self._idle.append(getcurrent())
            self._hub.switch()

    def pause(self, seconds: float) -> None:
        """The task at work sleeps. Where nothing else happens before it wakes, only the clock moves."""
        task = self.current
        if task is None:
            raise AssertionError("only a task can pause")
        if task.over:
            raise Killed  # what it does last takes no time
        when = self.now + seconds
        heap = self._heap
        soon, _, what = heap[0]
        if soon > when:
            self.now = when
            return
        self._count += 1
        is_at_work = what.__class__ is Task and not what.over and what.greenlet is not None
        if not is_at_work or what.process.frozen_until > soon:
            heapq.heappush(heap, (when, self._count, task))
            self._hub.switch()
            return
        # Next is a task at work as well: it needs no hub to go on.
        heapq.heapreplace(heap, (when, self._count, task))
        self.now = max(self.now, soon)
        self.current = what
        what.greenlet.switch()

    def park(self) -> None:
        """The task at work sleeps until somebody wakes it."""
        self._hub.switch()

    def wake(self, task: Task) -> None:
        self.at(self.now, task)

    def run(self, until: float) -> None:
        heap, end = self._heap, _End()
        self.at(until, end)
        while True:
            when, _, what = heapq.heappop(heap)
            self.now = max(self.now, when)
            if what.__class__ is Task:
                self._resume(what)
            elif what is end:
                return
            else:
                what()

    def _resume(self, task: Task) -> None:
        if task.over:
            return
        process = task.process
        if process.frozen_until > self.now:
            # Looked at again now and then: a scenario may thaw it early.
            self.at(min(process.frozen_until, self.now + 5.0), task)
            return
        self.current = task
        its = task.greenlet
        if its is None:
            its = task.greenlet = self._idle.pop() if self._idle else greenlet(self._tasks, parent=self._hub)
        try:
            its.switch()
        finally:
            self.current = None

    def freeze(self, process: Process, seconds: float) -> None:
        process.frozen_until = max(process.frozen_until, self.now + seconds)

    def kill(self, process: Process) -> None:
        """From outside: called by events, never by a task of its own process."""
        process.alive = False
        for task in list(process.tasks):
            self._end(task)
        if process.on_death is not None:
            told, process.on_death = process.on_death, None
            told()

    def die(self) -> None:
        """The process of the task at work is killed here and now."""
        task = self.current
        if task is None:
            raise AssertionError("only a task can die")
        process = task.process
        process.alive = False
        self.at(self.now, lambda: self.kill(process))
        raise Killed

    def close(self) -> None:
        """Nothing of this world stays behind in memory."""
        for process in self._processes:
            process.on_death = None
            self.kill(process)
        self._heap.clear()
        for its in self._idle:
            its.throw(GreenletExit)
        self._idle.clear()

    def _end(self, task: Task) -> None:
        if task.over:
            return
        task.over = True
        task.process.tasks.pop(task, None)
        its = task.greenlet
        if its is not None:  # its blocks are left, with every port shut
            was, self.current = self.current, task
            try:
                its.throw(Killed)
            finally:
                self.current = was
