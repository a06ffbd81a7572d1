"""What the sensors of one process remember from tick to tick."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from headrace.pipeline.duties.fleet.known_tables import KnownTables
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.duties.fleet.sensor_turn import LastTick
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory
from headrace.pipeline.duties.streams.stream_facts import KnownStreams
from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.settings.model import StreamSettings

_Memory = TypeVar("_Memory")


@dataclass(slots=True)
class _Sensor(Generic[_Memory]):
    last_tick: LastTick[_Memory] = field(default_factory=LastTick)
    at_work: threading.Lock = field(default_factory=threading.Lock)
    """Held while the sensor ticks: Dagster starts a second tick beside one that takes longer than 60 s.

    The lock works within one process. Between processes, conditional writes to DynamoDB keep two ticks from harm.
    """
    streams: KnownStreams | None = None
    tables: KnownTables | None = None
    expiring: Expiring | None = None
    tracker: Callable[[], tuple[StreamSettings, ...]] | None = None


@dataclass(slots=True)
class Remembered:
    """What the sensors of one process remember from tick to tick.

    If the memory is lost, some work is done again or later, and no record is lost. After a reload of the code,
    the new code starts without it.
    """

    leader: _Sensor[tuple[LeaderMemory, int]] = field(default_factory=_Sensor)
    """The memory, and how many ticks have failed in a row."""
    workers: dict[str, _Sensor[WorkerMemory]] = field(default_factory=dict)

    def worker(self, worker_id: str) -> _Sensor[WorkerMemory]:
        sensor = self.workers.get(worker_id)
        # Dagster ticks a sensor in several threads: all of them get the sensor that is there first.
        return self.workers.setdefault(worker_id, _Sensor()) if sensor is None else sensor
