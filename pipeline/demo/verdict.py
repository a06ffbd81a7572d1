"""The demo's verdict: whether the table holds exactly the records that were put. A pure function of the evidence.

put  = landed      by record id: none missing, none twice, no unknown one, each in the shard that Kinesis named
order              sequence numbers only rise, within a file and from file to file of a shard
chain              each range of a shard begins where the range before it ended, up to the shard's end
ledger             the rows that a commit's ledger states are the rows in the commit's files
families           no record of a child shard landed before its parents were read to their ends
typed              each landed record is in the typed table or in its quarantine table, once
processed          the record processor has got each landed record once, in the order of its shard
replayed           each record of the window has one row of the second version of the schema, and no other record has
                   one
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from headrace.pipeline.core.ledger.ledger import Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.demo.evidence import DemoEvidence, File, Row, holds
from headrace.pipeline.demo.product_verdict import (
    processed_rows,
    replayed_rows,
    typed_rows,
    wrongly_parsed,
    wrongly_processed,
    wrongly_replayed,
)


@dataclass(frozen=True, slots=True)
class CheckedPromise:
    """One promise, the number of things checked for it, and a sentence for each violation."""

    name: str
    promise: str
    looked_at: str
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DemoVerdict:
    put: int
    landed: int
    findings: tuple[CheckedPromise, ...]

    @property
    def matches(self) -> bool:
        return not any(finding.wrong for finding in self.findings)

    def wrong(self, name: str) -> tuple[str, ...]:
        return next(finding.wrong for finding in self.findings if finding.name == name)

    def __str__(self) -> str:
        totals = f"{self.put:,} put, {self.landed:,} landed"
        if self.matches:
            return f"everything matches: {totals}, 0 missing, 0 duplicates, 0 out of order"
        counts = ", ".join(f"{len(f.wrong):,} {f.name}" for f in self.findings if f.wrong)
        first = next(f.wrong[0] for f in self.findings if f.wrong)
        return f"DOES NOT MATCH: {totals}, {counts}; first: {first}"


def judge(evidence: DemoEvidence) -> DemoVerdict:
    landed = sum(len(file.rows) for file in evidence.files)
    puts = counted(len(evidence.puts), "record")
    rows = counted(landed, "row")
    ranges = counted(sum(map(len, evidence.ranges.values())), "range")
    checks: tuple[tuple[str, str, str, Callable[[DemoEvidence], Iterator[str]]], ...] = (
        ("missing", "every record that was put has landed", puts, _missing),
        ("duplicates", "no record has landed twice", rows, _duplicates),
        ("unknown", "no record has landed that no producer put", rows, _unknown),
        (
            "misplaced",
            "each record has the shard and sequence number that Kinesis gave to its producer",
            rows,
            _misplaced,
        ),
        (
            "out of order",
            "sequence numbers only rise, in each file and across the files of a shard",
            rows,
            _disorder,
        ),
        ("broken chains", "a shard's ranges are one chain, up to its end once it is closed", ranges, _breaks),
        ("ledger errors", "each snapshot's ledger states exactly the rows in its files", ranges, _ledger),
        ("early children", "no child began before its parents had ended", ranges, _early_children),
        (
            "wrongly parsed",
            "each landed record is in the typed table or set aside with a reason, once",
            typed_rows(evidence),
            wrongly_parsed,
        ),
        (
            "wrongly processed",
            "the record processor has got each landed record once, in the order of its shard",
            processed_rows(evidence),
            wrongly_processed,
        ),
        (
            "wrongly replayed",
            "exactly the window's records were parsed again, and each of them has one new row",
            replayed_rows(evidence),
            wrongly_replayed,
        ),
    )
    findings = tuple(
        CheckedPromise(name, promise, scope, tuple(check(evidence))) for name, promise, scope, check in checks
    )
    return DemoVerdict(len(evidence.puts), landed, findings)


# --- record by record ---------------------------------------------------------------------------------------


def _missing(evidence: DemoEvidence) -> Iterator[str]:
    landed = {row.id for _, row in evidence.rows}
    for put in evidence.puts.values():
        if put.id not in landed:
            snapshot = evidence.snapshot_of(put)
            by = (
                f"the ledger of snapshot {snapshot} says that it landed"
                if snapshot
                else "no ledger says that it landed"
            )
            yield f"{put.id} ({put.shard_id} {put.sequence}) isn't in the table; {by}"


def _duplicates(evidence: DemoEvidence) -> Iterator[str]:
    first: dict[str, File] = {}
    for file, row in evidence.rows:
        if row.id is None:
            continue
        if row.id in first:
            yield f"{row} is in {_place(file)} once more; it is in {_place(first[row.id])} already"
        first.setdefault(row.id, file)


def _unknown(evidence: DemoEvidence) -> Iterator[str]:
    for file, row in evidence.rows:
        if row.id not in evidence.puts:
            yield f"{row} in {_place(file)} was put by no producer"


def _misplaced(evidence: DemoEvidence) -> Iterator[str]:
    for file, row in evidence.rows:
        put = evidence.puts.get(row.id or "")
        if put is not None and (put.shard_id, put.sequence) != (row.shard_id, row.sequence):
            yield f"{row} in {_place(file)} was put as {put.shard_id} {put.sequence}"


# --- order --------------------------------------------------------------------------------------------------


def _disorder(evidence: DemoEvidence) -> Iterator[str]:
    spans: dict[str, list[tuple[int, Row, Row, File]]] = defaultdict(list)
    for file in evidence.files:
        for shard, rows in _by_shard(file).items():
            for before, after in pairwise(rows):
                # The same record twice is a duplicate, not a disorder.
                if after.at < before.at or (after.at == before.at and after.id != before.id):
                    yield f"{after} comes after {before} in {_place(file)}"
            low, high = min(rows, key=lambda r: r.at), max(rows, key=lambda r: r.at)
            spans[shard].append((evidence.age.get(file.snapshot, -1), low, high, file))
    for shard_spans in spans.values():
        # One commit may bring several files of a shard, one for each day: those follow their own order.
        shard_spans.sort(key=lambda span: (span[0], span[1].at))
        for (_, _, before, _), (_, after, _, file) in pairwise(shard_spans):
            if after.at <= before.at:
                yield f"{after} in {_place(file)} comes after {before}, which an earlier file holds"


def _by_shard(file: File) -> dict[str, list[Row]]:
    rows_of_shard: dict[str, list[Row]] = defaultdict(list)
    for row in file.rows:
        rows_of_shard[row.shard_id].append(row)
    return rows_of_shard


# --- the ledger ---------------------------------------------------------------------------------------------


def _breaks(evidence: DemoEvidence) -> Iterator[str]:
    for name, ranges in evidence.ranges.items():
        expected: Position | None = None
        for snapshot, covered in ranges:
            if _token(covered.after) != _token(expected):
                yield (
                    f"{name}: snapshot {snapshot} goes on from {_text(covered.after)}, but the range before it "
                    f"ended at {_text(expected)}"
                )
            expected = covered.upto
    for shard in evidence.shards:
        last = evidence.ranges.get(shard.shard_id)
        if shard.closed and not (last and last[-1][1].upto.ended):
            last_range = (
                f"its last range, in snapshot {last[-1][0]}, ends at {last[-1][1].upto}"
                if last
                else "no range"
            )
            yield f"{shard.shard_id} is closed, but the ledger has no end of it: {last_range}"


def _ledger(evidence: DemoEvidence) -> Iterator[str]:
    stated = {(page.snapshot, r.key.shard_id): r for page in evidence.pages for r in page.ranges}
    row_counts: Counter[tuple[int, str]] = Counter()
    records: dict[tuple[int, str], set[int]] = defaultdict(set)
    for file in evidence.files:
        if file.stated != len(file.rows):
            yield f"{_place(file)} has {counted(len(file.rows), 'row')}, the table's metadata says {file.stated:,}"
        for row in file.rows:
            row_counts[file.snapshot, row.shard_id] += 1
            records[file.snapshot, row.shard_id].add(row.sequence)
            landed = stated.get((file.snapshot, row.shard_id))
            if landed is None or not holds(landed, row.sequence):
                yield f"{row} in {_place(file)} is outside of that snapshot's range, {_span(landed)}"
    for (snapshot, shard), landed in stated.items():
        if landed.rows != (count := row_counts[snapshot, shard]):
            yield (
                f"{shard}: the ledger of snapshot {snapshot} says {counted(landed.rows, 'row')}, "
                f"its files have {count:,}"
            )
        elif landed.records != (count := len(records[snapshot, shard])):
            records_stated = counted(landed.records, "Kinesis record")
            yield (
                f"{shard}: the ledger of snapshot {snapshot} says {records_stated}, the rows in its files "
                f"are of {count:,}"
            )


def _early_children(evidence: DemoEvidence) -> Iterator[str]:
    ended = {
        name: evidence.age[snapshot]
        for name, ranges in evidence.ranges.items()
        for snapshot, covered in ranges
        if covered.upto.ended
    }
    for shard in evidence.shards:
        ranges = evidence.ranges.get(shard.shard_id, ())
        for parent in shard.parents if ranges else ():
            snapshot, first = ranges[0]
            # The parents are those in Kinesis's list; the child's first range has to name all of them.
            if parent not in {reason.shard_id for reason in first.parents}:
                yield f"{shard.shard_id}: its first range, in snapshot {snapshot}, doesn't name its parent {parent}"
            if ended.get(parent, len(evidence.pages)) > evidence.age[snapshot]:
                yield f"{shard.shard_id} began in snapshot {snapshot}, before its parent {parent} had ended"


def _token(position: Position | None) -> tuple[int | None, int, bool]:
    return position.token if position else Position().token


def _text(position: Position | None) -> str:
    return "the start" if position is None else str(position)


def _span(landed: Range | None) -> str:
    return "but the ledger has none" if landed is None else f"after {_text(landed.after)} up to {landed.upto}"


def _place(file: File) -> str:
    return f"file {file.name} of snapshot {file.snapshot}"
