"""The proof that the lake table holds what its ledgers state. It reads the ledgers, the rows and Kinesis's list of shards, changes
nothing, and can run beside everything else.

    look at the newest snapshot -> ledgers up to it -> rows, on Spark -> Kinesis's list -> judge -> remember what was read

Rows that an earlier proof has read are not read again, as long as their files are the same, or were replaced by files with the same
records of the same day. Otherwise all rows are read anew. The ranges of these rows come joined: a chain of them is looked through, and isn't in
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date

from headrace.pipeline.core.ledger.arrivals import ALL, Window, first_kept_day
from headrace.pipeline.core.ledger.filter import Joining
from headrace.pipeline.core.ledger.story import Story, story_of
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.proof.checks import ProofEvidence, proof_of
from headrace.pipeline.proof.counts import changed_days, overlaps
from headrace.pipeline.proof.families import ListedShards
from headrace.pipeline.proof.made.prove import ProvingTarget
from headrace.pipeline.proof.memory import Ledgers, files_of_days, joins, proved_now, read_ledgers
from headrace.pipeline.proof.ports import ProofLook, ProofTable, Proved, TargetPorts
from headrace.pipeline.proof.prove_rounds import MOST_RANGES, Rounds, all_rows
from headrace.pipeline.proof.spans import CountPlan, plan_rows
from headrace.pipeline.proof.verdict import Proof
from headrace.pipeline.settings.upkeep_block import UpkeepSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Proving:
    table: ProofTable
    lineage: LineageTable
    source: Callable[[], ShardSource]
    settings: UpkeepSettings
    clock: Clock
    made: Callable[[], Iterable[TargetPorts]] = tuple
    """The tables that were made of the lake table."""
    most_ranges: int = MOST_RANGES
    """Ranges that are in memory one by one, unless a single day has more."""

    def run(self, window: Window = ALL, *, anew: bool = False) -> Proof:
        """`window`: prove only ranges with records that arrived then. `anew`: read all rows, also those of an earlier proof."""
        look, before = self.table.look(), self.table.remembered()
        kept_from = self._kept_from(before)
        may_skip = not anew and window.is_all
        ledgers = Ledgers()
        if not window.is_all or (may_skip and before is not None):
            ledgers = self._ledgers(look, before if may_skip else None, kept_from)
        seen = self._without_rows(look, window, kept_from)
        with_rows = self._new_rows(seen, ledgers, before) if may_skip and before is not None else None
        if with_rows is None and window.is_all:
            whole = Joining(look.sequence + 1, by_day=True)
            ledgers = read_ledgers(self.lineage, look.sequence, before, whole)
            rounds = Rounds(self.lineage, look.sequence, ledgers.story, kept_from)
            with_rows = all_rows(replace(seen, story=ledgers.story), self.table, rounds, self.most_ranges)
        elif with_rows is None:
            with_rows = self._rows_of(seen, ledgers.story)
        proof, story = self._judged(with_rows, ledgers, before), ledgers.story
        moved = frozenset(step.range.key for step in story.all() if step.range.may_go_back)
        tables = (
            ProvingTarget(
                ports=each,
                moved=moved,
                unpacked=story.replays,
                kept_from=kept_from,
                landed=story,
                landed_of=lambda asked: story_of(self.lineage.entries(replace(asked, upto=look.sequence))),
                most_ranges=self.most_ranges,
            ).run(window, anew=anew)
            for each in self.made()
        )
        return replace(proof, tables=tuple(each for each in tables if each is not None))

    def _ledgers(self, look: ProofLook, before: Proved | None, kept_from: date | None) -> Ledgers:
        """`before`: what needn't be read again, as far as its ledgers are those of main."""
        return read_ledgers(self.lineage, look.sequence, before, joins(before, by_day=kept_from is not None))

    def _kept_from(self, before: Proved | None) -> date | None:
        """The first day that the retention keeps."""
        known = None if before is None else before.kept_from
        return first_kept_day(self.clock.now(), self.settings.retention, known)

    def _judged(self, seen: ProofEvidence, ledgers: Ledgers, before: Proved | None) -> Proof:
        doubled = self.table.doubled(overlaps(seen.plan, seen.counts), seen.plan.spans)
        seen = replace(seen, doubled=(*seen.doubled, *doubled))
        proof = proof_of(seen)
        if not proof.holds or not seen.window.is_all:
            return proof
        known = None if seen.since is None else before
        proved = proved_now(ledgers.newest, seen.live, seen.counts, known, kept_from=seen.kept_from)
        try:
            if proved is not None:
                self.table.remember(proved)
        except HeadraceError as error:
            # A role that may only read can prove all the same.
            return replace(proof, forgotten=str(error))
        return proof

    def _without_rows(self, look: ProofLook, window: Window, kept_from: date | None) -> ProofEvidence:
        listed, unlisted = self._listed(look)
        return ProofEvidence(
            snapshot=look.state.snapshot,
            story=Story(),
            positions=look.state.positions,
            live=look.live,
            plan=CountPlan((), ()),
            counts=(),
            listed=listed,
            unlisted=unlisted,
            window=window,
            through=look.state.through,
            kept_from=kept_from,
            accepted=self.table.accepted(),
        )

    def _rows_of(self, seen: ProofEvidence, story: Story) -> ProofEvidence:
        """Those of the ranges that are asked for."""
        plan = plan_rows(story, window=seen.window, kept_from=seen.kept_from)
        counts = self.table.count(files_of_days(plan, seen.live), plan.spans)
        return replace(seen, story=story, plan=plan, counts=counts)

    def _new_rows(self, seen: ProofEvidence, ledgers: Ledgers, before: Proved) -> ProofEvidence | None:
        """What came after an earlier proof; None where all rows have to be read: main has another history since, or a person moved a position
        back, or the files of that proof were replaced by others with other records."""
        if not ledgers.may_skip(before):
            return None
        plan = plan_rows(ledgers.story, window=ALL, proved=before.sequence, kept_from=seen.kept_from)
        if plan.is_mixed:
            return None
        files = seen.live.files
        counts = self.table.count([each for each in files if each.path not in before.files], plan.spans)
        live = frozenset(each.path for each in files)
        if changed_days(before.files, counts, live=live, kept_from=seen.kept_from):
            return None
        unchanged = self.table.look_again([each for each in files if each.path in before.files])
        known = tuple(its for path, its in before.strange.items() if path in live)
        return replace(
            seen,
            story=ledgers.story,
            plan=plan,
            counts=counts,
            unchanged=unchanged,
            since=before.snapshot,
            known=known,
        )

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
