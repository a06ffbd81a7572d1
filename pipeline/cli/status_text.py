"""`headrace status` for people: a few lines of facts, a table, what was noticed, one sentence at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pipeline.cli.telling import cell
from pipeline.core.observation import Observation, WorkerSeen
from pipeline.core.observe_balance import Share
from pipeline.core.observe_findings import Finding, conclusion, in_words
from pipeline.core.words import counted

_SHOWN: Final = 20
"""Workers at each end of the table, the busiest and the idlest. --json has them all."""

Row = tuple[str, ...]


def lines(seen: Observation, findings: Sequence[Finding]) -> Iterator[str]:
    yield from _facts(seen)
    if seen.balance.workers:
        yield ""
        yield from _aligned(_worker_rows(seen))
        yield f"spread: {seen.balance.spread} (the most leases of a worker less the fewest)   * by its host's clock"
    if 1 < len(seen.balance.clusters) < len(seen.balance.workers):
        yield ""
        yield from _aligned(_cluster_rows(seen.balance.clusters))
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
            True: "it beats",
            False: "it stands still",
            None: "whether it beats wasn't seen",
        }[seen.leader.beats]
        yield f"leader: {seen.leader.worker_id}, lock of {in_words(seen.leader.promised)}: {beats}"


def _worker_rows(seen: Observation) -> Iterator[Row]:
    yield ("worker", "open", "share", "ended", "KB/s", "its row", "moved")
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
        else "stopping"  # its stamp is set back, so that a KCL leader gives its leases away
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


def _numbers(share: Share) -> Row:
    return (f"{share.leases:,}", f"{share.share:.1%}", f"{share.ended:,}", _rate(share.kbps))


def _rate(kbps: float) -> str:
    """Slow streams are evened out by it too."""
    return f"{kbps:,.1f}" if kbps >= 10 or not kbps else f"{kbps:.2f}"


def _aligned(rows: Iterator[Row]) -> Iterator[str]:
    """Names to the left, all else to the right."""
    every = [tuple(map(cell, row)) for row in rows]
    widths = [max(len(row[n]) for row in every if n < len(row)) for n in range(len(every[0]))]
    for row in every:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=False)]
        yield "  ".join([row[0].ljust(widths[0]), *cells]).rstrip()
