"""Dagster's instance, kept by the code server from tick to tick.

A sensor's context would open the instance anew at each tick, and check the migrations of three databases each time: half of
the CPU of a tick that has nothing to do. One instance may serve many threads, as in Dagster's own daemon.
"""

import threading

import dagster as dg


class KeptInstance:
    """The instance of this process. After a change of dagster.yaml and a restart of the daemon, the new instance replaces it."""

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._ref: object = None
        self._instance: dg.DagsterInstance | None = None

    def of(self, context: dg.SensorEvaluationContext) -> dg.DagsterInstance:
        ref = context.instance_ref
        if ref is None:  # a context that a test built on an instance of its own
            return context.instance
        with self._making:
            if self._instance is None or ref != self._ref:
                self._ref, self._instance = ref, dg.DagsterInstance.from_ref(ref)
            return self._instance
