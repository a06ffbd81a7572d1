"""Virtual time. Tasks are plain synchronous code; another task can only run when the present one makes a port call.

A task is a greenlet of a process; processes run on hosts and can be frozen and killed. The next event is always the
first entry of a heap, so that a seed always has the same history.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet


class Killed(BaseException):
    """Stands for SIGKILL: the process does nothing more, not even release its claims."""


class Process:
    """A simulated process. Its tasks die together, are frozen together, and share what modules keep in memory."""

    __slots__ = (
        "alive",
        "claim",
        "frozen_until",
        "host",
        "known",
        "loaded",
        "looked_at_workers",
        "name",
        "on_death",
        "read_of_row",
        "read_of_worker",
        "scans",
        "tasks",
        "worker",
    )

    def __init__(self, name: str, host: Any, worker: str = "") -> None:
        self.name = name
        self.host = host
        self.worker = worker
        """The worker for which a run reads; empty for a code server."""
        self.claim = ""
        self.alive = True
        self.frozen_until = -1e9
        self.tasks: dict[Task, None] = {}
        self.known: dict[str, Any] = {}
        """What the product's modules keep in memory between ticks."""
        self.loaded = 0.0
        """When the process last loaded the lake table."""
        self.looked_at_workers = 0.0
        self.read_of_worker: dict[str, float] = {}
        """By worker: when the process last read this worker's row alone."""
        self.read_of_row: dict[str, float] = {}
        """By key: when the process last read this lease row."""
        self.on_death: Callable[[], None] | None = None
        self.scans: Any = None
        """The latest listing of the lease rows that the process has read."""

    def __str__(self) -> str:
        return self.name


class Task:
    """A piece of work in a process, which is paused at each port call."""

    __slots__ = ("greenlet", "leads", "looked_at_workers", "over", "process", "read_of_worker", "work")

    def __init__(self, process: Process, work: Callable[[], None]) -> None:
        self.process = process
        self.work = work
        self.over = False
        self.leads = False
        """Whether the task has taken or beaten the leader's lock."""
        self.looked_at_workers = 0.0
        """When the task last looked at the rows of all workers."""
        self.read_of_worker: dict[str, float] = {}
        """By worker: when the task last read this worker's row alone."""
        self.greenlet: greenlet | None = None
        """None until the task has begun."""


class _End:
    """The entry of the heap at which `run` returns."""


class Scheduler:
    """The clock of the simulation, and the heap of its events."""

    def __init__(self) -> None:
        self.now = 0.0
        self.current: Task | None = None
        self._heap: list[tuple[float, int, Any]] = []
        self._count = 0
        self._hub = getcurrent()
        self._processes: list[Process] = []
        self._idle: list[greenlet] = []
        """Greenlets whose task is over. They are used again, because making a new one takes as long as twenty port
        calls."""

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
        """Start a task in the process, as a new thread would be started."""
        task = Task(process, work)
        process.tasks[task] = None
        self.at(self.now + after, task)
        return task

    def _tasks(self) -> None:
        """Run one task after the other in the same greenlet."""
        while True:
            task = self.current
            if task is None:
                raise AssertionError("no task is at work, though a greenlet was resumed")
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
        """Let the present task sleep. Where nothing else happens before it wakes, only the clock moves."""
        task = self.current
        if task is None:
            raise AssertionError("only a task can pause")
        if task.over:
            raise Killed  # what a killed task does last takes no time
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
        # The next entry is a task that has begun. It is resumed directly, without the hub.
        heapq.heapreplace(heap, (when, self._count, task))
        self.now = max(self.now, soon)
        self.current = what
        what.greenlet.switch()

    def park(self) -> None:
        """Let the present task sleep until `wake` is called with it."""
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
            # A scenario may let the process go on early, so the task is looked at every five seconds.
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
        """Kill the process. This is called by events, never by a task of the same process; a task calls `die`."""
        process.alive = False
        for task in list(process.tasks):
            self._end(task)
        if process.on_death is not None:
            on_death, process.on_death = process.on_death, None
            on_death()

    def die(self) -> None:
        """Kill the process of the present task at once."""
        task = self.current
        if task is None:
            raise AssertionError("only a task can die")
        process = task.process
        process.alive = False
        self.at(self.now, lambda: self.kill(process))
        raise Killed

    def close(self) -> None:
        """Kill all processes and free the greenlets."""
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
        if (
            its is not None
        ):  # the task leaves its `with` and `finally` blocks, in which port calls raise Killed
            was, self.current = self.current, task
            try:
                its.throw(Killed)
            finally:
                self.current = was
