"""Carries out a person's decision about one shard: claim its row, read the shard's situation, plan, commit, write
the row, release the row.

A run that is reading the shard is asked through `wantedBy` to release it after its wave, in the same way as by
another run that waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Applied
from headrace.pipeline.core.leases.due import LivenessTimes, run_lives
from headrace.pipeline.core.leases.lease import Lease, run_of_claim
from headrace.pipeline.core.leases.sighting import Sighting, after_look
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.order.parents import parents_of
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.shards.position import Position, Start
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.sharing.sync_plan import is_of_this_life
from headrace.pipeline.duties.policy.policy import Policy
from headrace.pipeline.duties.streams.family import SinceOrigin, family_of
from headrace.pipeline.duties.streams.named_shard import lease_key_meant
from headrace.pipeline.duties.streams.streams import stream_as_written
from headrace.pipeline.duties.waves.gaps import children_in
from headrace.pipeline.errors import HeadraceError, PositionsDisagree, Unknown
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.landing import LandingTable
from headrace.pipeline.ports.leases import LeaseStore, WorkerStore
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.ports.reading import ShardSource, StreamFacts
from headrace.pipeline.ports.runs import Runs
from headrace.pipeline.repair.decision_plan import Decision, End, ShardSituation, Tip
from headrace.pipeline.settings.model import Settings

_LOOKS_BACK = (timedelta(minutes=1), timedelta(hours=1))
"""Kinesis can't be asked for the newest record of a shard, and reading a whole shard takes long. So the newest record
is looked for among those of the last minute, then of the last hour, and only then among all."""


@dataclass(frozen=True, slots=True)
class Held:
    """The answer that the lease row has the claim of the command, so that no run reads the shard."""

    row: Lease


@dataclass(frozen=True, slots=True)
class Busy:
    """The answer that the command has to wait for the row, and why."""

    why: str


@dataclass(slots=True, kw_only=True)
class Recovery:
    """One command of a person about a shard, with a claim of its own in the form of a run's claim: `<run
    id>/<attempt>`.
    """

    claim: str
    settings: Settings
    policy: Policy
    leases: LeaseStore
    workers: WorkerStore
    runs: Runs
    source: ShardSource
    table: LandingTable
    clock: Clock
    _beats: Mapping[str, Sighting] = field(default_factory=dict)
    _looked_at: float | None = None

    def find(self, name: str) -> str:
        """The lease key of the shard that a person names. Raises an error with similar names if there is none."""
        return lease_key_meant(
            name, self.leases, only_stream=self.settings.only_stream, nothing="nothing was changed"
        )

    def hold(self, key: str) -> Held | Busy:
        """Try once to put the command's claim into the row. On `Busy` the command tries again a little later,
        because the run that is reading the shard releases it after its wave.
        """
        row = self.leases.get(key)
        if row is None:
            raise Unknown(f"the lease row of {partition_of(key)} was deleted meanwhile; nothing was changed")
        if row.run_claim == self.claim:
            return Held(row)
        if row.checkpoint_owner is not None:
            return Busy(
                f"{partition_of(key)} is being handed over from {row.checkpoint_owner} to {row.owner}"
            )
        # A KCL worker reads on from the row by its own rules, and no claim keeps it from that.
        if (why := self.policy.other_workers.why_not_hold(row)) is not None:
            return Busy(why)
        self._watch(row)
        for run_claim, does in ((row.run_claim, "is reading"), (row.wanted_by, "waits for")):
            if run_claim not in {None, self.claim} and self._lives(run_claim or ""):
                # Asked for as a waiting run asks: the reading run then gives the row up after its wave.
                if run_claim == row.run_claim and row.wanted_by is None:
                    self.leases.apply(change.want(row, self.claim))
                return Busy(f"run {run_of_claim(run_claim or '')} {does} {partition_of(key)}")
        answer = self.leases.apply(change.hold(row, self.claim, "a person decides about this shard"))
        if isinstance(answer, Applied):
            return Held(answer.lease)
        return Busy(f"another program has just written the row of {partition_of(key)}")

    def release(self, key: str) -> None:
        """Remove every trace of the command from the row, and its beat from the worker's row."""
        row = self.leases.get(key)
        if row is None:
            return
        if row.run_claim == self.claim:
            self.leases.apply(change.release(row, self.claim))
        if row.wanted_by == self.claim:
            self.leases.apply(change.unwant(row, self.claim))
        # The beat of a claim that is over would count as one that stands still, and be watched for nothing.
        if row.holder is not None and self.workers.get(row.holder) is not None:
            self.workers.forget_runs(row.holder, [self.claim])

    def situation(self, row: Lease) -> ShardSituation:
        """What the row, the lake table and Kinesis tell about the shard, for a plan."""
        facts = self.source.describe(stream_as_written(self.settings, row))
        if not is_of_this_life(facts.stream, row):
            raise PositionsDisagree(
                f"the row {partition_of(row.key)} is of another life of stream {facts.stream.name}: "
                "the leader retires the row; nothing was changed"
            )
        key = ShardKey(facts.stream, row.shard_id)
        # The row first, then the table, as in a wave: a row that only looks older than the table does no harm.
        positions = self.table.load().positions
        # Parents matter only to a shard that hasn't begun: a position shows that they were out of its way.
        begins = [key] if positions.of(key) is None and facts.stream in positions.origins else []
        family = family_of(
            facts.stream, begins, held=[row], positions=positions, source=self.source, leases=self.leases
        )
        passed = family.passed(positions)
        since = SinceOrigin(facts.stream, positions, self.source)
        reasons, waiting = (
            parents_of(
                key.shard_id,
                family,
                positions,
                since.is_gone,
                passed=passed,
                ended_before=since.ended_before,
                holds_all=since.holds_all,
                keeps=since.keeps,
            )
            if begins
            else ((), ())
        )
        arrival = None
        if row.checkpoint.is_digits:
            arrival = self.source.arrivals({key: int(row.checkpoint.sequence)}).get(key)
        return ShardSituation(key, row, positions, reasons, waiting, passed.get(key.shard_id), arrival)

    def end_of(self, key: ShardKey) -> End:
        listed = self.source.list_shards(key.stream)
        shard = next((s for s in listed if s.shard_id == key.shard_id), None)
        return End(shard, children_in(key, listed), shard is None and self.source.is_gone(key))

    def tip_of(self, key: ShardKey, pages: Pages) -> Tip:
        """The newest record of the shard, found by reading the shard's pages. The payloads aren't used."""
        facts = self.source.describe(key.stream.arn)
        for back in (*_LOOKS_BACK, None):
            start = Start(None if back is None else facts.asked - back)
            tip = _last_page(key, pages, start, facts)
            if tip.sequence is not None or back is None:
                return tip
        raise AssertionError("the loop returns at the latest after reading the whole shard")

    def require_readable(self, key: ShardKey, sequence: int, pages: Pages) -> None:
        """Ask Kinesis for the page after this record. Raises Kinesis's error if it refuses the number."""
        facts = self.source.describe(key.stream.arn)
        batch = Batch(key, Position(sequence), Start(), facts.asked, facts.retention)
        # Asked before the commit: a position at a number that Kinesis doesn't take would stop the
        # shard for good.
        next(iter(pages.pages(batch)), None)

    def carry_out(self, held: Lease, decision: Decision) -> str:
        """Commit the decision to the lake table, then write it into the held row. Returns a sentence for the person."""
        if decision.range is not None:
            # Compare-and-swap on the position that the person was shown: a decision about a
            # position that has moved since isn't carried out.
            committed = self.table.commit(Proposal((decision.range,)))
            if committed.landing.refused:
                raise PositionsDisagree(
                    f"the position of {decision.range.key} changed while you decided: "
                    f"{committed.landing.refused[0].why}. Nothing was changed; run the command again"
                )
        # Only now: a row's checkpoint must never be ahead of the table (I8).
        if decision.row is not None:
            repositioned = change.reposition(
                held, self.claim, place=decision.row, landed=decision.landed, why=decision.sentences[0]
            )
            to_do = "The lake table has the decision; run the command again to bring the row into step"
            try:
                outcome = self.leases.apply(repositioned)
            except HeadraceError as error:
                raise type(error)(
                    f"the row {partition_of(held.key)} couldn't be written ({error}). {to_do}"
                ) from error
            if not isinstance(outcome, Applied):
                raise PositionsDisagree(
                    f"another program has taken the row {partition_of(held.key)}. {to_do}"
                )
        return f"{partition_of(held.key)}: done; the next wave that reads this shard goes on from there"

    def _lives(self, run_claim: str) -> bool:
        times = self.settings.times
        patience = LivenessTimes(times.lease_duration, times.launch_grace)
        beat = self._beats.get(run_claim, Sighting("none"))
        return run_lives(self.runs.verdict(run_of_claim(run_claim)), [beat], patience)

    def _watch(self, row: Lease) -> None:
        """Read the beats of other claims on the row, and beat for this command, so that no run takes the command for
        dead."""
        beats: dict[str, str] = {}
        worker = self.workers.get(row.holder) if row.holder is not None else None
        if (
            worker is not None
        ):  # `beat_run` would make a row for a worker of another application, which may have none
            self.workers.beat_run(worker.worker_id, self.claim)
            beats = {claim: str(count) for claim, count in worker.run_beats.items()}
        for claim in (row.run_claim, row.wanted_by):
            if claim is not None:
                beats.setdefault(claim, "none")
        moment = self.clock.monotonic()
        since = None if self._looked_at is None else timedelta(seconds=moment - self._looked_at)
        self._beats = after_look(self._beats, beats, since=since, tick=self.settings.times.worker_tick)
        self._looked_at = moment


def _last_page(key: ShardKey, pages: Pages, start: Start, facts: StreamFacts) -> Tip:
    tip, was_at_tip = Tip(None, None, facts.asked), False
    for page in pages.pages(Batch(key, None, start, facts.asked, facts.retention)):
        tip = replace(tip, looked=page.answered, is_open=page.children is None)
        if page.last_sequence is not None:
            tip = replace(tip, sequence=page.last_sequence, arrival=page.last_arrival)
        # The page with the last records of a closed shard may not tell the end. The next page does.
        is_at_tip = page.behind <= timedelta(0)
        if is_at_tip and (was_at_tip or not page.rows):
            break
        was_at_tip = is_at_tip
    return tip
