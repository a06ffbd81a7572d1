"""What the demo's typed table, record processor and replayed window have to hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from headrace.pipeline.core.words.words import counted
from headrace.pipeline.demo.evidence import DemoEvidence, NumberedRow, Row, replayed_shard


def wrongly_parsed(evidence: DemoEvidence) -> Iterator[str]:
    if evidence.typed is None:
        return
    outcomes = Counter([*evidence.typed.parsed, *(name for name, _ in evidence.typed.set_aside)])
    landed = Counter(row.id for _, row in evidence.rows)
    for name in sorted((outcomes | landed).keys(), key=str):
        if outcomes[name] != landed[name]:
            times = counted(outcomes[name], "time")
            yield (
                f"{name or 'a record without id'} landed {counted(landed[name], 'time')}, "
                f"and is {times} in the typed table and its quarantine"
            )


def typed_rows(evidence: DemoEvidence) -> str:
    if evidence.typed is None:
        return "nothing has been parsed"
    parsed, aside = evidence.typed.parsed, evidence.typed.set_aside
    reasons = "; ".join(sorted({reason for _, reason in aside}))
    return f"{counted(len(parsed), 'row')}, {len(aside):,} set aside" + (f": {reasons}" if reasons else "")


def wrongly_processed(evidence: DemoEvidence) -> Iterator[str]:
    if evidence.processed is None:
        return
    landed: dict[str, list[Row]] = defaultdict(list)
    for _, row in evidence.rows:
        landed[row.shard_id].append(row)
    processed: dict[str, list[NumberedRow]] = defaultdict(list)
    for numbered in evidence.processed:
        processed[numbered.shard_id].append(numbered)
    for shard in sorted(landed.keys() | processed.keys()):
        due = [row.id for row in sorted(landed[shard], key=lambda row: row.at)]
        rows = sorted(processed[shard], key=lambda numbered: numbered.number)
        if [row.number for row in rows] != list(range(1, len(due) + 1)):
            yield (
                f"{shard}: the processor numbered {counted(len(rows), 'record')} up to {rows[-1].number if rows else 0:,}, "
                f"and {len(due):,} have landed"
            )
            continue
        for given, record in zip(rows, due, strict=True):
            if given.id != record:
                yield f"{shard}: the processor's record {given.number:,} is {given.id}, and the shard's is {record}"


def processed_rows(evidence: DemoEvidence) -> str:
    return "it hasn't worked" if evidence.processed is None else counted(len(evidence.processed), "row")


def wrongly_replayed(evidence: DemoEvidence) -> Iterator[str]:
    if evidence.typed is None:
        return
    shard = replayed_shard(evidence.puts)
    due = Counter[str | None](put.id for put in evidence.puts.values() if put.shard_id == shard)
    new_rows = Counter(evidence.typed.again)
    for name in sorted((new_rows | due).keys(), key=str):
        if new_rows[name] != due[name]:
            place = f"in the window {counted(due[name], 'time')}" if due[name] else "outside of the window"
            yield (
                f"{name or 'a record without id'} is {place}, and has {counted(new_rows[name], 'row')} of the "
                "second version of the schema"
            )


def replayed_rows(evidence: DemoEvidence) -> str:
    shard = replayed_shard(evidence.puts)
    if evidence.typed is None or shard is None:
        return "nothing has been parsed"
    return f"{counted(len(evidence.typed.again), 'row')}; the window has the records of {shard}"
