"""Writers that commit to one table in virtual time. A commit is refused if another one came between its look and its request."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from headrace.pipeline.core.landing.commit_pace import LastCommit, pause_after_refusal, pause_before

REQUEST = 0.05
"""Seconds that the catalog takes for an answer."""
PREPARING = 0.02
ATTEMPT = 2 * REQUEST + PREPARING


@dataclass
class Writer:
    rests: float = 0.01
    """Seconds between two commits."""
    took: list[float] = field(default_factory=list)
    tries: int = 0
    most_tries: int = 0
    waited_before: list[float] = field(default_factory=list)
    """The pauses before the first attempts."""
    killed_at: float = float("inf")
    last: LastCommit | None = None


def race(writers: list[Writer], *, seconds: float, seed: int = 1) -> None:
    """Let them commit again and again. A commit that has begun is ended, unless its writer is killed."""
    dice, order = random.Random(seed), itertools.count()
    now, version = 0.0, 0
    todo: list[tuple[float, int, Iterator[float]]] = []

    def life(writer: Writer) -> Iterator[float]:
        """Yields how long the writer does nothing that others notice."""
        nonlocal version
        while now < seconds:
            began, writer.tries = now, 0
            writer.waited_before.append(pause_before(writer.last, now=now, dice=dice.random()))
            yield writer.waited_before[-1]
            while True:
                tried_at = now
                writer.tries += 1
                yield REQUEST
                base = version
                yield PREPARING * dice.uniform(0.5, 1.5) + REQUEST
                if base == version:
                    break
                attempt, waited = now - tried_at, now - began
                yield pause_after_refusal(writer.last, attempt=attempt, waited=waited, dice=dice.random())
            version += 1
            writer.took.append(now - began)
            writer.most_tries = max(writer.most_tries, writer.tries)
            writer.last = LastCommit(now, took=now - began, attempt=now - tried_at)
            yield writer.rests

    for writer in writers:
        heapq.heappush(todo, (0.0, next(order), _until(writer.killed_at, life(writer), lambda: now)))
    while todo:
        now, _, writer_life = heapq.heappop(todo)
        pause = next(writer_life, None)
        if pause is not None:
            heapq.heappush(todo, (now + pause, next(order), writer_life))


def _until(killed_at: float, life: Iterator[float], now: Callable[[], float]) -> Iterator[float]:
    for pause in life:
        if now() >= killed_at:
            return
        yield pause


def p99(writers: list[Writer]) -> float:
    took = sorted(second for writer in writers for second in writer.took)
    return took[int(len(took) * 0.99)]
