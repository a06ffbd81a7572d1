"""`headrace lineage --sequence`: the range that has a record, where the record is now, and what typed tables
made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.pipeline.cli.telling import tell
from headrace.pipeline.cli.views.json_output import id_json, print_json, time_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.pipeline.app.adapters import Adapters
    from headrace.pipeline.core.ledger.story import Step, Story
    from headrace.pipeline.core.shards.stream import ShardKey
    from headrace.pipeline.lake.table.lake_table import IcebergTable
    from headrace.pipeline.lineage.cut import Cut
    from headrace.pipeline.lineage.find_record import FoundRecord
    from headrace.pipeline.settings.blocks.parse import ParseSettings

_NO_RANGE = 1
# Shards that the sentence names where no range has the number.
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """A range that has the record's sequence number, or may have it, and the files of the lake table with rows of
    that number in the range.
    """

    step: Step
    files: tuple[FoundRecord, ...]


def show_record(args: argparse.Namespace, adapters: Adapters, cut: Cut) -> int:
    from headrace.pipeline.core.ledger.story import story_of

    number: int = args.sequence
    lake = adapters.table("lineage")
    story = story_of(cut.of(adapters.lineage("lineage").entries(cut.filter(number=number))))
    spanning = [RecordPlace(step, tuple(_files(step, lake, number))) for step in _steps_with(story, number)]
    places = answer_of(spanning)
    shards = {place.step.range.key for place in places}
    parsed = list(_parsed(adapters, cut, number, shards)) if places else []
    if args.json:
        print_json(
            {
                "sequence_number": str(number),
                "ranges": [*map(_place_json, places)],
                "parsed": [parsed_record.json() for parsed_record in parsed],
            }
        )
    elif places:
        for place in places:
            tell(*_where(place, number))
        for record in parsed:
            tell(*record.lines())
    else:
        tell(_nowhere(args, spanning))
    return 0 if places else _NO_RANGE


def answer_of(spanning: Sequence[RecordPlace]) -> list[RecordPlace]:
    """Those of the ranges that have the sequence number, among all ranges that span it: the numbers of different
    shards overlap.

    The rows decide. Where no row has the number, a range whose records aren't in the table, such as a gap, is the
    answer.
    """
    with_rows = {place.step.range.key for place in spanning if place.files}
    if with_rows:
        return [place for place in spanning if place.step.range.key in with_rows]
    gaps = [place for place in spanning if not place.step.range.rows]
    # The first range of a shard spans all numbers below its end.
    return [place for place in gaps if place.step.range.after is not None] or gaps


def _nowhere(args: argparse.Namespace, spanning: Sequence[RecordPlace]) -> str:
    of = f" of {args.shard}" if args.shard else ""
    if not spanning:
        return (
            f"no range{of} has the sequence number {args.sequence}: such a record has not landed, "
            "and no gap names it"
        )
    keys = sorted({str(place.step.range.key) for place in spanning})
    named = ", ".join(keys[:_MOST_NAMED]) + (", ..." if len(keys) > _MOST_NAMED else "")
    return (
        f"no range{of} has the sequence number {args.sequence}: the ranges of {named} span it, "
        "and no row of the table has it. Kinesis may have given it to no record, or the row was removed "
        "since (upkeep.retention, another engine); `headrace prove` tells whether one is missing"
    )


def _steps_with(story: Story, number: int) -> Iterator[Step]:
    for key in story.keys:
        for step in story.of(key):
            after, upto = step.range.after, step.range.upto.sequence
            # Sequence numbers begin at 0.
            begins = -1 if after is None or after.sequence is None else after.sequence
            if upto is not None and (begins < number <= upto or _may_have_rest(step, number)):
                yield step


def _may_have_rest(step: Step, number: int) -> bool:
    """Whether the range begins inside the record: another program has read the first user records of an aggregate."""
    after, upto = step.range.after, step.range.upto
    return after is not None and after.inside and after.sequence == number and upto.token != after.token


def _files(step: Step, lake: IcebergTable, number: int) -> Iterator[FoundRecord]:
    from headrace.pipeline.core.ledger.ledger import Kind
    from headrace.pipeline.lineage.find_record import find_record

    if step.range.rows and step.range.kind is not Kind.UNPACKED:
        yield from find_record(lake, step.range, number)


def _where(place: RecordPlace, number: int) -> Iterator[str]:
    from headrace.pipeline.core.ledger.accounting import read_accounting
    from headrace.pipeline.core.ledger.ledger import Kind
    from headrace.pipeline.core.words.words import counted

    step = place.step
    yield f"{step.range.kind}: {step}"
    if step.range.kind is Kind.UNPACKED:
        window = read_accounting(step.range.account).window
        yield (
            f"  aggregates of this range were taken apart for the window {window}; "
            "their rows are in the range by which they landed"
        )
        return
    if not step.range.rows:
        yield f"  the range has no records in the table: {step.range.why or 'its kind says why'}"
        return
    for file in place.files:
        how = "as it landed" if _is_as_landed(place, file) else "rewritten since it landed"
        arrived = "" if file.arrival is None else f", arrived {file.arrival:%Y-%m-%d %H:%M:%S}Z"
        yield f"  the record is in {file.path}, which snapshot {file.snapshot} added ({how}); {counted(file.rows, 'row')}{arrived}"
    if not place.files and _may_have_rest(step, number):
        yield f"  no row of the table has the number {number}: nothing of that record was left when this range began"
    elif not place.files:
        yield f"  no row of the table has the number {number} in this range"


def _is_as_landed(place: RecordPlace, file: FoundRecord) -> bool:
    return file.path.rsplit("/", 1)[-1] in place.step.range.files


def _place_json(place: RecordPlace) -> dict[str, Any]:
    from headrace.pipeline.cli.views.lineage_json import range_json

    files = [
        {**_file_json(file), "arrival": time_json(file.arrival), "as_landed": _is_as_landed(place, file)}
        for file in place.files
    ]
    return {"snapshot": id_json(place.step.snapshot), **range_json(place.step.range), "found_in": files}


def _file_json(file: FoundRecord) -> dict[str, Any]:
    return {"file": file.path, "snapshot": id_json(file.snapshot), "rows": file.rows}


# --- typed tables -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParsedRecord:
    """What became of the record in a typed table and its quarantine table."""

    target: ParseSettings
    steps: tuple[Step, ...]
    """The commits that decided about the record, the oldest first."""
    files: tuple[tuple[str, FoundRecord], ...]
    """The tables that have the record, and in which file."""

    def lines(self) -> Iterator[str]:
        from headrace.pipeline.core.ledger.accounting import read_accounting
        from headrace.pipeline.core.words.words import counted

        target = self.target
        for step in self.steps:
            account = read_accounting(step.range.account)
            by = (
                f"parsed again, in the place of older rows, for the window {account.window}"
                if account.window
                else "parsed"
            )
            dropped = "".join(f", {rows:,} dropped by {reason}" for reason, rows in account.dropped.items())
            yield f"{target.name}: {by}: {step}, version {account.version or 'none'}"
            yield (
                f"  of the range's rows {account.parsed:,} are in {target.table}, {account.quarantined:,} "
                f"were set aside{dropped}"
            )
        for table, file in self.files:
            why = (
                f"; set aside because {' / '.join(file.texts('reason'))}"
                if table == target.quarantine
                else ""
            )
            yield (
                f"  the record is now in {table}: {counted(file.rows, 'row')}, in {file.path}, which snapshot "
                f"{file.snapshot} added{why}"
            )
        if self.steps and not self.files:
            yield (
                f"  no row of {self.steps[0].range.key} in {target.table} or {target.quarantine} has the "
                "number: the record was dropped, or its row was removed since"
            )

    def json(self) -> dict[str, Any]:
        from headrace.pipeline.core.ledger.accounting import read_accounting

        accounts = [(step, read_accounting(step.range.account)) for step in self.steps]
        return {
            "target": self.target.name,
            "commits": [
                {
                    "snapshot": id_json(step.snapshot),
                    "run": step.range.run,
                    "version": account.version,
                    "window": account.window or None,
                }
                for step, account in accounts
            ],
            "found_in": [
                {
                    "table": table,
                    **_file_json(file),
                    "reasons": file.texts("reason") if table == self.target.quarantine else [],
                }
                for table, file in self.files
            ],
        }


def _parsed(adapters: Adapters, cut: Cut, number: int, shards: Iterable[ShardKey]) -> Iterator[ParsedRecord]:
    from headrace.pipeline.core.ledger.generation import is_chain
    from headrace.pipeline.core.ledger.story import story_of
    from headrace.pipeline.lineage.find_record import find_record

    shards_of_record = set(shards)
    for target in adapters.settings.parse:
        ports = adapters.parsing(target, "lineage")
        if not ports.table.exists():
            continue
        story = story_of(cut.of(ports.lineage.entries(cut.filter(number=number))))
        steps = [
            step
            for step in _steps_with(story, number)
            if step.range.key in shards_of_record and not is_chain(step.range.key)
        ]
        steps.sort(key=lambda step: step.sequence)
        tables = (
            adapters.typed(target, "lineage"),
            adapters.quarantine(target, "lineage"),
        )
        files = [
            (table.identifier, file)
            for step in {step.range.key: step for step in reversed(steps)}.values()
            for table in tables
            if table.exists()
            for file in find_record(table, step.range, number)
        ]
        if steps:
            yield ParsedRecord(target, tuple(steps), tuple(files))
