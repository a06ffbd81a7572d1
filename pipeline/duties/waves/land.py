"""StagedWave ──► LandedWave: one commit for all shards of the wave. Then the lease rows are written: checkpoints,
and the writes at the end of a shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from headrace.pipeline.core.landing.landing import Proposal, RangeRefused
from headrace.pipeline.core.landing.valid_through import BEHIND_OTHERS
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.throughput import throughput_after
from headrace.pipeline.core.ledger.author import Arrivals, Author
from headrace.pipeline.core.ledger.batch import Staged, StagedFile
from headrace.pipeline.core.ledger.belonging import what_to_do
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.order.start_of_reading import Read
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.shard import Shard, shards_of_children
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.waves.claims import Claims
from headrace.pipeline.duties.waves.kept_claims import KeptClaims
from headrace.pipeline.duties.waves.report import Landed, Problem
from headrace.pipeline.duties.waves.shard_ends import ShardEnds
from headrace.pipeline.duties.waves.steps import LandedWave, StagedWave, WavePorts, begun_by, known_by
from headrace.pipeline.duties.waves.wave_streams import WaveStreams
from headrace.pipeline.ports.landing import Committed


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingStep:
    run_id: str
    ports: WavePorts
    claims: Claims
    kept: KeptClaims
    ends: ShardEnds

    def land(self, staged: StagedWave) -> LandedWave:
        # Before the commit: it may wait long for other writers, and rows that are nearly due would be late after it.
        self.kept.write_late()
        # From here on the records have landed, whatever becomes of this process: the next wave
        # starts at the positions in this commit, and every later write on a lease row only follows
        # it.
        committed = self.ports.table.commit(self._proposal(staged))
        self.claims.note_progress()
        self._remember(staged, committed)
        return LandedWave(staged, committed)

    def _remember(self, wave: StagedWave, committed: Committed) -> None:
        """Where this wave keeps claims, remember at once what has landed. Whatever fails from here on, the release
        tells it."""
        landed = {r.key for r in committed.landing.page.ranges if not r.upto.ended}
        for staged in wave.manifest.staged:
            if self.kept.keeps and staged.key in landed:
                self.kept.note_landed(staged.key, staged)

    def follow(self, wave: LandedWave) -> None:
        """Bring the lease rows into step with the lake table, which the commit has moved on."""
        staged_wave, committed = wave.staged, wave.committed
        log, streams = staged_wave.claimed.log, staged_wave.claimed.streams
        refused: dict[ShardKey, RangeRefused] = {r.range.key: r for r in committed.landing.refused}
        ranges = {r.key: r for r in committed.landing.page.ranges}
        known = self._known_children(streams, staged_wave.manifest.staged, ranges)
        log.snapshot, log.shape = committed.snapshot, committed.state.shape
        checkpoints: dict[ShardKey, Change] = {}
        ended: list[Staged] = []
        for staged in staged_wave.manifest.staged:
            row = self.claims.held[staged.key]
            # A refused range writes nothing into its row, not even a checkpoint of the accepted
            # part: nothing of the range is in the table, since whole files land or none.
            if staged.key in refused:
                log.problems.append(_problem(row.key, refused[staged.key]))
                continue
            landed = ranges.get(staged.key)  # None: the wave found nothing that needs a range
            # Where the children aren't known, the END stands in the table only. A later wave finds it there, and writes
            # the rows.
            if landed is not None and staged.upto.ended and staged.key in known:
                ended.append(staged)
            elif landed is not None and not landed.upto.ended and not self.kept.keeps:
                checkpoints |= self._checkpoint(row, staged)
            log.landed.append(
                Landed(
                    row.key,
                    staged,
                    committed.snapshot if landed else None,
                    files=landed.files if landed else (),
                    parents=tuple(sorted(row.parents)),
                    through=committed.state.through.get(staged.key.stream),
                )
            )
        # Checkpoints go many at a time. The writes at the end of a shard depend on each other, and go one by one.
        self.claims.write_all(log, checkpoints)
        for staged in ended:
            self.ends.finish(log, staged.key, staged.upto, known[staged.key])

    def _proposal(self, wave: StagedWave) -> Proposal:
        ranges: list[Range] = []
        below: dict[ShardKey, frozenset[str]] = {}
        is_made_anyway = any(staged.moved for staged in wave.manifest.staged)
        for staged in wave.manifest.staged:
            read = wave.reads[staged.key]
            retention = wave.claimed.streams.facts[staged.key.stream].retention
            # A look that found no record is worth a snapshot of its own once in a long while. In a commit that is made
            # anyway it costs next to nothing.
            worth = min(BEHIND_OTHERS, retention / 4) if is_made_anyway else retention / 4
            if _is_worth_a_range(staged, read.batch.witness, worth):
                # A file may hold records of several shards, and is then named in the range of each of them.
                ranges.append(self._range(staged, read, wave.manifest.files))
                # The commit checks these descendants once more in its base: a shard without a
                # position counts as ended as soon as one of them has a position, and its first
                # range must not come after that.
                if read.batch.after is None:
                    below[staged.key] = read.below.union(staged.upto.children)
        return Proposal(
            tuple(ranges),
            wave.manifest.files,
            below=below,
            known=known_by(wave.reads),
            begun_by=begun_by(wave.reads),
        )

    def _range(self, staged: Staged, read: Read, files: Iterable[StagedFile]) -> Range:
        return Author(self.run_id, self.claims.claim).range(
            Kind.LANDED,
            staged.key,
            read.batch.after,
            _with_the_gap(staged.upto, read.batch.after),
            rows=staged.rows,
            bytes=staged.bytes,
            arrivals=Arrivals(staged.first_arrival, staged.last_arrival),
            files=files,
            parents=read.batch.parents,
            records=staged.records,
            unpacked=staged.unpacked,
        )

    def _known_children(
        self, streams: WaveStreams, staged: Iterable[Staged], ranges: Mapping[ShardKey, Range]
    ) -> dict[ShardKey, tuple[Shard, ...]]:
        """What tells the parents and hash keys of the children, for each shard of which the END was committed: the shard's
        own last page, or a list of all shards of its stream. A stream is listed only where a page tells less. If it
        can't be listed now, the next wave of these shards does what is left to do at their end."""
        ended = [s for s in staged if s.upto.ended and s.key in ranges]
        known = {s.key: shards_of_children(s.key.shard_id, s.children) for s in ended}
        untold = {key for key, children in known.items() if children is None}
        for stream in sorted({key.stream for key in untold}):
            listed = streams.isolate(stream, partial(self.ports.source.list_shards, stream))
            known |= dict.fromkeys({key for key in untold if key.stream == stream}, listed)
        return {key: shards for key, shards in known.items() if shards is not None}

    def _checkpoint(self, row: Lease, staged: Staged) -> dict[ShardKey, Change]:
        checkpoint = staged.upto.checkpoint
        if (
            checkpoint is None or checkpoint == row.checkpoint
        ):  # None: no record has landed yet, so that there is nothing to checkpoint
            return {}
        kbps = throughput_after(row, staged)
        write = change.checkpoint(
            row, self.claims.me, self.claims.claim, upto=checkpoint, throughput_kbps=kbps
        )
        return {staged.key: write}


def _problem(key: str, refused: RangeRefused) -> Problem:
    if refused.fatal:
        return Problem(key, what_to_do(refused.why), fatal=True)
    # Another run was faster, or a file is shared with a shard that was refused (D10).
    why = f"{refused.why}; no record of this range was committed, and the next wave reads it again"
    return Problem(key, why, fatal=False)


def _is_known_whole(staged: Staged) -> bool:
    """Whether the wave has found that the record at the position has no more user records. Else each wave would read it
    again."""
    return staged.after is not None and staged.after.inside and not staged.upto.inside


def _with_the_gap(upto: Position, after: Position | None) -> Position:
    """The end of a range, with the gap before it as long as no record has landed after that: what a later look finds holds only where
    the ledger has the gap (D20 of docs/reference/protocol.md)."""
    if after is None or (upto.sequence, upto.sub) != (after.sequence, after.sub):
        return upto
    return replace(upto, skipped_until=after.skipped_until)


def _is_worth_a_range(staged: Staged, witness: datetime, older: timedelta) -> bool:
    """Whether a range goes into the commit. Progress always does. A look that found no new record does only if the last
    witness is `older`. A quarter of the retention leaves three more tries before a quiet shard looks like a loss of
    records; in a commit that is made anyway, the statement `valid-through` goes on."""
    if staged.moved or _is_known_whole(staged):
        return True
    return staged.upto.seen is not None and staged.upto.seen - witness > older
