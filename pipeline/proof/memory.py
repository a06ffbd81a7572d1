"""What a proof needn't read again, because an earlier proof has read it, and the ledgers as a proof reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date

from headrace.pipeline.core.ledger.filter import Joining, RangeFilter
from headrace.pipeline.core.ledger.ledger import LedgerEntry, Lost
from headrace.pipeline.core.ledger.live_files import LiveFile, LiveFiles
from headrace.pipeline.core.ledger.pages import SnapshotPlace
from headrace.pipeline.core.ledger.story import Story, story_of
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.proof.ports import Proved
from headrace.pipeline.proof.spans import CountPlan, FileCount, must_read_all


@dataclass(frozen=True, slots=True)
class Ledgers:
    """The ledgers up to one snapshot."""

    story: Story = field(default_factory=Story)
    newest: SnapshotPlace | None = None
    """The newest snapshot with a ledger."""
    has_proved: bool = False
    """Whether the newest ledger of an earlier proof is among them. After a rollback of main that proof was about another history."""

    def may_skip(self, before: Proved | None) -> bool:
        """Whether what the earlier proof has read needn't be read again."""
        return before is not None and self.has_proved and not must_read_all(self.story, before.sequence)


def read_ledgers(
    lineage: LineageTable, upto: int, before: Proved | None, joining: Joining | None = None
) -> Ledgers:
    """`upto`: the sequence number of the newest snapshot. `joining`: which ranges needn't come one by one."""
    newest: SnapshotPlace | None = None
    has_proved = False

    def noticed(entries: Iterable[LedgerEntry | Lost]) -> Iterator[LedgerEntry | Lost]:
        nonlocal newest, has_proved
        for each in entries:
            if isinstance(each, LedgerEntry):
                newest = SnapshotPlace(each.sequence, each.snapshot)
                has_proved |= before is not None and newest == (before.sequence, before.snapshot)
            yield each

    story = story_of(noticed(lineage.entries(RangeFilter(upto=upto, joining=joining))))
    return Ledgers(story, newest, has_proved)


def joins(before: Proved | None, *, by_day: bool = False, is_aside: bool = False) -> Joining | None:
    """Of what an earlier proof has found right, only a break has to be found once more, so that its ranges may come joined. Those of its last
    ledger come as they are, which shows that main still leads to it."""
    return None if before is None else Joining(before.sequence, by_day, is_aside)


def proved_now(
    newest: SnapshotPlace | None,
    live: LiveFiles,
    counts: Iterable[FileCount],
    before: Proved | None,
    *,
    kept_from: date | None = None,
    apart: int | None = None,
) -> Proved | None:
    """What the next proof needn't read again. `newest`: the newest snapshot with a ledger. `before`: the earlier proof that had read the files
    that this one didn't read."""
    if newest is None:
        return None
    counts = tuple(counts)
    digests = {each.path: (each.day, each.all) for each in counts}
    known = {} if before is None else before.files
    files = {each.path: digests.get(each.path) or known[each.path] for each in live.files}
    strange = {each.path: dict(each.strange) for each in counts if each.strange}
    earlier = {} if before is None else {path: its for path, its in before.strange.items() if path in files}
    return Proved(newest.snapshot, newest.sequence, files, kept_from, apart, {**earlier, **strange})


def files_of_days(plan: CountPlan, live: LiveFiles) -> list[LiveFile]:
    """The files that may have rows of the ranges that are asked for: each file has the rows of one arrival day."""
    may_have = plan.may_be_on()
    return [each for each in live.files if may_have(each.day)]
