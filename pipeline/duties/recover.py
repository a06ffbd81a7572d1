"""A person's decision about one shard, carried out: hold its row, look, plan, commit, write the row, let go.

A run that is reading the shard is asked to give it up after its wave (`wantedBy`), as any waiting run asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from difflib import get_close_matches
from functools import partial

from pipeline.core import change
from pipeline.core.batch import Batch
from pipeline.core.change import Applied
from pipeline.core.due import LivenessTimes, run_lives
from pipeline.core.landing import Proposal
from pipeline.core.lease import Lease, run_of_claim
from pipeline.core.order import parents_of
from pipeline.core.position import Position, Start
from pipeline.core.recovery_plan import Decision, End, ShardSituation, Tip
from pipeline.core.sighting import Sighting, look
from pipeline.core.stream import ShardKey
from pipeline.core.sync import is_of_this_life
from pipeline.duties.family import ended_before_origin, family_of
from pipeline.duties.gaps import children_in
from pipeline.duties.policy import Policy
from pipeline.duties.streams import asked_by
from pipeline.errors import HeadraceError, PositionsDisagree, Unknown
from pipeline.ports import (
    Clock,
    LandingTable,
    LeaseStore,
    Pages,
    Runs,
    ShardSource,
    StreamFacts,
    WorkerStore,
)
from pipeline.settings.model import Settings

_LOOKS_BACK = (timedelta(minutes=1), timedelta(hours=1))
"""How far before now the newest record is looked for, before all that the stream holds is read."""


@dataclass(frozen=True, slots=True)
class Held:
    row: Lease


@dataclass(frozen=True, slots=True)
class Busy:
    why: str


@dataclass(slots=True, kw_only=True)
class Recovery:
    """One person's command. `claim` is of the form `<run>/<attempt>`, as a run's."""

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

    def find(self, wanted: str) -> str:
        """The key of the row that a lease key or a shard id means; near names where there is none."""
        if self.leases.get(wanted) is not None:
            return wanted
        keys = {row.key: row.shard_id for row in self.leases.scan().leases}
        found = [key for key, shard_id in keys.items() if shard_id == wanted]
        if len(found) == 1:
            return found[0]
        near = found or get_close_matches(wanted, keys, n=3, cutoff=0.5) or sorted(keys)[:3]
        told = f"near it: {', '.join(near)}" if near else "no shard has a lease yet: the leader makes them"
        raise Unknown(f"there is no shard {wanted!r} ({told}); nothing was changed")

    def hold(self, key: str) -> Held | Busy:
        """One try. Who is told `Busy` tries again a little later: the holder gives the shard up after its wave."""
        row = self.leases.get(key)
        if row is None:
            raise Unknown(f"the row of {key} is gone; nothing was changed")
        if row.run_claim == self.claim:
            return Held(row)
        if row.checkpoint_owner is not None:
            return Busy(f"{key} is being handed over from {row.checkpoint_owner} to {row.owner}")
        if (why := self.policy.other_workers.why_not_hold(row)) is not None:
            return Busy(why)
        self._watch(row)
        for who, does in ((row.run_claim, "is reading"), (row.wanted_by, "waits for")):
            if who not in {None, self.claim} and self._lives(who or ""):
                if who == row.run_claim and row.wanted_by is None:
                    self.leases.apply(change.want(row, self.claim))
                return Busy(f"run {run_of_claim(who or '')} {does} {key}")
        answer = self.leases.apply(change.hold(row, self.claim, "a person decides about this shard"))
        return Held(answer.lease) if isinstance(answer, Applied) else Busy(f"the row of {key} is moving")

    def release(self, key: str) -> None:
        row = self.leases.get(key)
        if row is None:
            return
        if row.run_claim == self.claim:
            self.leases.apply(change.release(row, self.claim))
        if row.wanted_by == self.claim:
            self.leases.apply(change.unwant(row, self.claim))
        if row.holder is not None and self.workers.get(row.holder) is not None:
            self.workers.forget_runs(row.holder, [self.claim])

    def situation(self, row: Lease) -> ShardSituation:
        facts = self.source.describe(asked_by(self.settings, row))
        if not is_of_this_life(facts.stream, row):
            raise PositionsDisagree(
                f"the row {row.key} is of another life of {facts.stream.name}: the leader retires it; nothing was changed"
            )
        key = ShardKey(facts.stream, row.shard_id)
        positions = self.table.load().positions
        begins = [key] if positions.of(key) is None and facts.stream in positions.origins else []
        family = family_of(
            facts.stream, begins, held=[row], positions=positions, source=self.source, leases=self.leases
        )
        passed = family.passed(positions)
        reasons, waiting = (
            parents_of(
                key.shard_id,
                family,
                positions,
                self.source.is_gone,
                passed=passed,
                ended_before=partial(ended_before_origin, facts.stream, positions, self.source),
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
        """The newest record, found by reading; its payload is looked at by nobody."""
        facts = self.source.describe(key.stream.arn)
        for back in (*_LOOKS_BACK, None):
            start = Start(None if back is None else facts.asked - back)
            found = _last_page(key, pages, start, facts)
            if found.sequence is not None or back is None:
                return found
        raise AssertionError("the last look reads all there is")

    def require_readable(self, key: ShardKey, sequence: int, pages: Pages) -> None:
        """Kinesis's own word on whether reading can go on after this record; its refusal passes through."""
        facts = self.source.describe(key.stream.arn)
        batch = Batch(key, Position(sequence), Start(), facts.asked, facts.retention)
        next(iter(pages.pages(batch)), None)

    def carry_out(self, held: Lease, decision: Decision) -> str:
        """The table first, as always; the row follows."""
        if decision.range is not None:
            committed = self.table.commit(Proposal((decision.range,)))
            if committed.landing.refused:
                raise PositionsDisagree(
                    f"{decision.range.key} moved meanwhile: {committed.landing.refused[0].why}. Nothing was changed; look again"
                )
        if decision.row is not None:
            wanted = change.reposition(
                held, self.claim, at=decision.row, landed=decision.landed, why=decision.sentences[0]
            )
            left = "The table says what was decided; run the command again for the row"
            try:
                outcome = self.leases.apply(wanted)
            except HeadraceError as error:
                raise type(error)(f"the row {held.key} couldn't be written ({error}). {left}") from error
            if not isinstance(outcome, Applied):
                raise PositionsDisagree(f"the row {held.key} was taken meanwhile. {left}")
        return f"{held.key}: done; the next wave of its worker goes on from there"

    def _lives(self, run_claim: str) -> bool:
        times = self.settings.times
        patience = LivenessTimes(times.lease_duration, times.launch_grace)
        beat = self._beats.get(run_claim, Sighting("none"))
        return run_lives(self.runs.verdict(run_of_claim(run_claim)), [beat], patience)

    def _watch(self, row: Lease) -> None:
        """Other claims' beats, and one of our own, so that nobody takes this command for dead."""
        beats: dict[str, str] = {}
        worker = self.workers.get(row.holder) if row.holder is not None else None
        if worker is not None:  # another application's worker may have no row, and gets none by us
            self.workers.beat_run(worker.worker_id, self.claim)
            beats = {claim: str(count) for claim, count in worker.run_beats.items()}
        for claim in (row.run_claim, row.wanted_by):
            if claim is not None:
                beats.setdefault(claim, "none")
        now = self.clock.monotonic()
        since = None if self._looked_at is None else timedelta(seconds=now - self._looked_at)
        self._beats = look(self._beats, beats, since=since, tick=self.settings.times.worker_tick)
        self._looked_at = now


def _last_page(key: ShardKey, pages: Pages, start: Start, facts: StreamFacts) -> Tip:
    tip = Tip(None, None, facts.asked)
    for page in pages.pages(Batch(key, None, start, facts.asked, facts.retention)):
        tip = replace(tip, at=page.answered, is_open=page.children is None)
        if page.last_sequence is not None:
            tip = replace(tip, sequence=page.last_sequence, arrival=page.last_arrival)
        if page.behind <= timedelta(0):
            break
    return tip
