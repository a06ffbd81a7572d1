"""What this process asks of DynamoDB and Kinesis: requests, and the units that DynamoDB says it charges.

A run is a process of its own, so that what its process has asked since the run began is what the run has cost. Spark's tasks
are other processes: what they ask isn't in here.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final

from headrace.pipeline.ports.usage import ProcessUsage

_ASKED: Final = ("GetItem", "BatchGetItem", "Query", "Scan", "PutItem", "UpdateItem", "DeleteItem")
_WRITES: Final = frozenset({"PutItem", "UpdateItem", "DeleteItem"})
_REFUSED: Final = "ConditionalCheckFailedException"


class Meter:
    def __init__(self) -> None:
        # Rows are written by sixteen threads.
        self._adding = Lock()
        self._calls: Counter[str] = Counter()
        self._reads = self._writes = 0.0

    def forked(self) -> None:
        """A fork may begin while another thread of its parent holds the lock, and nobody would release it there."""
        self._adding = Lock()

    def usage(self) -> ProcessUsage:
        """What the process has used so far."""
        with self._adding:
            return ProcessUsage(dict(self._calls), self._reads, self._writes, time.process_time())

    def attach(self, client: Any) -> None:
        """Count the requests of this client."""
        service, events = client.meta.service_model.service_name, client.meta.events
        if service == "dynamodb":
            for operation in _ASKED:
                events.register(f"provide-client-params.dynamodb.{operation}", _ask_for_units)
        # Last, so that the answer is complete (`plain_answers`).
        events.register_last(f"after-call.{service}", self._note)

    def _note(self, *, model: Any, parsed: Mapping[str, Any], **_: object) -> None:
        consumed = parsed.get("ConsumedCapacity") or ()
        tables = [consumed] if isinstance(consumed, Mapping) else consumed
        units = float(sum(table.get("CapacityUnits", 0) for table in tables))
        is_write = model.name in _WRITES
        if is_write and parsed.get("Error", {}).get("Code") == _REFUSED:
            # DynamoDB charges a write that its condition refused, and doesn't say how much: a row has less than 1 KB.
            units = 1.0
        with self._adding:
            self._calls[f"{model.service_model.service_name}:{model.name}"] += 1
            if is_write:
                self._writes += units
            else:
                self._reads += units


def _ask_for_units(params: Mapping[str, Any], **_: object) -> dict[str, Any]:
    return {"ReturnConsumedCapacity": "TOTAL", **params}


METER: Final = Meter()
"""Of this process. A fork goes on from its parent's numbers: take differences."""
os.register_at_fork(after_in_child=METER.forked)
