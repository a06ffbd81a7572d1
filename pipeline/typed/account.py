"""Whether what Spark made of a wave accounts for each of its rows, and whether the wave may be committed. Pure functions on values."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.pipeline.core.ledger.accounting import Accounting, all_dropped
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.typed.values import ApartCount, Parsed, ShardCount, Survey, WavePlan

DUPLICATE = "duplicate"
"""Why a row is in neither table: the typed table has the same event."""
FILTER = "filter"
"""Why a row is in neither table: the target's filter leaves it out."""


def joined(parts: Iterable[Parsed]) -> Parsed:
    """The reports of all tasks as one."""
    parts = tuple(parts)
    counts: dict[ShardKey, ShardCount] = {}
    for each in (count for part in parts for count in part.counts):
        counts[each.key] = counts.get(each.key, ShardCount(each.key)).plus(each)
    apart: dict[tuple[ShardKey, str], ApartCount] = {}
    for its in (count for part in parts for count in part.apart):
        at = its.key, its.low
        apart[at] = apart.get(at, ApartCount(*at)).plus(its)
    return Parsed(
        tuple(file for part in parts for file in part.files),
        tuple(file for part in parts for file in part.aside),
        tuple(counts[key] for key in sorted(counts)),
        tuple(sorted(run for part in parts for run in part.numbers)),
        tuple(apart[at] for at in sorted(apart)),
    )


def whole_survey(parts: Iterable[Survey]) -> Survey:
    """The surveys of all tasks as one."""
    parts = tuple(parts)
    files = {path: told for part in parts for path, told in part.files.items()}
    return Survey(tuple(piece for part in parts for piece in part.pieces), files)


def account(
    plan: WavePlan, parsed: Parsed, *, dropped_as: str, version: str, schema: int
) -> dict[ShardKey, Accounting]:
    """What became of each row of the wave. `dropped_as`: why rows may not come back; empty where none may be missing.

    Raises WrongShape where rows came twice, came from elsewhere, or are missing without a reason.
    """
    _check_numbers(plan, parsed)
    counts = {count.key: count for count in parsed.counts}
    if strangers := sorted(counts.keys() - {each.key for each in plan.ranges}):
        raise _wrong(f"rows of {strangers[0]} came back, of which the wave has none")
    found: dict[ShardKey, Accounting] = {}
    for each in plan.ranges:
        count = counts.get(each.key, ShardCount(each.key))
        missing = each.rows - count.told
        if missing and not dropped_as:
            raise _wrong(
                f"of {each.key} {counted(each.rows, 'row')} went in, {count.parsed:,} were parsed and {count.aside:,} set aside"
            )
        reasons = ((FILTER, count.filtered), (dropped_as, missing), (DUPLICATE, count.duplicates))
        dropped = all_dropped({why: rows} for why, rows in reasons if rows)
        names = tuple(aside_name(file.path) for file in parsed.aside if each.key in file.shards)
        told = Accounting(each.rows, count.parsed, count.aside, dropped, version, schema, names)
        if not told.is_complete:
            raise _wrong(f"of {each.key} more rows came back than went in: {told.text()}")
        found[each.key] = told
    return found


def aside_name(path: str) -> str:
    """The name of a staged file below the table's data folder: that of the day's folder, and its own."""
    return "/".join(path.split("/")[-2:])


def _check_numbers(plan: WavePlan, parsed: Parsed) -> None:
    end = 0
    for first, length in parsed.numbers:
        if first < end:
            raise _wrong(f"row {first:,} of the wave came back twice")
        end = first + length
    if end > plan.rows:
        raise _wrong(f"row {end - 1:,} came back, and the wave has {counted(plan.rows, 'row')}")
    told = sum(count.told for count in parsed.counts)
    if sum(length for _, length in parsed.numbers) != told:
        raise _wrong("the numbers of the rows that came back don't agree with how many were written")


def _wrong(why: str) -> WrongShape:
    return WrongShape(
        f"the parsed rows don't account for the rows of the lake table: {why}. Nothing was committed, and no position moved. If the parser is "
        "a callable, it has to return each row at most once, with the column `record` as it came"
    )


_LEAST_JUDGED = 100
"""With fewer records, a share says little."""


def why_stop(accountings: Iterable[Accounting], stop_above: float) -> str | None:
    """Why the wave must not be committed: too large a part of it would go to quarantine."""
    told = tuple(accountings)
    aside = sum(each.quarantined for each in told)
    judged = aside + sum(each.parsed for each in told)
    if judged < _LEAST_JUDGED or aside <= stop_above * judged:
        return None
    return f"{aside:,} of {judged:,} records can't be parsed, more than quarantine.stop_above allows ({stop_above:g})"
