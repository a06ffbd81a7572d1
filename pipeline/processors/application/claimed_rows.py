"""The lease rows of a processor's application: a `LeaseStore` that knows which rows this process has claimed, and
how its tasks have moved their checkpoints since.

    run ──claim──► row ◄──checkpoint, on condition of the claim── task on Spark, when the processor asks for it
     └──────────── what the task reports ◄───────────────────────┘

The engine writes a row on the condition that its checkpoint is the one which the engine knows. A task may have
moved it since, so this module puts the newest known checkpoint into the condition. DynamoDB still checks that the
claim is this run's.

A row at LATEST gets the moment that its shard is read from when it is made, or with its first claim. If it got
the moment only after a wave that worked, each failed wave would move the moment on, past records that arrived
meanwhile. A row that follows rows that were there before is made at TRIM_HORIZON
(`headrace.pipeline.processors.application.beginnings`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from headrace.pipeline.core.leases.change import Applied, Change, Outcome, Refused, in_milliseconds
from headrace.pipeline.core.leases.change_kind import MAKES, ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import LATEST
from headrace.pipeline.errors import HeadraceError, Unreachable
from headrace.pipeline.ports.leases import NO_ROWS, LeaseStore, Listing
from headrace.pipeline.processors.application.beginnings import begun_at_latest

_PREPARED = frozenset({"pending", "pending_state"})


@dataclass(slots=True)
class ClaimedRows:
    store: LeaseStore
    kinesis_now: Callable[[], datetime | None]
    """The time by Kinesis's clock; None before its first answer."""
    claimed: dict[str, Lease] = field(default_factory=dict)
    """Rows with a claim of this process, as they were last read or written, by lease key."""
    with_rest: set[str] = field(default_factory=set)
    """Lease keys of rows whose checkpoint is inside of a Kinesis record, of which the rest was handed out. No probe finds
    that rest, because nothing comes after its record."""
    _unanswered: dict[str, str | None] = field(default_factory=dict)
    """By lease key: the claim of this process whose write had no answer. The row may have it."""
    _at_latest: set[str] = field(default_factory=set)
    """Lease keys of rows at LATEST that don't tell from which moment on."""
    _scanned: tuple[Lease, ...] | None = None
    """All rows as the last scan has shown them."""

    @property
    def at_once(self) -> int:
        return self.store.at_once

    def get(self, key: str) -> Lease | None:
        row = self.store.get(key)
        return None if row is None else self._read((row,))[0]

    def get_many(self, keys: Sequence[str]) -> Listing:
        return self._listed(self.store.get_many(keys))

    def scan(self) -> Listing:
        listing = self.store.scan()
        self._scanned = listing.leases
        return self._listed(listing)

    def held_by(self, worker_id: str, known: Mapping[str, Lease] = NO_ROWS) -> Listing:
        return self._listed(self.store.held_by(worker_id, known))

    def apply(self, change: Change) -> Applied | Refused:
        outcome = self.store.apply(self._put_right(change))
        self._note(change, outcome)
        return _told(outcome)

    def apply_all(self, changes: Sequence[Change]) -> tuple[Outcome, ...]:
        outcomes = self.store.apply_all([self._put_right(change) for change in changes])
        for change, outcome in zip(changes, outcomes, strict=True):
            self._note(change, outcome)
        return tuple(
            outcome if isinstance(outcome, HeadraceError) else _told(outcome) for outcome in outcomes
        )

    def note_moved(self, row: Lease, *, has_rest: bool) -> None:
        """Remember a claimed row as a task has left it. `has_rest`: whether the task has read records that it
        hasn't delivered yet.
        """
        if row.key in self.claimed:
            self.claimed[row.key] = row
        (self.with_rest.add if has_rest else self.with_rest.discard)(row.key)

    def _listed(self, listing: Listing) -> Listing:
        return replace(listing, leases=self._read(listing.leases))

    def _read(self, rows: Iterable[Lease]) -> tuple[Lease, ...]:
        """Rows as they were just read, as the engine gets them."""
        rows = tuple(rows)
        for row in rows:
            self._note_read(row)
            is_open = row.checkpoint == LATEST and row.looked_at is None
            (self._at_latest.add if is_open else self._at_latest.discard)(row.key)
        return tuple(_as_authority(row) for row in rows)

    def newest(self) -> Mapping[str, Lease]:
        """All rows, by lease key. A scan may miss the newest writes; so a row that this process has claimed is
        returned as this process last read or wrote it.
        """
        rows = self.store.scan().leases
        self._read(rows)
        return {row.key: row for row in rows} | self.claimed

    def _note_read(self, row: Lease) -> None:
        """A row with the claim may have moved on: of a task whose report was lost nothing else tells. A row may also have a
        claim of which no answer told."""
        before = self.claimed.get(row.key)
        if before is None and row.run_claim is not None and row.run_claim == self._unanswered.get(row.key):
            self.claimed[row.key] = row
            return
        # A read may be late.
        if (
            before is not None
            and row.run_claim == before.run_claim
            and (row.checkpoint, row.counter) > (before.checkpoint, before.counter)
        ):
            self.claimed[row.key] = row

    def _note(self, change: Change, outcome: Outcome) -> None:
        if isinstance(outcome, Refused) and outcome.row is not None:
            self._note_read(outcome.row)
        if isinstance(outcome, HeadraceError) and change.kind is ChangeKind.CLAIM:
            self._unanswered[change.key] = change.put.get("run_claim")
        if not isinstance(outcome, Applied):
            return
        if outcome.lease.run_claim is None or change.deletes:
            self.claimed.pop(change.key, None)
        elif change.put.get("run_claim") is not None or change.key in self.claimed:
            self.claimed[change.key] = outcome.lease

    def _put_right(self, change: Change) -> Change:
        if change.kind in MAKES:
            return self._made_at_latest(change)
        if change.kind is ChangeKind.CLAIM and change.key in self._at_latest:
            return self._claimed_at_latest(change)
        if change.key in self.with_rest and "behind_ms" in change.put:
            # So the shard stays due, also for the next process.
            change = replace(change, put={**change.put, "behind_ms": max(1, change.put["behind_ms"])})
        row = self.claimed.get(change.key)
        moves_on = (
            row is not None
            and change.requires.get("run_claim") == row.run_claim
            and change.requires.get("checkpoint", row.checkpoint) < row.checkpoint
            and change.put.get("checkpoint", row.checkpoint) >= row.checkpoint
        )
        if row is not None and row.has_foreign_checkpoint and "behind_ms" in change.put:
            # The wave has read from there on: the row is due no more because of it.
            change = replace(change, put={"landed": row.checkpoint, **change.put})
        if row is None or not moves_on:
            return change
        remove = change.remove
        if change.put.get("checkpoint") == row.checkpoint:
            # The task has written this checkpoint already, and what the processor has prepared since is after it.
            remove -= _PREPARED
        return replace(change, requires={**change.requires, "checkpoint": row.checkpoint}, remove=remove)

    def _made_at_latest(self, change: Change) -> Change:
        row, now = change.create, self.kinesis_now()
        if row is None or row.checkpoint != LATEST or row.looked_at is not None:
            return change
        rows = self.store.scan().leases if self._scanned is None else self._scanned
        moment = None if now is None else in_milliseconds(now)
        return replace(change, create=begun_at_latest(row, rows, moment))

    def _claimed_at_latest(self, change: Change) -> Change:
        now = self.kinesis_now()
        if now is None:
            raise Unreachable(
                "Kinesis hasn't told the time yet, from which a shard at LATEST is read. Nothing was claimed or read, and the "
                "next wave tries again"
            )
        # Required as read: another run may have read the shard from an earlier moment on since.
        return replace(
            change,
            requires={**change.requires, "checkpoint": LATEST, "looked_at": None},
            put={**change.put, "looked_at": in_milliseconds(now)},
        )


def _as_authority(row: Lease) -> Lease:
    """The row as the only authority: no lake table is behind its checkpoint, whoever wrote it.

    A checkpoint of another program may be inside of an aggregate, whose rest no probe finds. So the shard is due until a wave has
    read from there on.
    """
    if not row.has_foreign_checkpoint:
        return row if row.checkpoint.is_digits else replace(row, landed=None)
    if row.landed is not None and row.landed < row.checkpoint:
        # Due by itself, and Headrace's last look isn't taken for the lag: another program has read on since.
        return row
    return replace(row, landed=row.checkpoint, behind_ms=max(1, row.behind_ms or 0))


def _told(outcome: Applied | Refused) -> Applied | Refused:
    match outcome:
        case Applied(row):
            return Applied(_as_authority(row))
        case Refused(row):
            return Refused(None if row is None else _as_authority(row))
