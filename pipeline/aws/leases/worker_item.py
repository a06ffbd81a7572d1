"""The attribute names of a worker's row: KCL's worker metrics, and Headrace's own attributes, such as beats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from headrace.pipeline.aws.leases import attributes as av
from headrace.pipeline.aws.leases.attributes import Item
from headrace.pipeline.core.leases.worker import THROUGHPUT, Metrics, Worker
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.ports.leases import SkippedRow

KEY: Final = "wid"
LAST_UPDATE: Final = "lut"
STATS: Final = "sts"
RANGES: Final = "opr"
# Headrace's own attributes.
BEAT: Final = "beat"
RUN_BEATS: Final = "runBeats"
TICKED_AT: Final = "tickedAt"
TICKING_SINCE: Final = "tickingSince"
INSTANCE: Final = "instance"
STOPPING: Final = "stopping"
ASSIGN_PASS: Final = "assignPass"  # noqa: S105 - a pass over the leases
ASKED: Final = "asked"
BEATEN_AT: Final = "beatenAt"
NOTICE: Final = "notice"
MEASURED_BY: Final = "measuredBy"
MEASURED_AT: Final = "measuredAt"
OURS: Final = frozenset(
    {
        BEAT,
        RUN_BEATS,
        TICKED_AT,
        TICKING_SINCE,
        INSTANCE,
        STOPPING,
        ASSIGN_PASS,
        ASKED,
        BEATEN_AT,
        NOTICE,
        MEASURED_BY,
        MEASURED_AT,
    }
)
# Attributes since KCL 3.5. In layout S (one table), entityType is KCL's only way to tell this row from a lease.
ENTITY: Final = "entityType"
SUPPORT: Final = "sup"
SUPPORTED_AT: Final = "slu"
WORKER: Final[Item] = {"S": "WORKER_METRIC_STATS"}
SUPPORT_CODE: Final[Item] = {"N": "1"}


def metrics_values(metrics: Metrics) -> dict[str, Item]:
    return {
        STATS: _table(metrics.stats),
        RANGES: _table(metrics.ranges),
        MEASURED_BY: av.text_value(metrics.measured_by),
    }


def _table(lists: Mapping[str, Iterable[float]]) -> Item:
    return {"M": {name: {"L": [av.number_value(n) for n in numbers]} for name, numbers in lists.items()}}


def read_worker_row(item: Item, *, key: str = KEY) -> Worker | SkippedRow:
    name = str(next(iter(item.get(key, {}).values()), f"a row without {key}"))
    try:
        kind = av.text(item, ENTITY)
        if kind is None and key != KEY:
            return SkippedRow(name, f"a row without {ENTITY} in the lease table is a lease, not a worker")
        if kind not in {None, WORKER["S"]}:
            return SkippedRow(name, f"a row of type {kind}, not a worker's")
        return _worker(item, key)
    except WrongShape as error:
        return SkippedRow(name, str(error))


def _worker(item: Item, key: str) -> Worker:
    run_beats, stats, ranges = (av.table_of(item, name) for name in (RUN_BEATS, STATS, RANGES))
    return Worker(
        av.mandatory_text(item, key),
        last_update=av.moment(item, LAST_UPDATE, av.SECOND),
        beat=av.integer(item, BEAT) or 0,
        run_beats={claim: av.mandatory_integer(run_beats, claim) for claim in run_beats},
        ticked_at=av.moment(item, TICKED_AT, av.MILLISECOND),
        ticking_since=av.moment(item, TICKING_SINCE, av.MILLISECOND),
        instance=av.text(item, INSTANCE),
        stopping=av.flag(item, STOPPING),
        assign_pass=av.integer(item, ASSIGN_PASS) or 0,
        asked=av.integer(item, ASKED) or 0,
        beaten_at=av.moment(item, BEATEN_AT, av.MILLISECOND),
        notice=av.text(item, NOTICE),
        stats={metric: tuple(float(n) for n in av.numbers(stats, metric)) for metric in stats},
        ranges={metric: av.whole_numbers(ranges, metric) for metric in ranges},
        measured_by=av.text(item, MEASURED_BY) or (None if stats else THROUGHPUT),
        measured_at=av.moment(item, MEASURED_AT, av.SECOND),
    )
