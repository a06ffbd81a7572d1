"""Is what lies in the table what was put? Decided from evidence alone: nothing is asked and nothing believed.

put  = landed      by id: none missing, none twice, none that nobody put, each where Kinesis said it went
order              sequence numbers only rise, within a file and from file to file of a shard
chain              each range of a shard begins where the one before it ended, up to the shard's end
ledger             the rows that a commit says it brought are the rows that lie in its files
families           nothing of a child came in before its parents had ended
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from pipeline.core.lineage import Range
from pipeline.core.position import Position
from pipeline.core.words import counted
from pipeline.demo.evidence import Evidence, File, Row, holds


@dataclass(frozen=True, slots=True)
class Finding:
    """One promise, how much was looked at for it, and a sentence for each thing that breaks it."""

    name: str
    promise: str
    looked_at: str
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    put: int
    landed: int
    findings: tuple[Finding, ...]

    @property
    def matches(self) -> bool:
        return not any(finding.wrong for finding in self.findings)

    def wrong(self, name: str) -> tuple[str, ...]:
        return next(finding.wrong for finding in self.findings if finding.name == name)

    def __str__(self) -> str:
        both = f"{self.put:,} put, {self.landed:,} landed"
        if self.matches:
            return f"everything matches: {both}, 0 missing, 0 duplicates, 0 out of order"
        told = ", ".join(f"{len(f.wrong):,} {f.name}" for f in self.findings if f.wrong)
        first = next(f.wrong[0] for f in self.findings if f.wrong)
        return f"DOES NOT MATCH: {both}, {told}; first: {first}"


def judge(evidence: Evidence) -> Verdict:
    landed = sum(len(file.rows) for file in evidence.files)
    puts = counted(len(evidence.puts), "record")
    rows = counted(landed, "row")
    ranges = counted(sum(map(len, evidence.ranges.values())), "range")
    checks: tuple[tuple[str, str, str, Callable[[Evidence], Iterator[str]]], ...] = (
        ("missing", "every record that was put has landed", puts, _missing),
        ("duplicates", "none has landed twice", rows, _duplicates),
        ("unknown", "nothing has landed that nobody put", rows, _unknown),
        ("misplaced", "each has the shard and sequence number that its producer was told", rows, _misplaced),
        ("out of order", "sequence numbers only rise, in each file and across a shard's", rows, _disorder),
        ("broken chains", "a shard's ranges are one chain, up to its end once it is closed", ranges, _breaks),
        ("ledger errors", "each snapshot's ledger tells exactly the rows in its files", ranges, _ledger),
        ("early children", "no child began before its parents had ended", ranges, _early_children),
    )
    findings = tuple(
        Finding(name, promise, at, tuple(check(evidence))) for name, promise, at, check in checks
    )
    return Verdict(len(evidence.puts), landed, findings)


# --- record by record ---------------------------------------------------------------------------------------


def _missing(evidence: Evidence) -> Iterator[str]:
    landed = {row.id for _, row in evidence.rows}
    for put in evidence.puts.values():
        if put.id not in landed:
            snapshot = evidence.snapshot_of(put)
            by = f"snapshot {snapshot} says it brought it" if snapshot else "no snapshot says it brought it"
            yield f"{put.id} ({put.shard_id} {put.sequence}) isn't in the table; {by}"


def _duplicates(evidence: Evidence) -> Iterator[str]:
    first: dict[str, File] = {}
    for file, row in evidence.rows:
        if row.id is None:
            continue
        if row.id in first:
            yield f"{row} is there again in {_place(file)}; it was in {_place(first[row.id])} already"
        first.setdefault(row.id, file)


def _unknown(evidence: Evidence) -> Iterator[str]:
    for file, row in evidence.rows:
        if row.id not in evidence.puts:
            yield f"{row} in {_place(file)} was put by nobody"


def _misplaced(evidence: Evidence) -> Iterator[str]:
    for file, row in evidence.rows:
        put = evidence.puts.get(row.id or "")
        if put is not None and (put.shard_id, put.sequence) != (row.shard_id, row.sequence):
            yield f"{row} in {_place(file)} was put as {put.shard_id} {put.sequence}"


# --- order --------------------------------------------------------------------------------------------------


def _disorder(evidence: Evidence) -> Iterator[str]:
    spans: dict[str, list[tuple[int, Row, Row, File]]] = defaultdict(list)
    for file in evidence.files:
        for shard, rows in _by_shard(file).items():
            for before, after in pairwise(rows):
                # The same record twice is a duplicate, not a disorder.
                if after.at < before.at or (after.at == before.at and after.id != before.id):
                    yield f"{after} comes after {before} in {_place(file)}"
            low, high = min(rows, key=lambda r: r.at), max(rows, key=lambda r: r.at)
            spans[shard].append((evidence.age.get(file.snapshot, -1), low, high, file))
    for its in spans.values():
        # One commit may bring several files of a shard, one for each day: those follow their own order.
        its.sort(key=lambda span: (span[0], span[1].at))
        for (_, _, before, _), (_, after, _, file) in pairwise(its):
            if after.at <= before.at:
                yield f"{after} in {_place(file)} comes after {before}, which an earlier file holds"


def _by_shard(file: File) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in file.rows:
        found[row.shard_id].append(row)
    return found


# --- the ledger ---------------------------------------------------------------------------------------------


def _breaks(evidence: Evidence) -> Iterator[str]:
    for name, ranges in evidence.ranges.items():
        at: Position | None = None
        for snapshot, its in ranges:
            if _token(its.after) != _token(at):
                yield f"{name}: snapshot {snapshot} goes on from {_told(its.after)}, the one before ended at {_told(at)}"
            at = its.upto
    for shard in evidence.shards:
        last = evidence.ranges.get(shard.shard_id)
        if shard.closed and not (last and last[-1][1].upto.ended):
            where = (
                f"its last range, in snapshot {last[-1][0]}, ends at {last[-1][1].upto}"
                if last
                else "no range"
            )
            yield f"{shard.shard_id} is closed, but the ledger has no end of it: {where}"


def _ledger(evidence: Evidence) -> Iterator[str]:
    told = {(page.snapshot, r.key.shard_id): r for page in evidence.pages for r in page.ranges}
    found: Counter[tuple[int, str]] = Counter()
    for file in evidence.files:
        if file.said != len(file.rows):
            yield f"{_place(file)} has {counted(len(file.rows), 'row')}, the table's metadata says {file.said:,}"
        for row in file.rows:
            found[file.snapshot, row.shard_id] += 1
            its = told.get((file.snapshot, row.shard_id))
            if its is None or not holds(its, row.sequence):
                yield f"{row} in {_place(file)} is outside of that snapshot's range, {_span(its)}"
    for (snapshot, shard), its in told.items():
        if its.rows != (there := found[snapshot, shard]):
            yield f"{shard}: snapshot {snapshot} says that it brought {counted(its.rows, 'row')}; {there:,} found"


def _early_children(evidence: Evidence) -> Iterator[str]:
    ended = {
        name: evidence.age[snapshot]
        for name, ranges in evidence.ranges.items()
        for snapshot, its in ranges
        if its.upto.ended
    }
    for shard in evidence.shards:
        ranges = evidence.ranges.get(shard.shard_id, ())
        for parent in shard.parents if ranges else ():
            snapshot, first = ranges[0]
            # By Kinesis's word on the parents, not only by those that the first range names.
            if parent not in {reason.shard_id for reason in first.parents}:
                yield f"{shard.shard_id}: its first range, in snapshot {snapshot}, doesn't name its parent {parent}"
            if ended.get(parent, len(evidence.pages)) > evidence.age[snapshot]:
                yield f"{shard.shard_id} began in snapshot {snapshot}, before its parent {parent} had ended"


def _token(position: Position | None) -> tuple[int | None, int, bool]:
    return position.token if position else Position().token


def _told(position: Position | None) -> str:
    return "the start" if position is None else str(position)


def _span(its: Range | None) -> str:
    return "which there is none" if its is None else f"after {_told(its.after)} up to {its.upto}"


def _place(file: File) -> str:
    return f"file {file.name} of snapshot {file.snapshot}"
