"""Checks that the rows which Spark parsed in a wave account for each row that the wave read, and decides whether
the wave may be committed. Pure functions on values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from headrace.pipeline.core.ledger.accounting import Accounting, all_dropped
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.choices import ColumnsFrom, ParseFormat
from headrace.pipeline.typed.values import ApartCount, Parsed, ShardCount, Survey, WavePlan

DUPLICATE = "duplicate"
"""Why a row is in neither table: the typed table has the same event."""
FILTER = "filter"
"""Why a row is in neither table: the target's filter leaves it out."""
SUPERSEDED = "superseded"
"""Why a row is in neither table: a table of the latest rows has a later record of its key, or had one."""
DELETION = "deletion"
"""Why a row is in neither table: its record deletes the row of its key."""


def one_report(reports: Iterable[Parsed]) -> Parsed:
    """The reports of all Spark tasks of a wave, merged into one."""
    reports = tuple(reports)
    counts: dict[ShardKey, ShardCount] = {}
    for tally in (count for report in reports for count in report.counts):
        counts[tally.key] = counts.get(tally.key, ShardCount(tally.key)).plus(tally)
    apart: dict[tuple[ShardKey, str], ApartCount] = {}
    for unpacked in (count for report in reports for count in report.apart):
        place = unpacked.key, unpacked.low
        apart[place] = apart.get(place, ApartCount(*place)).plus(unpacked)
    reasons: Counter[str] = Counter()
    for reason, rows in (reason for report in reports for reason in report.reasons):
        reasons[reason] += rows
    return Parsed(
        tuple(file for report in reports for file in report.files),
        tuple(file for report in reports for file in report.aside),
        tuple(counts[key] for key in sorted(counts)),
        tuple(sorted(run for report in reports for run in report.numbers)),
        tuple(apart[where] for where in sorted(apart)),
        tuple(reasons.most_common()),
    )


def whole_survey(surveys: Iterable[Survey]) -> Survey:
    """The surveys of all Spark tasks, merged into one."""
    surveys = tuple(surveys)
    files = {path: file_parts for survey in surveys for path, file_parts in survey.files.items()}
    return Survey(tuple(piece for survey in surveys for piece in survey.pieces), files)


def account(
    plan: WavePlan, parsed: Parsed, *, dropped_as: str, version: str, schema: int
) -> dict[ShardKey, Accounting]:
    """What became of each row of the wave: parsed, set aside or dropped, by shard. `dropped_as`: the reason that
    rows are dropped for which the parser doesn't return; empty where it must return each row.

    Raises WrongShape where the parser returned a row twice, returned a row that isn't of the wave, or lacks one
    without a reason.
    """
    _check_numbers(plan, parsed)
    counts = {count.key: count for count in parsed.counts}
    if strangers := sorted(counts.keys() - {r.key for r in plan.ranges}):
        raise _wrong(f"rows of {strangers[0]} came back, of which the wave has none")
    accountings: dict[ShardKey, Accounting] = {}
    for planned in plan.ranges:
        count = counts.get(planned.key, ShardCount(planned.key))
        missing = planned.rows - count.rows_told
        # Only a function of the user may return fewer rows than it got. A filter counts what it leaves out.
        if missing and not dropped_as:
            raise _wrong(
                f"of {planned.key} {counted(planned.rows, 'row')} went in, "
                f"{count.parsed:,} were parsed and {count.aside:,} set aside"
            )
        reasons = (
            *((FILTER, count.filtered), (dropped_as, missing), (DUPLICATE, count.duplicates)),
            *((SUPERSEDED, count.superseded), (DELETION, count.deletions)),
        )
        dropped = all_dropped({why: rows} for why, rows in reasons if rows)
        names = tuple(aside_name(file.path) for file in parsed.aside if planned.key in file.shards)
        accounting = Accounting(planned.rows, count.parsed, count.aside, dropped, version, schema, names)
        if not accounting.is_complete:
            raise _wrong(f"of {planned.key} more rows came back than went in: {accounting.text()}")
        accountings[planned.key] = accounting
    return accountings


def aside_name(path: str) -> str:
    """The name by which a ledger refers to a staged file of the quarantine table: the folder of the day and the
    file's own name.
    """
    return "/".join(path.split("/")[-2:])


def _check_numbers(plan: WavePlan, parsed: Parsed) -> None:
    end = 0
    for first, length in parsed.numbers:
        # The numbers are sorted runs: one that begins before the last one's end has a row again.
        if first < end:
            raise _wrong(f"row {first:,} of the wave came back twice")
        end = first + length
    if end > plan.rows:
        raise _wrong(f"row {end - 1:,} came back, and the wave has {counted(plan.rows, 'row')}")
    total = sum(count.rows_told for count in parsed.counts)
    # Two witnesses for the same rows, by number and by count: a row that is written twice under one
    # count and missing in another would agree with one of them.
    if sum(length for _, length in parsed.numbers) != total:
        raise _wrong("the numbers of the rows that came back don't agree with how many were written")


def _wrong(why: str) -> WrongShape:
    return WrongShape(
        f"the parsed rows don't account for the rows of the lake table: {why}. "
        "Nothing was committed, and no position moved. If the parser is "
        "a callable, it has to return each row at most once, with the column `record` as it came"
    )


_LEAST_JUDGED = 100
"""The least number of records by which a wave is judged. With fewer records, a share says little."""


def told_reasons(parsed: Parsed, settings: ParseSettings) -> tuple[tuple[str, int], ...]:
    """The most frequent reasons why rows were set aside, as far as an error message may show them: those made of
    the schema's words alone. Reasons of a user's function, of a library's errors and of a payload's own fields
    may quote records (rule I32 of the protocol).
    """
    has_own_words = settings.format is ParseFormat.JSON and settings.columns is ColumnsFrom.GIVEN
    return parsed.reasons if has_own_words else ()


_NAMED_REASONS = 3
"""Reasons that a refusal names."""


def why_stop(
    accountings: Iterable[Accounting], stop_above: float, reasons: Sequence[tuple[str, int]] = ()
) -> str | None:
    """Why the wave must not be committed: more than the part `stop_above` of its rows would go to the quarantine
    table. None where it may be committed. `reasons`: the most frequent reasons, each with its number of rows.
    """
    of_wave = tuple(accountings)
    aside = sum(accounting.quarantined for accounting in of_wave)
    judged = aside + sum(accounting.parsed + accounting.dropped.get(DUPLICATE, 0) for accounting in of_wave)
    # Duplicates were parsed before they were left out. Rows that a filter has dropped count on neither side.
    if judged < _LEAST_JUDGED or aside <= stop_above * judged:
        return None
    named = "; ".join(f"{reason} ({counted(rows, 'record')})" for reason, rows in reasons[:_NAMED_REASONS])
    return (
        f"{aside:,} of {judged:,} records can't be parsed, more than its stop_above allows ({stop_above:g})"
        + (f"; the most frequent reasons are: {named}" if named else "")
    )
