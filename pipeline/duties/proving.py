"""The proof that the lake table holds what its ledgers state. It reads the ledgers, the rows and Kinesis's list of shards, changes
nothing, and can run beside everything else.

    look at the newest snapshot -> ledgers up to it -> rows, on Spark -> Kinesis's list -> judge -> remember what was read

Rows that an earlier proof has read are not read again, as long as their files are the same, or were replaced by files with the same
records of the same day. Otherwise all rows are read anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date

from pipeline.core.lineage import LedgerEntry, Lost
from pipeline.core.proof import ALL, Proof, Window
from pipeline.core.proof_chains import story_of
from pipeline.core.proof_checks import ProofEvidence, proof_of
from pipeline.core.proof_counts import changed_days, overlaps
from pipeline.core.proof_families import ListedShards
from pipeline.core.proof_rows import first_kept_day, must_read_all, plan_rows
from pipeline.core.rewriting import LiveFile
from pipeline.core.stream import StreamId
from pipeline.errors import HeadraceError
from pipeline.lake_ports import LineageTable, ProofLook, ProofTable, Proved
from pipeline.ports import Clock, ShardSource
from pipeline.settings.upkeep_block import UpkeepSettings

_Entries = Sequence[LedgerEntry | Lost]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proving:
    table: ProofTable
    lineage: LineageTable
    source: Callable[[], ShardSource]
    settings: UpkeepSettings
    clock: Clock

    def run(self, window: Window = ALL, *, anew: bool = False) -> Proof:
        """`window`: prove only ranges with records that arrived then. `anew`: read all rows, also those of an earlier proof."""
        look = self.table.look()
        entries = [each for each in self.lineage.entries() if each.sequence <= look.sequence]
        before = self.table.remembered()
        seen = self._without_rows(look, entries, window, before)
        may_skip = not anew and window.is_all and before is not None and _is_of(before, entries, seen)
        with_rows = self._new_rows(seen, before) if before is not None and may_skip else None
        seen = with_rows or self._all_rows(seen)
        seen = replace(seen, doubled=self.table.doubled(overlaps(seen.plan, seen.counts), seen.plan.spans))
        proof = proof_of(seen)
        if not proof.holds or not window.is_all:
            return proof
        try:
            self._remember(seen, entries, before)
        except HeadraceError as error:
            # A role that may only read can prove all the same.
            return replace(proof, forgotten=str(error))
        return proof

    def _without_rows(
        self, look: ProofLook, entries: _Entries, window: Window, before: Proved | None
    ) -> ProofEvidence:
        story = story_of(entries)
        known = None if before is None else before.kept_from
        kept_from = first_kept_day(self.clock.now(), self.settings.retention, known)
        listed, unlisted = self._listed(look)
        return ProofEvidence(
            snapshot=look.state.snapshot,
            story=story,
            positions=look.state.positions,
            live=look.live,
            plan=plan_rows(story, window=window, kept_from=kept_from),
            counts=(),
            listed=listed,
            unlisted=unlisted,
            window=window,
            kept_from=kept_from,
        )

    def _all_rows(self, seen: ProofEvidence) -> ProofEvidence:
        files = seen.live.files if seen.window.is_all else _of_window(seen)
        return replace(seen, counts=self.table.count(files, seen.plan.spans))

    def _new_rows(self, seen: ProofEvidence, before: Proved) -> ProofEvidence | None:
        """What came after an earlier proof; None where the files of that proof were replaced by others with other records."""
        plan = plan_rows(seen.story, window=ALL, proved=before.sequence, kept_from=seen.kept_from)
        files = seen.live.files
        counts = self.table.count([each for each in files if each.path not in before.files], plan.spans)
        live = frozenset(each.path for each in files)
        if changed_days(before.files, counts, live=live, kept_from=seen.kept_from):
            return None
        unchanged = self.table.look_again([each for each in files if each.path in before.files])
        return replace(seen, plan=plan, counts=counts, unchanged=unchanged, since=before.snapshot)

    def _remember(self, seen: ProofEvidence, entries: _Entries, before: Proved | None) -> None:
        newest = next((each for each in reversed(entries) if isinstance(each, LedgerEntry)), None)
        if newest is None:
            return
        digests = {each.path: (each.day, each.all) for each in seen.counts}
        known = {} if before is None or seen.since is None else before.files
        files = {each.path: digests.get(each.path) or known[each.path] for each in seen.live.files}
        self.table.remember(Proved(newest.snapshot, newest.sequence, files, seen.kept_from))

    def _listed(self, look: ProofLook) -> tuple[dict[StreamId, ListedShards], dict[StreamId, str]]:
        """What Kinesis lists of each stream, and the streams of which it lists nothing any more, with the reason."""
        found: dict[StreamId, ListedShards] = {}
        unlisted: dict[StreamId, str] = {}
        for stream in sorted(look.state.positions.streams()):
            try:
                present = self.source().describe(stream.arn).stream
                shards = self.source().list_shards(stream) if present == stream else ()
            except HeadraceError as error:
                unlisted[stream] = str(error)
                continue
            if present == stream:
                by_id = {shard.shard_id: shard for shard in shards}
                found[stream] = ListedShards(stream, by_id, is_complete=stream in look.state.through)
            else:
                unlisted[stream] = f"the stream was deleted, and its name belongs to {present}"
        return found, unlisted


def _is_of(before: Proved, entries: _Entries, seen: ProofEvidence) -> bool:
    """Whether what an earlier proof has read needn't be read again. After a rollback of main it was about another history."""
    is_of_main = any(
        (each.snapshot, each.sequence) == (before.snapshot, before.sequence)
        for each in entries
        if isinstance(each, LedgerEntry)
    )
    return is_of_main and not must_read_all(seen.story, before.sequence)


def _of_window(seen: ProofEvidence) -> list[LiveFile]:
    """The files that may have rows of the ranges that are asked for: each file has the rows of one arrival day."""
    if not seen.plan.clusters:
        return []
    days = seen.plan.days()
    return [
        each
        for each in seen.live.files
        if days is None or each.day is None or days[0] <= date.fromisoformat(each.day) <= days[1]
    ]
