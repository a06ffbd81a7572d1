"""Counts what clients use of DynamoDB and Kinesis: requests, those that AWS throttled, and the units that
DynamoDB says it charges.

    an application's adapters    share one meter: the cost of a run and its metrics come from it
    a console                    has a meter of its own, by which it decides when to look again

A run is a process of its own, so that the meter counts what the run uses. Spark's tasks are other processes,
whose requests aren't counted.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final

from headrace.pipeline.aws.clients.error_codes import THROTTLED
from headrace.pipeline.ports.usage import ProcessUsage

_WITH_UNITS: Final = ("GetItem", "BatchGetItem", "Query", "Scan", "PutItem", "UpdateItem", "DeleteItem")
_WRITES: Final = frozenset({"PutItem", "UpdateItem", "DeleteItem"})
_REFUSED: Final = "ConditionalCheckFailedException"


class _Adding:
    """The lock of all meters: rows are written by sixteen threads."""

    lock = Lock()

    @classmethod
    def forked(cls) -> None:
        """A fork may begin while another thread of its parent holds the lock, and nobody would release it there."""
        cls.lock = Lock()


os.register_at_fork(after_in_child=_Adding.forked)


class Meter:
    """Counts the requests of the clients that it is attached to. A forked process goes on from its parent's
    numbers, so only differences mean something.
    """

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._throttled: Counter[str] = Counter()
        self._reads = self._writes = 0.0
        self._is_priced = False

    def attach(self, client: Any) -> None:
        """Count the requests of this client."""
        model, events = client.meta.service_model, client.meta.events
        events.register(f"needs-retry.{model.service_id.hyphenize()}", self._add_request)
        if model.service_name == "dynamodb":
            for operation in _WITH_UNITS:
                events.register(f"provide-client-params.dynamodb.{operation}", self._ask_for_units)
                # Last, so that the answer is complete (`plain_answers`).
                events.register_last(f"after-call.dynamodb.{operation}", self._add_units)

    def usage(self) -> ProcessUsage:
        """What was used so far; each try of a request counts. Units are counted since the first call of `spending`."""
        with _Adding.lock:
            return ProcessUsage(
                calls=dict(self._calls),
                throttled=dict(self._throttled),
                read_units=self._reads,
                write_units=self._writes,
                cpu_seconds=time.process_time(),
            )

    def spending(self) -> Callable[[], ProcessUsage]:
        """A function that returns what has been used since this call. From now on DynamoDB is asked to report
        units, which makes its answers longer; a process that shows no cost never calls this.
        """
        self._is_priced = True
        before = self.usage()
        return lambda: self.usage().since(before)

    def _add_request(self, *, response: Any = None, operation: Any, **_: object) -> None:
        call = f"{operation.service_model.service_name}:{operation.name}"
        # Without a response where nobody answered.
        code = None if response is None else response[1].get("Error", {}).get("Code")
        with _Adding.lock:
            self._calls[call] += 1
            if code in THROTTLED:
                self._throttled[call] += 1

    def _ask_for_units(self, params: Mapping[str, Any], **_: object) -> Mapping[str, Any]:
        return {"ReturnConsumedCapacity": "TOTAL", **params} if self._is_priced else params

    def _add_units(self, *, model: Any, parsed: Mapping[str, Any], **_: object) -> None:
        consumed = parsed.get("ConsumedCapacity") or ()
        tables = [consumed] if isinstance(consumed, Mapping) else consumed
        units = float(sum(table.get("CapacityUnits", 0) for table in tables))
        is_write = model.name in _WRITES
        if is_write and self._is_priced and parsed.get("Error", {}).get("Code") == _REFUSED:
            # DynamoDB charges a write that its condition refused, and doesn't say how much: a row has less than 1 KB.
            units = 1.0
        with _Adding.lock:
            if is_write:
                self._writes += units
            else:
                self._reads += units
