"""One screenful (frame) of `headrace status --watch`, where problems that need a person come first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from headrace.pipeline.core.leases.lag import LongestLag, longest
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.words.words import clean, counted
from headrace.pipeline.inspect.as_text import aligned
from headrace.pipeline.inspect.findings import conclusion, findings_of
from headrace.pipeline.inspect.observation import Observation
from headrace.pipeline.inspect.progress import ShardProgress, is_sure_of_silence
from headrace.pipeline.inspect.telling import in_words

_FEWEST: Final = 3
"""Workers or shards that are shown however small the screen is."""
_NOT_MEASURED: Final = -1.0


def frame_of(
    observation: Observation, shards: Sequence[ShardProgress], *, height: int, width: int
) -> list[str]:
    """Lines that fit the screen; whatever is left out is counted."""
    findings = findings_of(observation)
    head = [_title(observation), conclusion(observation, findings)]
    urgent = [f"  {finding.code}: {finding.sentence}" for finding in findings if finding.needs_person]
    # Two blank lines, two headings, two lines that count what is left out.
    room = max(2 * _FEWEST, height - len(head) - len(urgent) - 6)
    workers = list(aligned(_worker_rows(observation, shards)))
    behind = list(aligned(_shard_rows(shards)))
    for_shards = max(_FEWEST, room - min(len(workers), room // 2))
    lines = [
        *head,
        *urgent,
        "",
        *_cut(workers, room - min(len(behind), for_shards), "worker"),
        "",
        *_cut(behind, for_shards, "shard"),
    ]
    return [clean(line)[:width] for line in lines]


def _title(observation: Observation) -> str:
    leader = observation.leader
    leads = "nobody leads" if leader is None else f"{leader.worker_id} leads"
    return (
        f"{observation.last.tables.lease_table}  {observation.last.read_at:%Y-%m-%d %H:%M:%S} UTC  "
        f"{counted(len(observation.open_ones), 'open lease')}  {leads}"
    )


def _cut(table: list[str], room: int, what: str) -> list[str]:
    """`room`: for the rows, without the heading."""
    room = max(room, _FEWEST)
    if len(table) - 1 <= room:
        return table
    return [*table[: room + 1], f"... {counted(len(table) - 1 - room, f'more {what}')}"]


def _worker_rows(observation: Observation, shards: Sequence[ShardProgress]) -> Iterator[tuple[str, ...]]:
    yield ("worker", "leases", "KB/s", "CPU", "measured by", "lag", "backlog", "row")
    rows = {row.worker_id: row for row in observation.last.workers}
    seen = {worker.worker_id: worker for worker in observation.workers}
    is_sure = is_sure_of_silence(observation)
    for share in observation.balance.workers:
        own = [shard for shard in shards if shard.worker == share.name]
        most = longest(shard.lag for shard in own)
        backlog = [shard.backlog for shard in own if shard.backlog is not None]
        worker = seen.get(share.name)
        age = "none" if worker is None or worker.age is None else f"{in_words(worker.age)} old"
        cpu, source = _cpu(rows.get(share.name))
        yield (
            share.name,
            f"{share.leases:,}",
            f"{share.kbps:,.1f}",
            cpu,
            source,
            _longest_told(most),
            short_size(sum(backlog)) if backlog else "?",
            "NOT MOVING" if is_sure and worker is not None and worker.moved is False else age,
        )


def _longest_told(lag: LongestLag) -> str:
    if lag.known is None:
        return "?"
    return f"{in_words(lag.known)} or more" if lag.unknown else in_words(lag.known)


def _cpu(row: Worker | None) -> tuple[str, str]:
    if row is None:
        return "?", "no row"
    newest = [values[-1] for values in row.stats.values() if values and values[-1] != _NOT_MEASURED]
    source = row.measured_by or "KCL's worker"
    return (f"{max(newest):.0f} %", source) if newest else ("-", source)


def _shard_rows(shards: Sequence[ShardProgress]) -> Iterator[tuple[str, ...]]:
    yield ("shard", "worker", "lag", "backlog", "caught up in", "loses records in", "fails")
    for shard in sorted(shards, key=lambda shard: (shard.why is None, shard.lag == timedelta(0))):
        yield (
            shard.name,
            shard.worker or "none",
            "?" if shard.lag is None else in_words(shard.lag),
            "?" if shard.backlog is None else short_size(shard.backlog),
            "" if shard.catches_up_in is None else in_words(shard.catches_up_in),
            "" if shard.loses_in is None else in_words(shard.loses_in),
            shard.why or "",
        )


def short_size(size: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
