"""`spark.readStream`: micro-batches of times, from the lake table up to its watermark or from a stream up to a
minute ago.

    batch 1: [from, T1)    batch 2: [T1, T2)    ...    an offset is {"stream": ..., "epoch": ..., "through": T}

An offset is a time, because the arrival time of a record says to which batch it belongs, across reshards, and a
batch that Spark runs again has the same records. Positions of shards would do the same, but a task can't tell
Spark how far it has read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from headrace.pipeline.core.ledger.arrivals import APPROXIMATE
from headrace.pipeline.core.words.words import moment_of
from headrace.pipeline.errors import WrongStream
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.source.options import RangeOptions, ReadFrom
from headrace.pipeline.source.partitions import of_files, of_shards, read_partition

if TYPE_CHECKING:
    from headrace.pipeline.source.application import SourceApplication

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # before Spark 4.2, whose engine asks for the latest offset once

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass


_THROUGH = "through"
_OLDEST = ""
"""The beginning of a range without `from`: the oldest record that there is."""


class TimeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, application: Callable[[], SourceApplication], options: RangeOptions) -> None:
        self._application = application
        self._options = options
        self._target: dict[str, Any] | None = None
        """How far a query with the trigger AvailableNow reads."""

    # --- offsets: called in a process beside Spark's driver -----------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's name, as those below
        since = self._options.since
        return self._life() | {_THROUGH: _OLDEST if since is None else since.isoformat()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._newest()

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        newest = self._target or self._newest()
        # Spark before 4.2 doesn't say where it is. A time never goes back: a table's watermark may be withdrawn.
        stands, reaches = None if start is None else _through(start), _through(newest)
        return dict(start) if stands is not None and reaches is not None and reaches < stands else newest

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        since, until = _through(start), _through(end)
        if until is None or (since is not None and since >= until):
            return []
        application, options = self._application(), self._options
        if options.place is ReadFrom.LAKE:
            return of_files(application.lake_range(options).parts(since, until))
        stream = application.stream_range(options)
        facts = stream.facts()
        _check_life(facts, start, end)
        return of_shards(stream.parts(since, until, facts), application.pages())

    def _newest(self) -> dict[str, Any]:
        application, options = self._application(), self._options
        if options.place is ReadFrom.LAKE:
            newest, life = application.lake_range(options).through(), {}
        else:
            facts = application.stream_range(options).facts()
            # Records that have just arrived may still come to light: the next batch has them.
            newest, life = facts.asked - APPROXIMATE, _life_of(facts)
        newest = newest if options.until is None else min(newest, options.until)
        since = options.since
        # A beginning that is still to come: nothing is there yet.
        newest = newest if since is None else max(newest, since)
        return life | {_THROUGH: newest.astimezone(UTC).isoformat()}

    def _life(self) -> dict[str, Any]:
        if self._options.place is ReadFrom.LAKE:
            return {}
        return _life_of(self._application().stream_range(self._options).facts())

    # --- reading: called in tasks -------------------------------------------------------------------------------

    read = staticmethod(read_partition)

    def __reduce__(self) -> Any:
        # Tasks plan nothing, and the application's settings may have the password of a catalog.
        return type(self), (_no_application, self._options)


def _no_application() -> SourceApplication:
    raise AssertionError("a task of Spark plans nothing")


def _through(offset: dict[str, Any]) -> datetime | None:
    text = offset[_THROUGH]
    return None if text == _OLDEST else moment_of(text)


def _life_of(facts: StreamFacts) -> dict[str, Any]:
    return {"stream": facts.stream.arn, "epoch": facts.stream.epoch}


def _check_life(facts: StreamFacts, *offsets: dict[str, Any]) -> None:
    life = _life_of(facts)
    for offset in offsets:
        if {name: offset.get(name) for name in life} != life:
            raise WrongStream(
                f"the checkpoint of this query is of another stream than {facts.stream}: the stream was deleted since and created "
                "again, or the option stream was changed. Nothing was read; begin a query with a new checkpoint location"
            )
