"""What a proof needn't read again, because an earlier proof has read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from pipeline.core.lineage import LedgerEntry, Lost
from pipeline.core.proof_chains import Story
from pipeline.core.proof_rows import CountPlan, FileCount, must_read_all
from pipeline.core.rewriting import LiveFile, LiveFiles
from pipeline.lake_ports import Proved

Entries = Sequence[LedgerEntry | Lost]


def is_of(before: Proved, entries: Entries, story: Story) -> bool:
    """Whether what an earlier proof has read needn't be read again. After a rollback of main it was about another history."""
    is_of_main = any(
        (each.snapshot, each.sequence) == (before.snapshot, before.sequence)
        for each in entries
        if isinstance(each, LedgerEntry)
    )
    return is_of_main and not must_read_all(story, before.sequence)


def proved_now(
    entries: Entries,
    live: LiveFiles,
    counts: Iterable[FileCount],
    before: Proved | None,
    *,
    kept_from: date | None = None,
    apart: int | None = None,
) -> Proved | None:
    """What the next proof needn't read again. `before`: the earlier proof that had read the files that this one didn't read."""
    newest = next((each for each in reversed(entries) if isinstance(each, LedgerEntry)), None)
    if newest is None:
        return None
    digests = {each.path: (each.day, each.all) for each in counts}
    known = {} if before is None else before.files
    files = {each.path: digests.get(each.path) or known[each.path] for each in live.files}
    return Proved(newest.snapshot, newest.sequence, files, kept_from, apart)


def files_of_days(plan: CountPlan, live: LiveFiles) -> list[LiveFile]:
    """The files that may have rows of the ranges that are asked for: each file has the rows of one arrival day."""
    may_have = plan.may_be_on()
    return [each for each in live.files if may_have(each.day)]
