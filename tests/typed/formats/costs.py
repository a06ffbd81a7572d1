"""What a piece of work costs: CPU time of this thread, so that other work of the machine counts as little as it can, and memory."""

import tracemalloc
from collections.abc import Callable
from time import thread_time


def peak_of(work: Callable[[], object]) -> int:
    """The most bytes that the work had in memory at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def cpu_of(work: Callable[[], object]) -> float:
    """Seconds of CPU that the work takes, without what its first call imports or compiles."""
    work()
    return _once(work)


def costs_less(work: Callable[[], object], times: float, than: Callable[[], object]) -> bool:
    """Whether the work takes less CPU than so many times another one. A piece of work that costs more does so each time, and a busy machine
    may slow down one measurement: so each of three has to say that it costs more."""
    than()
    # Not `cpu_of(work)`: what the work's first call imports or compiles only makes the first measurement stricter.
    return any(_once(work) < times * _once(than) for _ in range(3))


def _once(work: Callable[[], object]) -> float:
    began = thread_time()
    work()
    return thread_time() - began
