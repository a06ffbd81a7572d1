"""An observation for people: a few lines of facts, a table of the workers, the findings, one sentence at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.words.words import cell, clean, counted
from headrace.pipeline.inspect.balance import Share
from headrace.pipeline.inspect.finding import Finding
from headrace.pipeline.inspect.findings import conclusion, findings_of, in_words
from headrace.pipeline.inspect.observation import FailingShard, Observation, WorkerSeen

_SHOWN: Final = 20
"""At most this many of the busiest workers, of the idlest workers, and of failing shards are shown. --json shows all."""

Row = tuple[str, ...]


def text_of(seen: Observation) -> Iterator[str]:
    """Lines that are safe to print: names come from tables that other programs write."""
    return map(clean, _lines(seen, findings_of(seen)))


def _lines(seen: Observation, findings: Sequence[Finding]) -> Iterator[str]:
    yield from _facts(seen)
    if seen.balance.workers:
        yield ""
        yield from _aligned(_worker_rows(seen))
        yield f"spread: {seen.balance.spread} (the most leases of any worker minus the fewest)   * by the clock of the worker's host"
    if 1 < len(seen.balance.clusters) < len(seen.balance.workers):
        yield ""
        yield from _aligned(_cluster_rows(seen.balance.clusters))
    if len(seen.failing) > 1:  # of a single failing shard, the finding below says everything
        yield ""
        yield "failing shards, each with the time of its first failure by its worker's clock:"
        yield from _failing_lines(seen.failing)
    for title, urgent in (("needs a person", True), ("worth knowing", False)):
        some = [finding for finding in findings if finding.needs_person is urgent]
        if some:
            yield ""
            yield f"{title}:"
            yield from (f"  {finding.code}: {finding.sentence}" for finding in some)
    yield ""
    yield conclusion(seen, findings)


def _facts(seen: Observation) -> Iterator[str]:
    total, open_ones = len(seen.last.leases), len(seen.open_ones)
    watched = f", watched for {in_words(seen.watched)}" if seen.watched else ""
    yield f"{seen.last.tables.lease_table}, {seen.last.at:%Y-%m-%d %H:%M:%S} UTC{watched}"
    yield f"layout: {seen.layout.kind}: {seen.layout.sentence}"
    yield (
        f"leases: {counted(total, 'row')}, {open_ones:,} open, {total - open_ones:,} ended; of the open ones "
        f"{len(seen.unowned):,} without an owner, {len(seen.pending):,} being handed over"
    )
    if seen.leader is not None:
        beats = {
            True: "it is renewed",
            False: "it isn't renewed",
            None: "whether it is renewed can't be told from this look",
        }[seen.leader.beats]
        yield f"leader: {seen.leader.worker_id}, lock of {in_words(seen.leader.promised)}: {beats}"


def _worker_rows(seen: Observation) -> Iterator[Row]:
    yield ("worker", "open", "share", "ended", "KB/s", "row", "moved")
    known = {worker.worker_id: worker for worker in seen.workers}
    shares = seen.balance.workers
    cut = len(shares) > 2 * _SHOWN + 1
    for share in shares[:_SHOWN] if cut else shares:
        yield _worker_row(share, known)
    if cut:
        yield (f"... {len(shares) - 2 * _SHOWN:,} between",)
        for share in shares[-_SHOWN:]:
            yield _worker_row(share, known)


def _worker_row(share: Share, known: Mapping[str, WorkerSeen]) -> Row:
    worker = known[share.name]
    age = (
        "none"
        if not worker.has_row
        else "stopping"  # a stopping worker's stamp is set back, so that a KCL leader gives its leases away
        if worker.stopping
        else "no stamp"
        if worker.age is None
        else f"{in_words(worker.age)} old *"
    )
    moved = {True: "yes", False: "NO", None: "?"}[worker.moved]
    return (share.name, *_numbers(share), age, moved)


def _cluster_rows(clusters: Sequence[Share]) -> Iterator[Row]:
    yield ("cluster", "open", "share", "ended", "KB/s", "workers", "each")
    for share in clusters:
        yield (share.name, *_numbers(share), f"{share.workers:,}", f"{share.mean:.2f}")


def _failing_lines(failing: Sequence[FailingShard]) -> Iterator[str]:
    for each in failing[:_SHOWN]:
        reader = "without a worker" if each.worker is None else f"of worker {each.worker}"
        yield f"  {partition_of(each.lease)} {reader}, since {each.since:%Y-%m-%d %H:%M:%S} UTC: {each.why}"
    if len(failing) > _SHOWN:
        yield f"  ... {len(failing) - _SHOWN:,} more"


def _numbers(share: Share) -> Row:
    return (f"{share.leases:,}", f"{share.share:.1%}", f"{share.ended:,}", _rate(share.kbps))


def _rate(kbps: float) -> str:
    """Two decimals for slow streams, whose rates are small and still differ."""
    return f"{kbps:,.1f}" if kbps >= 10 or not kbps else f"{kbps:.2f}"


def _aligned(rows: Iterator[Row]) -> Iterator[str]:
    """The first column to the left, all others to the right."""
    every = [tuple(map(cell, row)) for row in rows]
    widths = [max(len(row[n]) for row in every if n < len(row)) for n in range(len(every[0]))]
    for row in every:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=False)]
        yield "  ".join([row[0].ljust(widths[0]), *cells]).rstrip()
