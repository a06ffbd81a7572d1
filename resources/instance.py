"""Dagster's instance, kept by the code server from tick to tick.

A sensor's context would open the instance anew at each tick, and check the migrations of three databases each
time: half of the CPU of a tick that has nothing to do. One instance may serve many threads, as in Dagster's own
daemon. Values that hardly ever change in Dagster's databases are kept with the instance, because Dagster opens a
database anew for each query.
"""

import threading
import time
from collections.abc import Callable, Iterable
from functools import cached_property

import dagster as dg

from headrace.resources.runs import instance_id

_PARTITIONS_HOLD = 60.0
"""Seconds. A partition that a person deletes in Dagster's UI comes back after this time."""


class KnownInstance:
    """A Dagster instance, and values that were read from its databases."""

    def __init__(
        self, instance: dg.DagsterInstance, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.instance = instance
        self._monotonic = monotonic
        self._partitions: dict[str, tuple[frozenset[str], float]] = {}
        """The partitions by their name: those that were there at the last look, and until when they count as being
        there."""

    @cached_property
    def id(self) -> str:
        return instance_id(self.instance)

    def missing_partitions(self, name: str, keys: Iterable[str]) -> list[str]:
        """The keys among these that Dagster doesn't have as dynamic partitions of that name, in their order."""
        keys = tuple(keys)
        present, until = self._partitions.get(name, (frozenset[str](), 0.0))
        now = self._monotonic()
        if now > until or not present.issuperset(keys):
            # Only where a key seems to be missing: Dagster opens its database anew for each question.
            present = frozenset(self.instance.get_dynamic_partitions(name))
            self._partitions[name] = present, now + _PARTITIONS_HOLD
        return [key for key in keys if key not in present]


class KeptInstance:
    """The Dagster instance that this process keeps. After a change of dagster.yaml and a restart of the daemon, a
    new instance replaces it.
    """

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._ref: object = None
        self._known: KnownInstance | None = None

    def of(self, context: dg.SensorEvaluationContext) -> KnownInstance:
        ref = context.instance_ref
        if ref is None:  # a context that a test built on an instance of its own
            return KnownInstance(context.instance)
        with self._making:
            # The daemon sends its settings with each tick, while the code server needn't have been started again.
            if self._known is None or ref != self._ref:
                self._ref, self._known = ref, KnownInstance(dg.DagsterInstance.from_ref(ref))
            return self._known
