"""The upkeep of a typed table, of its quarantine table and of their lineage tables.

First the quarantine table gets what commits of the typed table have set aside, because the staged files and
ledgers of those commits are needed until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.upkeep.delete import Deleted
from headrace.pipeline.upkeep.parts import foreseen
from headrace.pipeline.upkeep.upkeep import Upkeep, UpkeepReport


def run_upkeep_of_target(
    table: str, settling: Settling, upkeeps: Iterable[tuple[str, Upkeep]], *, dry_run: bool
) -> Iterator[tuple[str, UpkeepReport]]:
    """The upkeep of a made table, of its quarantine table and of what belongs to them, one after the other.

    `table`: the name of the typed table, or of a processor's table.
    """
    try:
        if not (settling.table.exists() and settling.quarantine.exists()):
            return
        # First: a compaction would replace files that the ledgers name, and their rows would have to be looked for.
        if not dry_run:
            settling.settle()
    except Exception as error:  # noqa: BLE001 - the upkeep of other tables goes on, and the report has the error
        yield table, failed(table, error)
        return
    for name, upkeep in upkeeps:
        yield name, run_upkeep_of(name, upkeep, dry_run=dry_run)


def run_upkeep_of(name: str, upkeep: Upkeep, *, dry_run: bool) -> UpkeepReport:
    """The upkeep of one table. An error becomes part of the report and is never raised, so that the upkeep of
    other tables goes on.
    """
    try:
        return upkeep.run(dry_run=dry_run)
    except Exception as error:  # noqa: BLE001 - see above
        return failed(name, error)


def failed(name: str, error: Exception) -> UpkeepReport:
    why = Deleted(why_none=f"the upkeep of {name} failed")
    return UpkeepReport(files=why, troubles=(foreseen(error, f"the upkeep of {name}"),))
