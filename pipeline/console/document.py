"""A picture of the application as JSON for the page: everything, or only what has changed since an earlier
picture that the page has.

A shard is two short lists, whose places are named by `FIXED` and `MOVING`. Points in time are sent instead of
ages, so that a shard at rest doesn't change from picture to picture. Names of this form are the page's own;
scripts read `headrace status --json`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from headrace.pipeline.console.sources import LIST_EVERY
from headrace.pipeline.console.states import STATES
from headrace.pipeline.console.values import LagKind, Picture, Severity, ShardView
from headrace.pipeline.console.watch import Report
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY
from headrace.pipeline.core.words.words import clean

FORMAT: Final = 1
FIXED: Final = (
    "key",
    "name",
    "stream",
    "generation",
    "hash_from",
    "hash_to",
    "parents",
    "born",
    "closed",
    "is_closed",
)
MOVING: Final = (
    "state",
    "level",
    "owner",
    "next_owner",
    "position",
    "lag",
    "since",
    "lag_kind",
    "kbps",
    "risk",
    "loses_at",
)
_KINDS: Final = {LagKind.MEASURED: 0, LagKind.AT_MOST: 1, LagKind.UNKNOWN: 2}
_STATES: Final = {state: number for number, state in enumerate(STATES)}
Row = list[Any]


@dataclass(slots=True)
class Documents:
    """Makes the JSON documents of one console. It remembers for each shard the number of the picture in which it
    changed last.
    """

    application: str
    dagster: str | None = None
    """Where Dagster's UI is, for links to runs."""
    has_lake: bool = False
    _number: int = 0
    _family: str = ""
    _fixed: list[Row] = field(default_factory=list)
    _rows: list[Row] = field(default_factory=list)
    _changed: list[int] = field(default_factory=list)
    _workers: dict[str, int] = field(default_factory=dict)

    def of(self, report: Report, *, family: str = "", since: int = 0) -> dict[str, Any]:
        """The document of a report, as JSON for a page.

        `family`, `since`: what the page has already: the family's name, and the number of its newest picture.
        """
        if report.picture is not None and report.number != self._number:
            self._take(report.picture, report.number)
        answer = {**self._about(report), **self._of_look(report)}
        if report.picture is None:
            return answer
        has_family = family == self._family and 0 < since <= self._number
        answer["family"] = self._family
        if not has_family:
            answer |= {"fixed": self._fixed, "states": _states()}
        answer["moving"] = [
            [place, *row]
            for place, (row, changed) in enumerate(zip(self._rows, self._changed, strict=True))
            if not has_family or changed > since
        ]
        return answer

    def _take(self, picture: Picture, number: int) -> None:
        places = {shard.kin.key: place for place, shard in enumerate(picture.shards)}
        streams = {stream.label: place for place, stream in enumerate(picture.streams)}
        self._fixed = [_fixed(shard, streams, places) for shard in picture.shards]
        # A digest and no count: a page of before a restart of the console has the same numbers for
        # other shards.
        family = hashlib.sha256(json.dumps(self._fixed).encode()).hexdigest()[:16]
        self._number_workers(picture, anew=family != self._family)
        rows = [self._moving(shard, picture.at) for shard in picture.shards]
        if family != self._family:
            self._changed = [number] * len(rows)
        else:
            self._changed = [
                changed if row == before else number
                for row, before, changed in zip(rows, self._rows, self._changed, strict=True)
            ]
        self._family, self._rows, self._number = family, rows, number

    def _number_workers(self, picture: Picture, *, anew: bool) -> None:
        """A worker keeps its number while the family is the same, so that its shards don't change with others' names."""
        if anew:
            self._workers = {}
        for name in sorted(
            {name for shard in picture.shards for name in (shard.owner, shard.next_owner) if name}
        ):
            self._workers.setdefault(name, len(self._workers))

    def _moving(self, shard: ShardView, at: datetime) -> Row:
        # Of a shard at no risk the moment would move at each look, and the page doesn't show it.
        loses_in = shard.risk.loses_in if shard.risk.level > Severity.GOOD else None
        return [
            _STATES[shard.state],
            int(shard.level),
            None if shard.owner is None else self._workers[shard.owner],
            None if shard.next_owner is None else self._workers[shard.next_owner],
            _milliseconds(shard.position_at),
            # A lag that grows by the clock is told as the moment from which it is counted.
            None
            if shard.lag.behind is None or shard.lag.since is not None
            else round(shard.lag.behind.total_seconds()),
            _milliseconds(shard.lag.since),
            _KINDS[shard.lag.kind],
            None if shard.kbps is None else round(shard.kbps, 1),
            int(shard.risk.level),
            None if loses_in is None else _minute(at + loses_in),
        ]

    def _about(self, report: Report) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "application": clean(self.application),
            "dagster": self.dagster,
            "has_lake": self.has_lake,
            "number": report.number,
            "again": round(report.again.total_seconds() * 1000),
            "trouble": report.trouble
            and {"since": _milliseconds(report.trouble.since), "sentence": clean(report.trouble.sentence)},
            "cost": self._cost(report),
        }

    def _cost(self, report: Report) -> dict[str, Any]:
        cost, again = report.cost, report.again.total_seconds()
        looks = 60 / again
        units = f"{cost.units * looks:,.0f} read units" if cost.units else "an unknown number of read units"
        return {
            "every": again,
            "cpu": round(cost.cpu, 3),
            "sentence": f"While a page is open, a look each {again:.0f} s: {cost.scans * looks:,.0f} requests a minute to "
            f"DynamoDB ({units}), and {cost.kinesis * looks:,.0f} to Kinesis, whose list of shards is read each "
            f"{LIST_EVERY:.0f} s. Without an open page, none."
            + (
                f" The table is provisioned for {cost.provisioned:,} read units a second, and looks take at most a tenth."
                if cost.provisioned
                else ""
            ),
        }

    def _of_look(self, report: Report) -> dict[str, Any]:
        picture = report.picture
        if picture is None:
            return {}
        return {
            "at": _milliseconds(picture.at),
            "table": clean(picture.table),
            "place": clean(picture.place),
            "layout": clean(picture.layout),
            "conclusion": clean(picture.conclusion),
            "watched": None if picture.watched is None else round(picture.watched.total_seconds()),
            "ideal": round(picture.ideal, 2),
            "spread": picture.spread,
            "open": picture.open_leases,
            "unowned": picture.unowned,
            "names": [clean(name) for name in self._workers],
            "streams": _streams(picture),
            "leader": _leader(picture),
            "workers": _workers(picture),
            "problems": [
                {
                    "code": problem.code,
                    "level": int(problem.level),
                    "sentence": clean(problem.sentence),
                    # A problem of a large application may concern all of its thousands of shards,
                    # and each look sends it anew.
                    "keys": list(problem.keys[:100]),
                }
                for problem in picture.problems
            ],
            "events": [
                {
                    "at": _milliseconds(event.at),
                    "kind": event.kind,
                    "level": int(event.level),
                    "sentence": clean(event.sentence),
                    "key": event.key,
                }
                for event in reversed(report.events[-100:])
            ],
        }


def _streams(picture: Picture) -> list[dict[str, Any]]:
    return [
        {
            "name": clean(stream.name or picture.table),
            "retention": None if stream.retention is None else round(stream.retention.total_seconds()),
            "is_listed": stream.shards is not None,
            "created": _milliseconds(stream.created),
        }
        for stream in picture.streams
    ]


def _leader(picture: Picture) -> dict[str, Any]:
    return {
        "worker": picture.leader.worker and clean(picture.leader.worker),
        "level": int(picture.leader.level),
        "sentence": clean(picture.leader.sentence),
        "still": _seconds(picture.leader.still),
        "promised": _seconds(picture.leader.promised),
    }


def _workers(picture: Picture) -> list[dict[str, Any]]:
    return [
        {
            "name": clean(worker.name),
            "leases": worker.leases,
            "kbps": round(worker.kbps, 1),
            "over": round(worker.over, 2),
            "level": int(worker.level),
            "sentence": clean(worker.sentence),
        }
        for worker in picture.workers
    ]


def _fixed(shard: ShardView, streams: dict[str, int], places: dict[str, int]) -> Row:
    kin = shard.kin
    return [
        kin.key,
        clean(partition_of(kin.key)),
        streams.get(kin.stream, 0),
        kin.generation,
        None if kin.hashes is None else round(kin.hashes.start / MAX_HASH_KEY, 6),
        None if kin.hashes is None else round(kin.hashes.end / MAX_HASH_KEY, 6),
        [places[parent] for parent in kin.parents if parent in places],
        _milliseconds(kin.born),
        _milliseconds(kin.closed_at),
        int(kin.is_closed or kin.closed_at is not None),
    ]


def _states() -> list[dict[str, Any]]:
    return [{"code": code, "name": state.name, "words": state.words} for code, state in STATES.items()]


def _seconds(period: timedelta | None) -> int | None:
    return None if period is None else round(period.total_seconds())


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def _minute(moment: datetime) -> int:
    """A forecast moves a little at each look: only whole minutes are told."""
    return round(moment.timestamp() / 60) * 60_000
