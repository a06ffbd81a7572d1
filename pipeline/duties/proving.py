"""The proof that the lake table holds what its ledgers state. It reads the ledgers, the rows and Kinesis's list of shards, changes
nothing, and can run beside everything else.

    look at the newest snapshot -> ledgers up to it -> rows, on Spark -> Kinesis's list -> judge -> remember what was read

Rows that an earlier proof has read are not read again, as long as their files are the same, or were replaced by files with the same
records of the same day. Otherwise all rows are read anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date

from pipeline.core.lineage_filter import RangeFilter
from pipeline.core.proof import ALL, Proof, Window
from pipeline.core.proof_chains import Story, story_of
from pipeline.core.proof_checks import ProofEvidence, proof_of
from pipeline.core.proof_counts import changed_days, overlaps
from pipeline.core.proof_families import ListedShards
from pipeline.core.proof_rows import first_kept_day, plan_rows
from pipeline.core.stream import StreamId
from pipeline.duties.proof_memory import Entries, files_of_days, is_of, proved_now
from pipeline.duties.proving_target import ProvingTarget
from pipeline.errors import HeadraceError
from pipeline.lake_ports import LineageTable, ProofLook, ProofTable, Proved, TargetPorts
from pipeline.ports import Clock, ShardSource
from pipeline.settings.upkeep_block import UpkeepSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Proving:
    table: ProofTable
    lineage: LineageTable
    source: Callable[[], ShardSource]
    settings: UpkeepSettings
    clock: Clock
    made: Callable[[], Iterable[TargetPorts]] = tuple
    """The tables that were made of the lake table."""

    def run(self, window: Window = ALL, *, anew: bool = False) -> Proof:
        """`window`: prove only ranges with records that arrived then. `anew`: read all rows, also those of an earlier proof."""
        look = self.table.look()
        entries = list(self.lineage.entries(RangeFilter(upto=look.sequence)))
        before, story = self.table.remembered(), story_of(entries)
        proof = self._of_lake(self._without_rows(look, story, window, before), entries, before, anew=anew)
        moved = frozenset(step.range.key for step in story.all() if step.range.may_go_back)
        kept_from = self._kept_from(before)
        tables = (
            ProvingTarget(
                ports=each, moved=moved, unpacked=story.replays, kept_from=kept_from, landed=story
            ).run(window, anew=anew)
            for each in self.made()
        )
        return replace(proof, tables=tuple(each for each in tables if each is not None))

    def _kept_from(self, before: Proved | None) -> date | None:
        """The first day that the retention keeps."""
        known = None if before is None else before.kept_from
        return first_kept_day(self.clock.now(), self.settings.retention, known)

    def _of_lake(self, seen: ProofEvidence, entries: Entries, before: Proved | None, *, anew: bool) -> Proof:
        window = seen.window
        may_skip = not anew and window.is_all and before is not None and is_of(before, entries, seen.story)
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
        self, look: ProofLook, story: Story, window: Window, before: Proved | None
    ) -> ProofEvidence:
        kept_from = self._kept_from(before)
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
        files = seen.live.files if seen.window.is_all else files_of_days(seen.plan, seen.live)
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

    def _remember(self, seen: ProofEvidence, entries: Entries, before: Proved | None) -> None:
        known = None if seen.since is None else before
        if proved := proved_now(entries, seen.live, seen.counts, known, kept_from=seen.kept_from):
            self.table.remember(proved)

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
