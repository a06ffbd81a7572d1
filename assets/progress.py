"""What a run shows of its waves: how far it is while it catches up, one log line a minute while it keeps up, and
at its end a table and a drawing of its shards.

A wave each ten seconds with a line of its own would hide what matters, and Dagster keeps each line for a week.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import dagster as dg

from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted, records_in, size_in_words, time_in_words
from headrace.pipeline.duties.waves.report import Landed, WaveReport
from headrace.pipeline.lineage.family_svg import DrawnShard, drawn_name, image, svg
from headrace.pipeline.ports.base import Clock

EVERY = 60.0
"""Seconds between two lines of a run that keeps up."""
WHILE_BEHIND = 10.0
"""Seconds between two lines of a run that catches up."""
_MOST_SHARDS = 50
"""Rows of the table: Dagster keeps it with each run."""
_LEAST_SPAN = 1.0
"""Seconds over which a speed says something."""


@dataclass(slots=True)
class _Sum:
    records: int = 0
    rows: int = 0
    bytes: int = 0
    waves: int = 0

    def add(self, landed: Iterable[Landed]) -> None:
        self.waves += 1
        for landing in landed:
            self.records += landing.staged.records
            self.rows += landing.staged.rows
            self.bytes += landing.staged.bytes


@dataclass(slots=True)
class _Shard:
    last: Landed
    records: int = 0
    rows: int = 0
    bytes: int = 0
    first_behind: timedelta | None = None
    """How far behind it was after its first wave, and when that was."""
    first_at: float = 0.0


@dataclass(slots=True)
class Progress:
    clock: Clock
    _began: float = field(init=False)
    _told_at: float = float("-inf")
    _since: _Sum = field(default_factory=_Sum)
    """What has landed since the last line."""
    _all: _Sum = field(default_factory=_Sum)
    _shards: dict[str, _Shard] = field(default_factory=dict)
    _was_behind: bool = False

    def __post_init__(self) -> None:
        self._began = self.clock.monotonic()

    def waved(self, report: WaveReport) -> str | None:
        """A line for the run's log, or None where it isn't time for one."""
        now = self.clock.monotonic()
        self._all.add(report.landed)
        self._since.add(report.landed)
        for landing in report.landed:
            self._add(landing, now)
        behind = self._behind()
        every = WHILE_BEHIND if behind else EVERY
        # The moment at which a run has caught up is told at once: people wait for that line.
        if now - self._told_at < every and not (self._was_behind and not behind):
            return None
        if not self._since.rows and not any(problem.fatal for problem in report.problems):
            return None
        line = self._catching_up(behind, now) if behind or self._was_behind else self._keeping_up(report, now)
        self._told_at, self._since, self._was_behind = now, _Sum(), bool(behind)
        return line

    def ended(self) -> str | None:
        """The last log line, about waves that no line has mentioned yet; None where there are none."""
        return self._sum(self._since, self.clock.monotonic()) if self._since.rows else None

    def metadata(self) -> dict[str, dg.MetadataValue]:
        """The results of the run as a whole, as metadata; empty where nothing landed."""
        if not self._all.rows:
            return {}
        seconds = max(self.clock.monotonic() - self._began, _LEAST_SPAN)
        number = dg.MetadataValue.int
        most = sorted(self._shards.items(), key=lambda item: (-item[1].rows, item[0]))
        return {
            "run: records": number(self._all.records),
            "run: rows": number(self._all.rows),
            "run: KB/s": dg.MetadataValue.float(round(self._all.bytes / seconds / 1000, 3)),
            "run: waves": number(self._all.waves),
            "shards of the run": dg.MetadataValue.table(
                [_row(key, shard) for key, shard in most[:_MOST_SHARDS]]
            ),
            **self._picture(),
            **({"shards left out": number(len(most) - _MOST_SHARDS)} if len(most) > _MOST_SHARDS else {}),
        }

    def _picture(self) -> dict[str, dg.MetadataValue]:
        """The shards as a family; nothing where none has a parent or a child."""
        family = _family(self._shards)
        if not any(shard.parents for shard in family):
            return {}
        return {
            "shards and their parents": dg.MarkdownMetadataValue(
                image(svg(family), "shards and their parents")
            )
        }

    def _add(self, landing: Landed, now: float) -> None:
        staged = landing.staged
        shard = self._shards.setdefault(landing.lease_key, _Shard(landing))
        if staged.behind and shard.first_behind is None:
            shard.first_behind, shard.first_at = staged.behind, now
        shard.last = landing
        shard.records += staged.records
        shard.rows += staged.rows
        shard.bytes += staged.bytes

    def _behind(self) -> dict[str, _Shard]:
        return {
            key: shard
            for key, shard in self._shards.items()
            if shard.last.staged.error is None
            and not shard.last.staged.at_tip
            and not shard.last.staged.upto.ended
        }

    def _keeping_up(self, report: WaveReport, now: float) -> str:
        if self._since.waves == 1:
            return str(report)
        return self._sum(self._since, now)

    def _sum(self, landed: _Sum, now: float) -> str:
        span = time_in_words(now - max(self._told_at, self._began))
        return (
            f"{records_in(landed.records, landed.rows)} of {counted(len(self._shards), 'shard')} landed in "
            f"{counted(landed.waves, 'wave')}, {size_in_words(landed.bytes)}, in {span}"
        )

    def _catching_up(self, behind: dict[str, _Shard], now: float) -> str:
        done = len(self._shards) - len(behind)
        speed = self._since.bytes / max(now - max(self._told_at, self._began), _LEAST_SPAN)
        left = _seconds_left(behind.values(), now)
        return (
            f"{done} of {counted(len(self._shards), 'shard')} caught up, {size_in_words(self._all.bytes)} in "
            f"{records_in(self._all.records, self._all.rows)}, {size_in_words(speed)}/s"
            + (f", about {time_in_words(left)} left" if left is not None else "")
        )


def _seconds_left(behind: Iterable[_Shard], now: float) -> float | None:
    """Until the last of these shards has caught up, at the rate of this run; None where that isn't known of one."""
    seconds = 0.0
    for shard in behind:
        left, first = shard.last.staged.behind, shard.first_behind
        span = now - shard.first_at
        # A shard that doesn't get nearer to its tip has no end in sight, and a guess would be
        # believed.
        if left is None or first is None or span < _LEAST_SPAN or left >= first:
            return None
        seconds = max(seconds, left / ((first - left) / span))
    return seconds or None


def _family(shards: Mapping[str, _Shard]) -> list[DrawnShard]:
    """The shards of the run, with the parents and children that it hasn't read."""
    with_stream = len({shard.last.staged.key.stream for shard in shards.values()}) > 1
    nodes: dict[ShardKey, DrawnShard] = {}

    def node(key: ShardKey, state: str, about: str, parents: Iterable[str] = ()) -> DrawnShard:
        named = tuple(f"{key.stream}/{parent}" for parent in sorted(parents))
        return DrawnShard(
            f"{key.stream}/{key.shard_id}", drawn_name(key, with_stream=with_stream), state, about, named
        )

    children: dict[ShardKey, set[str]] = {}
    for shard in shards.values():
        key, staged = shard.last.staged.key, shard.last.staged
        state = "failed" if staged.error else "ended" if staged.upto.ended else "open"
        nodes[key] = node(key, state, f"{state}, {records_in(shard.records, shard.rows)}", shard.last.parents)
        for child in staged.upto.children:
            children.setdefault(ShardKey(key.stream, child), set()).add(key.shard_id)
    for born, parents in children.items():
        nodes.setdefault(born, node(born, "waiting", "not read by this run", parents))
    for shard in shards.values():
        for parent in shard.last.parents:
            gone = ShardKey(shard.last.staged.key.stream, parent)
            nodes.setdefault(gone, node(gone, "unread", "ended before this run"))
    return list(nodes.values())


def _row(key: str, shard: _Shard) -> dg.TableRecord:
    staged = shard.last.staged
    behind = "ended" if staged.upto.ended else _behind_in_words(staged.behind)
    return dg.TableRecord(
        {
            "shard": partition_of(key),
            "records": shard.records,
            "rows": shard.rows,
            "bytes": shard.bytes,
            "behind": staged.error or behind,
        }
    )


def _behind_in_words(behind: timedelta | None) -> str:
    if behind is None:
        return "not known"
    return time_in_words(behind) if behind else "caught up"
