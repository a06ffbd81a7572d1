"""The upkeep of a typed table and its quarantine table.

What the typed table's commits have set aside is carried out first: their staged files and ledgers are needed until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.pipeline.duties.parsing import Parsing
from headrace.pipeline.duties.upkeep import Upkeep, UpkeepReport
from headrace.pipeline.errors import HeadraceError


def run_upkeep_of_target(
    parsing: Parsing, upkeeps: Iterable[tuple[str, Upkeep]], *, dry_run: bool
) -> Iterator[tuple[str, UpkeepReport]]:
    settling = parsing.settling
    try:
        if not (parsing.table.exists() and settling.quarantine.exists()):
            return
        if not dry_run:
            settling.settle()
    except HeadraceError as error:
        yield parsing.settings.table, UpkeepReport(troubles=(error,))
        return
    for name, upkeep in upkeeps:
        try:
            yield name, upkeep.run(dry_run=dry_run)
        except HeadraceError as error:
            yield name, UpkeepReport(troubles=(error,))
