"""The lake table as the subject of a proof: its rows have to be what its ledgers state, and its shards what Kinesis
lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headrace.pipeline.core.ledger.arrivals import Window
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.proof.accepted import Accepted
from headrace.pipeline.proof.checks import LakeEvidence, lake_finding
from headrace.pipeline.proof.counts import compared_counts, overlaps
from headrace.pipeline.proof.evidence import Compared
from headrace.pipeline.proof.families import ListedShards
from headrace.pipeline.proof.ports import ProofLook
from headrace.pipeline.proof.sides import Sides
from headrace.pipeline.proof.spans import CountPlan, FileCount
from headrace.pipeline.proof.subject import ProofReading, Subject
from headrace.pipeline.proof.verdict import TableProof


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSubject(Subject):
    """The lake table, with what Kinesis lists and what a person has accepted."""

    look: ProofLook
    window: Window
    listed: Mapping[StreamId, ListedShards]
    unlisted: Mapping[StreamId, str]
    """Streams of which Kinesis lists nothing any more, and why."""
    accepted: tuple[Accepted, ...]

    def compared(self, sides: Sides, plan: CountPlan, counts: Sequence[tuple[FileCount, ...]]) -> Compared:
        (own_counts,) = counts
        # A right count doesn't show a row that is there twice in the place of a missing one: only the keys do.
        doubled = sides[0].ports.rows.doubled(overlaps(plan, own_counts), plan.spans)
        return compared_counts(plan, own_counts, doubled)

    def finding(self, reading: ProofReading) -> TableProof:
        return lake_finding(self.evidence(reading))

    def evidence(self, reading: ProofReading) -> LakeEvidence:
        """The values that the checks of the lake table use."""
        (side,) = reading.sides
        before = side.before if reading.is_new else None
        live = frozenset(file.path for file in side.look.live.files)
        strange = {} if before is None else before.strange
        return LakeEvidence(
            table=side.look,
            compared=reading.compared,
            snapshot=self.look.state.snapshot,
            since=None if before is None else before.snapshot,
            listed=self.listed,
            unlisted=self.unlisted,
            window=self.window,
            through=self.look.state.through,
            kept_from=self.kept_from,
            accepted=self.accepted,
            known=tuple(rows for path, rows in strange.items() if path in live),
        )


def _why_other_life(stream: StreamId, present: StreamId) -> str:
    if present.epoch < stream.epoch:
        return (
            f"its name belongs to an earlier stream, {present}: the settings reach another AWS than the one that these records "
            "came from, so set aws.endpoint, aws.profile and the block aws.kinesis as they were"
        )
    return f"the stream was deleted, and its name belongs to {present}"


def listings_of_streams(
    source: Callable[[], ShardSource], look: ProofLook
) -> tuple[dict[StreamId, ListedShards], dict[StreamId, str]]:
    """The shards that Kinesis lists of each stream, and for the streams of which it lists none any more the reason."""
    listed: dict[StreamId, ListedShards] = {}
    unlisted: dict[StreamId, str] = {}
    for stream in sorted(look.state.positions.streams()):
        try:
            # By its ARN, and then by its age: a stream that was made anew has the same ARN, and other shards.
            present = source().describe(stream.arn).stream
            shards = source().list_shards(stream) if present == stream else ()
        except HeadraceError as error:
            # One stream that can't be asked about leaves the other checks as they are.
            unlisted[stream] = str(error)
            continue
        if present == stream:
            by_id = {shard.shard_id: shard for shard in shards}
            listed[stream] = ListedShards(stream, by_id, is_complete=stream in look.state.through)
        else:
            unlisted[stream] = _why_other_life(stream, present)
    return listed, unlisted
