"""The lake table in memory, on which the simulator runs. The contract tests check this table and the one on Iceberg in the same way."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from threading import Lock
from typing import Literal

from headrace.pipeline.core.landing.applications import MOST_COMMITS, LandedBy
from headrace.pipeline.core.landing.expiry_plan import MAIN, History, Ref, Seen, Shape
from headrace.pipeline.core.landing.landing import Landing, Proposal, decide_landing
from headrace.pipeline.core.landing.repair_plan import KnownState, LastRow, Picked, TableEvidence
from headrace.pipeline.core.landing.valid_through import Through
from headrace.pipeline.core.ledger.batch import StagedFile, TakenFile
from headrace.pipeline.core.ledger.ledger import LedgerPage
from headrace.pipeline.core.ledger.recording import OnMain
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.errors import ChainBroken, CommitUnknown, Transient, Unknown
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.landing import Committed, LakeTable, TableState
from headrace.pipeline.ports.staging import StagingSpec
from tests.memory.aggregates import LandedRow

COLUMNS = (
    "stream",
    "stream_epoch",
    "shard_id",
    "sequence_number",
    "sub_sequence_number",
    "partition_key",
    "explicit_hash_key",
    "arrival_ts",
    "data",
    "decode_error",
    "sort_key",
)
_STALE = timedelta(hours=12)
"""Staged files that are older than this aren't committed, as in the table on Iceberg: clean-up tools may have deleted them."""
_UNSURE_TRIES = 3
"""How often a commit is tried again after its answer was lost."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Way = Literal["request", "answer"]


class LostOnTheWay(Exception):
    """A fault raises this for a request or an answer that never arrived."""


@dataclass(frozen=True, slots=True)
class Snapshot(OnMain):
    positions: Positions
    page: LedgerPage
    files: tuple[StagedFile, ...]
    """The files that this commit added."""
    replaced: frozenset[str] = frozenset()
    """The paths of the files that this commit removed, because others have their rows."""
    ours: bool = True
    """False: a snapshot of another engine, which has no positions."""
    picked: int | None = None
    """For a cherry-pick, the snapshot whose rows it has, without that snapshot's positions; else None."""
    at: datetime = _EPOCH
    through: Through = field(default_factory=dict)
    application: str = ""
    """The application that committed."""
    window: str = ""
    """The id of the window whose own table this is from this commit on."""
    kept_from: date | None = None
    """The first day that this commit of the retention leaves in the table."""

    @property
    def id(self) -> int:
        """Ids grow with each commit, as sequence numbers do on Iceberg: the sequence number is the id."""
        return self.snapshot


class MemoryTable(LakeTable):
    def __init__(self, clock: Clock, location: str = "memory") -> None:
        self.snapshots: dict[int, Snapshot] = {}
        self._files_at: dict[int | None, tuple[StagedFile, ...]] = {}
        """By snapshot: the files that a reader of it reads."""
        self.head: int | None = None
        self.fault: Callable[[Way], None] = lambda _: None
        """Called before and after each commit's compare-and-swap. It may raise `LostOnTheWay`, or act as another writer."""
        self.rows_of: Callable[[StagedFile], Iterable[LandedRow]] = lambda _: ()
        """File -> its rows, which a repair reads."""
        self.removed: set[str] = set()
        """Staged files that something else has deleted."""
        self.is_there = True
        """Whether the catalog has the table. Only the tests of its creation begin without."""
        self.unpacks = True
        """Whether aggregates that land in the table are taken apart."""
        self.tags: dict[str, int] = {}
        self.application = ""
        """The application whose process commits now."""
        self.window = ""
        """The id of the window whose own table this is. A rollback doesn't change it."""
        self.kept_from: date | None = None
        """The first day that the retention has left. A rollback doesn't change it."""
        self.stale = _STALE
        self._forgotten: set[int] = set()
        """Expired snapshots that no metadata file describes any more. Their rows are still in the table."""
        self._clock = clock
        self._location = location
        self._ids = itertools.count(1)
        self._lock = Lock()

    def exists(self) -> bool:
        return self.is_there

    def ensure(self, *, create: bool) -> None:
        if not (self.is_there or create):
            raise Unknown("the lake table isn't in the catalog")
        self.is_there = True

    def load(self) -> TableState:
        if not self.is_there:
            raise Unknown("the lake table isn't in the catalog")
        return self._state(self.head)

    def staging_spec(self) -> StagingSpec:
        ids = tuple((name, i) for i, name in enumerate(COLUMNS, start=1))
        return StagingSpec(self._location, ids, unpack=self.unpacks)

    def commit(self, proposal: Proposal) -> Committed:
        tries: dict[int, Landing] = {}
        unsure = 0
        while True:
            base = self.load()
            # An earlier try whose answer was lost may have landed. It counts only if it is part of main (D17 of docs/reference/protocol.md).
            mine = self._landed(base.snapshot, tries)
            if mine is not None:
                return self._committed(mine, tries[mine])
            if unsure >= _UNSURE_TRIES:
                raise CommitUnknown(f"{unsure} commits got no clear answer, and the table shows none of them")
            self._check_files((*proposal.files, *proposal.also), proposal.taken, unsure=unsure)
            # Each try is decided anew: the decision on an older base says nothing about the new one (D9).
            landing = decide_landing(
                base.positions, proposal, base.through, self._clock.now(), owner=base.owner
            )
            if landing.is_empty:
                return Committed(landing, None, base)
            # Most commits remove nothing, and then the files needn't be listed.
            if proposal.gone and not {*proposal.gone} <= {f.path for f in self.files_at(base.snapshot)}:
                return Committed(Landing.without_files(proposal, base.positions), None, base)
            made = replace(
                self._snapshot(base.snapshot, landing),
                replaced=frozenset(proposal.gone),
                window=proposal.window,
            )
            tries[made.id] = landing
            try:
                if self._swap(made):
                    return self._committed(made.id, landing)
            except LostOnTheWay:
                unsure += 1

    def history(self, head: int | None) -> Iterator[Snapshot]:
        """Snapshots from one back to the first."""
        while head is not None:
            yield self.snapshots[head]
            head = self.snapshots[head].parent

    def files_at(self, head: int | None) -> Iterator[StagedFile]:
        """The files that a reader of this snapshot reads, newest first."""
        unknown: list[Snapshot] = []
        for snapshot in self.history(head):
            if snapshot.id in self._files_at:
                break
            unknown.append(snapshot)
        for snapshot in reversed(unknown):
            files = (*snapshot.files, *self._files_at.get(snapshot.parent, ()))
            if snapshot.replaced:
                files = tuple(file for file in files if file.path not in snapshot.replaced)
            self._files_at[snapshot.id] = files
        return iter(self._files_at.get(head, ()))

    # --- upkeep -----------------------------------------------------------------------------------------------

    def exchange(
        self,
        base: TableState,
        added: tuple[StagedFile, ...],
        replaced: frozenset[str],
        *,
        kept_from: date | None = None,
    ) -> int | None:
        """Commit other files for these, with the positions of the base; None if another commit came first. `kept_from`: the first day that
        stays, where the retention removes the days before it."""
        landing = Landing.carrying(base.positions, base.through, added)
        made = replace(self._snapshot(base.snapshot, landing), replaced=replaced, kept_from=kept_from)
        try:
            return made.id if self._swap(made) else None
        except LostOnTheWay as lost:
            if self._landed(self.head, {made.id: landing}) is None:
                raise CommitUnknown("a commit got no clear answer") from lost
            return made.id

    def retained(self) -> History:
        with self._lock:
            seen = {s.id: _seen(s) for s in self.snapshots.values() if self._knows(s.id)}
            return History(seen, self._refs())

    def expire(self, history: History, snapshots: Sequence[int]) -> bool:
        self.fault("request")
        with self._lock:
            if self._refs() != history.refs:
                return False
            self._forgotten.update(snapshots)
        self.fault("answer")
        return True

    def carry(self) -> TableState:
        while True:
            base = self.load()
            if base.origin_allowed:
                raise ChainBroken("the table has no positions that could be carried forward")
            landing = Landing.carrying(base.positions, base.through)
            made = self._snapshot(base.snapshot, landing)
            try:
                if self._swap(made):
                    return self._state(made.id)
            except LostOnTheWay as lost:
                if self._landed(self.head, {made.id: landing}) is None:
                    raise CommitUnknown("a commit got no clear answer") from lost
                return self._state(self.head)

    # --- what others do to a table ----------------------------------------------------------------------------

    def landings(self, since: datetime) -> tuple[LandedBy, ...]:
        landed = (s for s in self.history(self.head) if s.page.ranges and s.application and s.at >= since)
        return tuple(
            LandedBy(s.at, s.application, frozenset(each.key.stream.arn for each in s.page.ranges))
            for s in islice((s for s in landed if self._knows(s.id)), MOST_COMMITS)
        )

    def append_as_others(
        self, files: tuple[StagedFile, ...] = (), replaced: frozenset[str] = frozenset()
    ) -> int:
        """A commit by another engine: an insert, or without files a compaction, which leaves the rows as they are. `replaced`: paths of files
        that leave the table."""
        return self._put(files, replaced=replaced)

    def cherry_pick(self, source: int) -> int:
        return self._put(self.snapshots[source].files, picked=source)

    def drop(self) -> None:
        self.snapshots, self.head, self.is_there = {}, None, False

    def forget(self, *snapshots: int) -> None:
        """Expire snapshots, and delete the metadata files that describe them. Expiry alone doesn't break the chain, because the
        metadata log still names those files.
        """
        self._forgotten.update(snapshots)

    def rollback(self, to: int | None) -> None:
        """Roll main back, as a person may do: later snapshots stay known, but are no longer part of the table."""
        with self._lock:
            self.head = to

    # --- repair -----------------------------------------------------------------------------------------------

    def evidence(self, streams: Iterable[StreamId]) -> TableEvidence:
        reached, picked, is_whole = self._over_picks()
        rows = [row[:2] for file in self.files_at(self.head) for row in self.rows_of(file)]
        known = sorted((s for s in self.snapshots.values() if self._knows(s.id)), key=lambda s: -s.id)
        return TableEvidence(
            self.head,
            reached,
            picked,
            {key: LastRow(max(n for k, n in rows if k == key)) for key in {key for key, _ in rows}},
            tuple(KnownState(s.id, s.positions, s.page) for s in known if s.ours),
            is_whole,
        )

    def rebuild(self, landing: Landing, on: int | None) -> TableState:
        made = self._snapshot(on, landing)
        try:
            moved = not self._swap(made)
        except LostOnTheWay as lost:
            if all(snapshot.id != made.id for snapshot in self.history(self.head)):
                raise CommitUnknown("a commit got no clear answer; run the command again to see") from lost
            moved = False
        if moved:
            raise Transient(
                "the table has a new snapshot since the repair was planned. Nothing was changed; run the command again"
            )
        return TableState(made.positions, made.id, origin_allowed=False)

    def _over_picks(self) -> tuple[Positions | None, tuple[Picked, ...], bool]:
        picked: list[Picked] = []
        reached: Positions | None = None
        is_whole = False
        try:
            for snapshot in self.walk(self.head):
                if snapshot.picked is not None:
                    source = self.snapshots[snapshot.picked] if self._knows(snapshot.picked) else None
                    picked.append(Picked(snapshot.id, source.page if source else None, snapshot.parent))
                elif snapshot.ours:
                    reached = snapshot.positions
                    break
            else:
                is_whole = True
        except ChainBroken:
            # An expiry has cut the history: `is_whole` stays false, and what was seen up to here is the answer.
            pass
        return reached, tuple(reversed(picked)), is_whole

    def _snapshot(self, parent: int | None, landing: Landing) -> Snapshot:
        number = next(self._ids)
        return Snapshot(
            number,
            parent,
            number,
            landing.positions,
            landing.page,
            landing.files,
            at=self._clock.now(),
            through=landing.through,
            application=self.application,
        )

    def _refs(self) -> dict[str, Ref]:
        main = {} if self.head is None else {MAIN: Ref(self.head, is_branch=True)}
        return main | {name: Ref(snapshot) for name, snapshot in self.tags.items()}

    def _landed(self, head: int | None, tries: Mapping[int, Landing]) -> int | None:
        """The snapshot among `tries` that main leads to, if it leads to one. Ids grow, so that none is below the lowest of them."""
        try:
            for snapshot in self.walk(head) if tries else ():
                if snapshot.id in tries:
                    return snapshot.id
                if snapshot.id < min(tries):
                    break
        except ChainBroken as cut:
            raise CommitUnknown("the snapshots of the time of this commit have been expired since") from cut
        return None

    def _swap(self, made: Snapshot) -> bool:
        self.fault("request")
        with self._lock:
            # As on Iceberg a rollback takes no number back: main may be on the parent again, and the snapshot is too old all the same.
            if self.head != made.parent or made.id < next(reversed(self.snapshots), 0):
                return False
            self.snapshots[made.id] = made
            self.head = made.id
            self.window = made.window or self.window
            days = (day for day in (self.kept_from, made.kept_from) if day is not None)
            self.kept_from = max(days, default=None)
        self.fault("answer")
        return True

    def _state(self, head: int | None) -> TableState:
        known = len(self.snapshots) - len(self._forgotten)
        for foreign, snapshot in enumerate(self.walk(head)):
            if snapshot.picked is not None:
                raise ChainBroken(
                    f"snapshot {snapshot.id} is a cherry-pick. Nothing was committed; run `headrace repair`"
                )
            if snapshot.ours:
                shape = Shape(known, foreign)
                return TableState(
                    snapshot.positions,
                    head,
                    origin_allowed=False,
                    shape=shape,
                    window=self.window,
                    through=snapshot.through,
                    kept_from=self.kept_from,
                )
        if any(snapshot.ours for snapshot in self.snapshots.values()):
            raise ChainBroken("the table was rolled back to before its first landing. Nothing was committed")
        if any(snapshot.files for snapshot in self.history(head)):
            raise ChainBroken(
                "the table has records, but no positions. Nothing was committed; run `headrace repair`"
            )
        shape = Shape(known, known)
        return TableState(
            Positions(),
            head,
            origin_allowed=True,
            shape=shape,
            window=self.window,
            kept_from=self.kept_from,
        )

    def walk(self, head: int | None) -> Iterator[Snapshot]:
        """The snapshots of main, newest first, as far as a metadata file describes them."""
        for snapshot in self.history(head):
            if not self._knows(snapshot.id):
                raise ChainBroken(
                    f"the history is broken at snapshot {snapshot.id}. Nothing was committed; run `headrace repair`"
                )
            yield snapshot

    def _knows(self, snapshot: int) -> bool:
        return snapshot not in self._forgotten

    def _put(
        self,
        files: tuple[StagedFile, ...],
        *,
        picked: int | None = None,
        replaced: frozenset[str] = frozenset(),
    ) -> int:
        with self._lock:
            number = next(self._ids)
            made = Snapshot(
                number,
                self.head,
                number,
                Positions(),
                LedgerPage(),
                files,
                replaced,
                ours=False,
                picked=picked,
                at=self._clock.now(),
            )
            self.snapshots[made.id] = made
            self.head = made.id
            return made.id

    def _committed(self, snapshot: int, landing: Landing) -> Committed:
        return Committed(landing, snapshot, self._state(snapshot))

    def _check_files(
        self, files: tuple[StagedFile, ...], taken: tuple[TakenFile, ...], *, unsure: int
    ) -> None:
        since = [*(file.staged_at for file in files), *(file.seen_at for file in taken)]
        oldest = min(since, default=self._clock.now())
        paths = [*(file.path for file in files), *(file.path for file in taken)]
        gone = [path for path in paths if path in self.removed]
        if self._clock.now() - oldest > self.stale:
            why = f"files staged or seen at {oldest} are older than {self.stale}"
        elif gone:
            why = f"the file {gone[0]} can't be found any more"
        else:
            return
        if unsure:
            raise CommitUnknown(f"{why}, and an earlier try got no clear answer")
        raise Transient(f"{why}. Nothing was committed")


def _seen(snapshot: Snapshot) -> Seen:
    return Seen(
        snapshot.id,
        snapshot.parent,
        snapshot.id,
        snapshot.at,
        carries=snapshot.ours and snapshot.picked is None,
        is_pick=snapshot.picked is not None,
    )
