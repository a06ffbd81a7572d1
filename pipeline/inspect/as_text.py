"""An observation for people: a few lines of facts, a table of the workers, the findings, one sentence at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.words.words import cell, clean, counted
from headrace.pipeline.inspect.balance import Share
from headrace.pipeline.inspect.finding import Finding
from headrace.pipeline.inspect.findings import conclusion, findings_of
from headrace.pipeline.inspect.observation import FailingShard, Observation, WorkerSeen
from headrace.pipeline.inspect.telling import in_words

# At most this many of the busiest workers, of the idlest workers, and of failing shards are shown. --json
# shows all.
_SHOWN: Final = 20

Row = tuple[str, ...]


def observation_text(observation: Observation) -> Iterator[str]:
    """The observation as lines for a terminal. They are safe to print: names come from tables that other programs
    write."""
    return map(clean, _lines(observation, findings_of(observation)))


def _lines(observation: Observation, findings: Sequence[Finding]) -> Iterator[str]:
    yield from _facts(observation)
    if observation.balance.workers:
        yield ""
        yield from aligned(_worker_rows(observation))
        yield (
            f"spread: {observation.balance.spread} (the most leases of any worker minus the fewest)   * by the "
            "clock of the worker's host"
        )
    if 1 < len(observation.balance.clusters) < len(observation.balance.workers):
        yield ""
        yield from aligned(_cluster_rows(observation.balance.clusters))
    # Of a single failing shard, the finding below says everything.
    if len(observation.failing) > 1:
        yield ""
        yield "failing shards, each with the time of its first failure by its worker's clock:"
        yield from _failing_lines(observation.failing)
    for title, urgent in (("needs a person", True), ("worth knowing", False)):
        some = [finding for finding in findings if finding.needs_person is urgent]
        if some:
            yield ""
            yield f"{title}:"
            yield from (f"  {finding.code}: {finding.sentence}" for finding in some)
    yield ""
    yield conclusion(observation, findings)


def _facts(observation: Observation) -> Iterator[str]:
    total, open_ones = len(observation.last.leases), len(observation.open_ones)
    watched = f", watched for {in_words(observation.watched)}" if observation.watched else ""
    yield f"{observation.last.tables.lease_table}, {observation.last.read_at:%Y-%m-%d %H:%M:%S} UTC{watched}"
    yield f"layout: {observation.layout.kind}: {observation.layout.sentence}"
    yield (
        f"leases: {counted(total, 'row')}, {open_ones:,} open, {total - open_ones:,} ended; of the open ones "
        f"{len(observation.unowned):,} without an owner, {len(observation.pending):,} being handed over"
    )
    if observation.leader is not None:
        beats = {
            True: "it is renewed",
            False: "it isn't renewed",
            None: "whether it is renewed can't be told from this look",
        }[observation.leader.beats]
        yield f"leader: {observation.leader.worker_id}, lock of {in_words(observation.leader.promised)}: {beats}"


def _worker_rows(observation: Observation) -> Iterator[Row]:
    yield ("worker", "open", "share", "ended", "KB/s", "row", "moved")
    rows = {worker.worker_id: worker for worker in observation.workers}
    shares = observation.balance.workers
    # A single worker between would take the place of the line that leaves it out.
    cut = len(shares) > 2 * _SHOWN + 1
    for share in shares[:_SHOWN] if cut else shares:
        yield _worker_row(share, rows)
    if cut:
        yield (f"... {len(shares) - 2 * _SHOWN:,} between",)
        for share in shares[-_SHOWN:]:
            yield _worker_row(share, rows)


def _worker_row(share: Share, rows: Mapping[str, WorkerSeen]) -> Row:
    worker = rows[share.name]
    age = (
        "none"
        if not worker.has_row
        # A stopping worker's stamp is set back, so that a KCL leader gives its leases away.
        else "stopping"
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
    for failure in failing[:_SHOWN]:
        reader = "without a worker" if failure.worker is None else f"of worker {failure.worker}"
        yield f"  {partition_of(failure.lease)} {reader}, since {failure.since:%Y-%m-%d %H:%M:%S} UTC: {failure.why}"
    if len(failing) > _SHOWN:
        yield f"  ... {len(failing) - _SHOWN:,} more"


def _numbers(share: Share) -> Row:
    return (f"{share.leases:,}", f"{share.share:.1%}", f"{share.ended:,}", _rate(share.kbps))


def _rate(kbps: float) -> str:
    """A rate in words, with two decimals for slow streams, whose rates are small and still differ."""
    return f"{kbps:,.1f}" if kbps >= 10 or not kbps else f"{kbps:.2f}"


def aligned(rows: Iterator[Row]) -> Iterator[str]:
    """The lines of a table. Its first column is set to the left, all others to the right."""
    every = [tuple(map(cell, row)) for row in rows]
    widths = [max(len(row[n]) for row in every if n < len(row)) for n in range(len(every[0]))]
    for row in every:
        # The line that tells of left-out workers has only one cell.
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=False)]
        yield "  ".join([row[0].ljust(widths[0]), *cells]).rstrip()
