"""Further views of `headrace lineage`: where one record is now, what typed tables made of it, the gaps, and a picture of the shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.cli.telling import tell

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.pipeline.core.proof_chains import Step, Story
    from headrace.pipeline.lake.iceberg import IcebergTable
    from headrace.pipeline.settings.parse_block import ParseSettings


def show_family(story: Story) -> int:
    from headrace.pipeline.core.family_picture import mermaid

    tell(*mermaid(story))
    return 0


def show_gaps(story: Story) -> int:
    from headrace.pipeline.core.proof_chains import ranges_without_rows

    told = [each.text for each in ranges_without_rows(story)]
    tell(
        *(
            told
            or ["no gap: each record of the ledgers' ranges was landed by Headrace, and no ledger is lost"]
        )
    )
    return 0


def show_record(story: Story, lake: IcebergTable, sequence: int, *, shard: str | None) -> int:
    """Print where the record is. Returns 0 also where it isn't, because that is an answer."""
    found = [step for step in _steps_with(story, sequence) if shard in (None, step.range.key.shard_id)]
    for step in found:
        tell(*_where(step, lake, sequence))
    if not found:
        of = f" of {shard}" if shard else ""
        tell(
            f"no range{of} has the sequence number {sequence}: such a record has not landed, and no gap names it"
        )
    return 0


def show_parsed(
    target: ParseSettings,
    story: Story,
    sequence: int,
    *,
    shard: str | None,
    tables: Sequence[IcebergTable],
) -> None:
    """Print which commits of a typed table decided about the record, the oldest first, and which of the tables has it now. `tables`: the typed
    table and its quarantine table."""
    from headrace.pipeline.core.accounting import read_accounting
    from headrace.pipeline.core.redrive_chain import is_chain

    found = [
        step
        for step in _steps_with(story, sequence)
        if shard in (None, step.range.key.shard_id) and not is_chain(step.range.key)
    ]
    found.sort(key=lambda step: step.sequence)
    for step in found:
        told = read_accounting(step.range.why)
        by = (
            f"parsed again, in the place of older rows, for the window {told.window}"
            if told.window
            else "parsed"
        )
        dropped = "".join(f", {rows:,} dropped by {why}" for why, rows in told.dropped.items())
        tell(
            f"{target.name}: {by}: {step}, version {told.version or 'none'}",
            f"  of the range's rows {told.parsed:,} are in {target.table}, {told.quarantined:,} were set aside{dropped}",
        )
    for step in {step.range.key: step for step in reversed(found)}.values():
        tell(*_now_in(tables, step, sequence))


def _now_in(tables: Sequence[IcebergTable], step: Step, sequence: int) -> Iterator[str]:
    from headrace.pipeline.core.words import counted
    from headrace.pipeline.lake.find_record import find_record

    typed, quarantine = tables
    is_there = False
    for table in tables:
        for each in find_record(table, step.range, sequence) if table.exists() else ():
            is_there = True
            why = f"; set aside because {' / '.join(each.texts('reason'))}" if table is quarantine else ""
            yield f"  now in {table.identifier}: {counted(each.rows, 'row')}, in {each.path}, which snapshot {each.snapshot} added{why}"
    if not is_there:
        yield (
            f"  no row of {step.range.key.shard_id} in {typed.identifier} or {quarantine.identifier} has the number {sequence}: the record was "
            "dropped, it is none of this shard, or its row was removed since"
        )


def _steps_with(story: Story, sequence: int) -> Iterator[Step]:
    for key in story.keys:
        for step in story.of(key):
            after, upto = step.range.after, step.range.upto.sequence
            begins = -1 if after is None or after.sequence is None else after.sequence
            if upto is not None and (begins < sequence <= upto or _may_have_rest(step, sequence)):
                yield step


def _may_have_rest(step: Step, sequence: int) -> bool:
    """Whether the range begins inside the record: another program has read the first user records of an aggregate."""
    after, upto = step.range.after, step.range.upto
    return after is not None and after.inside and after.sequence == sequence and upto.token != after.token


def _where(step: Step, lake: IcebergTable, sequence: int) -> Iterator[str]:
    from headrace.pipeline.core.accounting import read_accounting
    from headrace.pipeline.core.lineage import Kind
    from headrace.pipeline.core.words import counted
    from headrace.pipeline.lake.find_record import find_record

    yield f"{step.range.kind}: {step}"
    if step.range.kind is Kind.UNPACKED:
        window = read_accounting(step.range.why).window
        yield f"  aggregates of this range were taken apart for the window {window}; their rows are in the range by which they landed"
        return
    if not step.range.rows:
        yield f"  the range has no records in the table: {step.range.why or 'its kind says why'}"
        return
    files = list(find_record(lake, step.range, sequence))
    for each in files:
        landed = each.path.rsplit("/", 1)[-1] in step.range.files
        how = "as it landed" if landed else "rewritten since it landed"
        arrived = "" if each.arrival is None else f", arrived {each.arrival:%Y-%m-%d %H:%M:%S}Z"
        yield f"  in {each.path}, which snapshot {each.snapshot} added ({how}); {counted(each.rows, 'row')}{arrived}"
    if not files and _may_have_rest(step, sequence):
        yield f"  no row of the table has the number {sequence}: nothing of that record was left when this range began"
    elif not files:
        yield (
            f"  no row of the table has the number {sequence} in this range: Kinesis may have given it to no record, or the row was "
            "removed since (upkeep.retention, another engine); `headrace prove` tells whether one is missing"
        )
