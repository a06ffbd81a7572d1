"""The proof that the lake table holds what its ledgers state. It reads the ledgers, the rows and Kinesis's list of
shards, changes nothing, and can run beside everything else.

    look at the newest snapshot -> ledgers up to it -> rows, on Spark -> Kinesis's list -> judge -> remember what was
    read

Rows that an earlier proof has read are not read again, as long as their files are the same, or were replaced by files
with the same records of the same day. Otherwise all rows are read anew. The ranges of these rows come joined: a chain
of them is looked through, and isn't in memory.
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
from headrace.pipeline.proof.memory import Ledgers, files_of_days, joins, ledgers_up_to, proved_now
from headrace.pipeline.proof.ports import ProofLook, ProofTable, Proved, TargetPorts
from headrace.pipeline.proof.prove_rounds import MOST_RANGES, Rounds, all_rows
from headrace.pipeline.proof.spans import CountPlan, plan_rows
from headrace.pipeline.proof.verdict import Proof
from headrace.pipeline.settings.upkeep_block import UpkeepSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Proving:
    """The proof of the lake table, and of all tables that were made of it."""

    table: ProofTable
    lineage: LineageTable
    source: Callable[[], ShardSource]
    settings: UpkeepSettings
    clock: Clock
    target_ports: Callable[[], Iterable[TargetPorts]] = tuple
    """The tables that were made of the lake table."""
    most_ranges: int = MOST_RANGES
    """Ranges that are in memory one by one, unless a single day has more."""

    def run(self, window: Window = ALL, *, anew: bool = False) -> Proof:
        """`window`: prove only ranges with records that arrived then. `anew`: read all rows, also those of an earlier
        proof."""
        # The look first: what lands since belongs to the next proof.
        look, before = self.table.look(), self.table.remembered()
        kept_from = self._kept_from(before)
        may_skip = not anew and window.is_all
        ledgers = Ledgers()
        if not window.is_all or (may_skip and before is not None):
            ledgers = self._ledgers(look, before if may_skip else None, kept_from)
        evidence = self._without_rows(look, window, kept_from)
        with_rows = self._new_rows(evidence, ledgers, before) if may_skip and before is not None else None
        if with_rows is None and window.is_all:
            # All joined: 200 flowing shards make 1.7 million ranges a day, at 1 KiB each.
            joining = Joining(look.sequence + 1, by_day=True)
            ledgers = ledgers_up_to(self.lineage, look.sequence, before, joining)
            rounds = Rounds(self.lineage, look.sequence, ledgers.story, kept_from)
            # In rounds of days: the ranges of a long history don't fit into memory one by one.
            with_rows = all_rows(replace(evidence, story=ledgers.story), self.table, rounds, self.most_ranges)
        elif with_rows is None:
            with_rows = self._rows_of(evidence, ledgers.story)
        proof, story = self._judged(with_rows, ledgers, before), ledgers.story
        moved = frozenset(step.range.key for step in story.all() if step.range.may_go_back)
        tables = (
            ProvingTarget(
                ports=target_ports,
                moved=moved,
                unpacked=story.replays,
                kept_from=kept_from,
                landed=story,
                landed_of=lambda shard_filter: story_of(
                    self.lineage.entries(replace(shard_filter, upto=look.sequence))
                ),
                most_ranges=self.most_ranges,
            ).run(window, anew=anew)
            for target_ports in self.target_ports()
        )
        return replace(proof, tables=tuple(table_proof for table_proof in tables if table_proof is not None))

    def _ledgers(self, look: ProofLook, before: Proved | None, kept_from: date | None) -> Ledgers:
        """`before`: what needn't be read again, as far as its ledgers are those of main."""
        return ledgers_up_to(self.lineage, look.sequence, before, joins(before, by_day=kept_from is not None))

    def _kept_from(self, before: Proved | None) -> date | None:
        """The first day that the retention keeps."""
        kept_before = None if before is None else before.kept_from
        return first_kept_day(self.clock.now(), self.settings.retention, kept_before)

    def _judged(self, evidence: ProofEvidence, ledgers: Ledgers, before: Proved | None) -> Proof:
        # A right count doesn't show a row that is there twice in the place of a missing one: only the keys do.
        doubled = self.table.doubled(overlaps(evidence.plan, evidence.counts), evidence.plan.spans)
        evidence = replace(evidence, doubled=(*evidence.doubled, *doubled))
        proof = proof_of(evidence)
        if not proof.holds or not evidence.window.is_all:
            return proof
        read_before = None if evidence.since is None else before
        proved = proved_now(
            ledgers.newest, evidence.live, evidence.counts, read_before, kept_from=evidence.kept_from
        )
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

    def _rows_of(self, evidence: ProofEvidence, story: Story) -> ProofEvidence:
        """The evidence with the rows of the ranges that are asked for."""
        plan = plan_rows(story, window=evidence.window, kept_from=evidence.kept_from)
        counts = self.table.count(files_of_days(plan, evidence.live), plan.spans)
        return replace(evidence, story=story, plan=plan, counts=counts)

    def _new_rows(self, evidence: ProofEvidence, ledgers: Ledgers, before: Proved) -> ProofEvidence | None:
        """What came after an earlier proof; None where all rows have to be read: main has another history since, or a
        person moved a position back, or the files of that proof were replaced by others with other records."""
        if not ledgers.may_skip(before):
            return None
        plan = plan_rows(ledgers.story, window=ALL, proved=before.sequence, kept_from=evidence.kept_from)
        if plan.is_mixed:
            return None
        files = evidence.live.files
        counts = self.table.count([file for file in files if file.path not in before.files], plan.spans)
        live = frozenset(file.path for file in files)
        if changed_days(before.files, counts, live=live, kept_from=evidence.kept_from):
            return None
        unchanged = self.table.look_again([file for file in files if file.path in before.files])
        strange = tuple(strange_rows for path, strange_rows in before.strange.items() if path in live)
        return replace(
            evidence,
            story=ledgers.story,
            plan=plan,
            counts=counts,
            unchanged=unchanged,
            since=before.snapshot,
            known=strange,
        )

    def _listed(self, look: ProofLook) -> tuple[dict[StreamId, ListedShards], dict[StreamId, str]]:
        """What Kinesis lists of each stream, and the streams of which it lists nothing any more, with the reason."""
        listed: dict[StreamId, ListedShards] = {}
        unlisted: dict[StreamId, str] = {}
        for stream in sorted(look.state.positions.streams()):
            try:
                present = self.source().describe(stream.arn).stream
                shards = self.source().list_shards(stream) if present == stream else ()
            except HeadraceError as error:
                # One stream that can't be asked about leaves the other checks as they are.
                unlisted[stream] = str(error)
                continue
            if present == stream:
                by_id = {shard.shard_id: shard for shard in shards}
                listed[stream] = ListedShards(stream, by_id, is_complete=stream in look.state.through)
            else:
                unlisted[stream] = f"the stream was deleted, and its name belongs to {present}"
        return listed, unlisted
