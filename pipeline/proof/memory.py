"""What a proof needn't read because an earlier proof has read it, and how a proof reads ledgers."""

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
    """The ledgers up to one snapshot, as a proof has read them."""

    story: Story = field(default_factory=Story)
    newest: SnapshotPlace | None = None
    """The newest snapshot with a ledger."""
    has_proved: bool = False
    """Whether the newest ledger of an earlier proof is among them. After a rollback of main that proof was about
    another history."""

    def may_skip(self, before: Proved | None) -> bool:
        """Whether the rows and files that the earlier proof has read needn't be read again."""
        return before is not None and self.has_proved and not must_read_all(self.story, before.sequence)


def ledgers_up_to(
    lineage: LineageTable, upto: int, before: Proved | None, joining: Joining | None = None
) -> Ledgers:
    """Read the ledgers up to a snapshot.

    `upto`: the sequence number of the newest snapshot. `joining`: which ranges may be returned as joined ones.
    """
    newest: SnapshotPlace | None = None
    has_proved = False

    def noticed(entries: Iterable[LedgerEntry | Lost]) -> Iterator[LedgerEntry | Lost]:
        nonlocal newest, has_proved
        for entry in entries:
            # A lost part has no ledger, and so can't be the one that an earlier proof ended with.
            if isinstance(entry, LedgerEntry):
                newest = SnapshotPlace(entry.sequence, entry.snapshot)
                has_proved |= before is not None and newest == (before.sequence, before.snapshot)
            yield entry

    story = story_of(noticed(lineage.entries(RangeFilter(upto=upto, joining=joining))))
    return Ledgers(story, newest, has_proved)


def joins(before: Proved | None, *, by_day: bool = False, is_aside: bool = False) -> Joining | None:
    """Which ranges may be returned as joined ones: those that an earlier proof has found right, because in them a
    break needn't be found again. The ranges of its last ledger are returned one by one, so that it shows that
    main still leads to that ledger.
    """
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
    """What the next proof needn't read again. `newest`: the newest snapshot with a ledger. `before`: the earlier
    proof that had read the files that this one hasn't read.
    """
    if newest is None:
        return None
    counts = tuple(counts)
    digests = {count.path: (count.day, count.all) for count in counts}
    read_before = {} if before is None else before.files
    # All live files, also those of the earlier proof: a file that is missing here would be read anew.
    files = {file.path: digests.get(file.path) or read_before[file.path] for file in live.files}
    strange = {count.path: dict(count.strange) for count in counts if count.strange}
    earlier = (
        {}
        if before is None
        else {path: strange_rows for path, strange_rows in before.strange.items() if path in files}
    )
    return Proved(newest.snapshot, newest.sequence, files, kept_from, apart, {**earlier, **strange})


def files_of_days(plan: CountPlan, live: LiveFiles) -> list[LiveFile]:
    """The files that may have rows of the plan's ranges: each file has the rows of one arrival day."""
    may_have = plan.may_be_on()
    return [file for file in live.files if may_have(file.day)]
