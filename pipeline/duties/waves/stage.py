"""Planned ──► StagedWave: one Spark job reads and stages all shards. Then the wave deals with streams that were created again
meanwhile, with lost records, and with shards that failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.pipeline.core.ledger.batch import BatchLimits, Manifest
from headrace.pipeline.duties.waves.gaps import record_gaps
from headrace.pipeline.duties.waves.listed_numbers import ListedNumbers
from headrace.pipeline.duties.waves.load_report import LoadReport
from headrace.pipeline.duties.waves.report import Problem
from headrace.pipeline.duties.waves.shard_ends import ShardEnds
from headrace.pipeline.duties.waves.steps import Claimed, Planned, Reads, StagedWave, WavePorts
from headrace.pipeline.settings.model import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    run_id: str
    settings: Settings
    ports: WavePorts
    load: LoadReport
    ends: ShardEnds
    numbers: ListedNumbers

    def stage(self, planned: Planned, *, on_staged: Callable[[], None]) -> StagedWave | None:
        """Stage the planned reads; None where nothing of them may be committed. `on_staged` is called once the Spark
        job has ended."""
        claimed = planned.claimed
        planned = self._with_numbers(planned)
        manifest = self.ports.stage.stage(
            # One job for all shards: a task reads many shards at once, because a shard gives 2 MB a
            # second at most and a core decodes hundreds of them.
            [read.batch for read in planned.reads.values()],
            self.ports.table.staging_spec(),
            self._limits,
        )
        self.load.note(manifest.loads)
        claimed.claims.note_progress()
        on_staged()
        # In this order: nothing of a stream that was created again is committed (D12), and a gap is committed before
        # the position moves over it (I13).
        reads, manifest = claimed.streams.without_recreated(planned.reads, manifest)
        # Nothing of the wave may land. Its staged files stay behind as orphans, which upkeep
        # deletes by age: a run has no right to delete files.
        if not reads:
            return None
        reads, manifest = self._record_gaps(claimed, reads, manifest)
        # A shard with an error still lands what was staged before the error.
        for staged in manifest.staged:
            if staged.error is not None:
                row = claimed.claims.held[staged.key]
                claimed.log.problems.append(Problem(row.key, staged.error, fatal=True))
        return StagedWave(claimed, reads, manifest)

    def _with_numbers(self, planned: Planned) -> Planned:
        """The reads with the sequence numbers that Kinesis's list gives to their shards."""
        numbers = self.numbers.of(planned.reads.keys(), self.ports.source, planned.claimed.log)
        reads = {
            key: replace(read, batch=replace(read.batch, numbers=numbers[key]))
            for key, read in planned.reads.items()
        }
        return replace(planned, reads=reads)

    @property
    def _limits(self) -> BatchLimits:
        budget = self.settings.wave
        return BatchLimits(budget.records, budget.bytes, budget.seconds.total_seconds())

    def _record_gaps(self, claimed: Claimed, reads: Reads, manifest: Manifest) -> tuple[Reads, Manifest]:
        """Commit the gaps that the Spark job has found. Returns the reads, which go on after the gaps, and the manifest
        without shards that have ended by a gap."""
        for stream, facts in claimed.streams.facts.items():
            gaps = record_gaps(
                {key: read for key, read in reads.items() if key.stream == stream},
                [staged for staged in manifest.staged if staged.key.stream == stream],
                run=self.run_id,
                claim=claimed.claims.claim,
                facts=facts,
                table=self.ports.table,
                source=self.ports.source,
            )
            claimed.log.notes.extend(gaps.sentences)
            for key, position in gaps.ended.items():
                self.ends.finish(claimed.log, key, position, gaps.listed, lost_since=position.seen)
            # The records behind a gap land only on the position that the gap's commit has left: the table may be set
            # back in between (D20).
            continued = {key: replace(reads[key], batch=batch) for key, batch in gaps.batches.items()}
            reads = {**reads, **continued}
            remaining = tuple(staged for staged in manifest.staged if staged.key not in gaps.ended)
            manifest = replace(manifest, staged=remaining)
        return reads, manifest
