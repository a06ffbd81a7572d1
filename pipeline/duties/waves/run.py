"""A run: wave after wave until there is nothing more to read or its time is over; then it reports which shards have
failed.

    Run       the loop over waves of one worker: all shards that are due, or named shards up to their tip
    Reading   everything that one run of Dagster reads: one `Run` for each worker that reads some of its shards

Dagster's asset, `headrace consume` and the simulator call `Reading`. This module doesn't import Dagster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from headrace.pipeline.core.landing.expiry_plan import Shape
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.duties.waves.attempt import Attempt
from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.duties.waves.readers import Readers
from headrace.pipeline.duties.waves.report import Landed, OnStep, Problem, WaveReport, WaveStep
from headrace.pipeline.errors import HeadraceError, Transient
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.values import show

OnWave = Callable[[WaveReport], None]

_EMPTY_PAUSE = 1.0
"""Seconds after a wave that brought no record from a shard that isn't at its tip, such as one with empty pages."""
_STOP_PAUSE = 0.5
"""Seconds between two looks at the worker's row. A stopping worker can give up a shard only once its run has released
it, and a run that waits for a shard gets it no earlier."""
_RETRY_PAUSE = 2.0
"""The most seconds between two tries to claim a named shard."""
_FREE_PAUSE = 0.25
"""Seconds between two looks whether a named shard has become free."""
_TRIES = 10
"""Waves without success after which a run gives a named shard up although no other run is reading it: the leader has
given the lease to another worker, or the shard's parents have to be read first. Waiting longer could be waiting for
ever, because the worker starts no other run meanwhile, and another run may have to read those parents first."""
_CALM = 60.0
"""Seconds for which a run goes on at the least, although a shard begins to fail or may be tried again, where shards have failed before:
each run that ends keeps the healthy shards waiting until the next one has started."""
_WAVES_APART = 100
"""Waves after which a run that keeps claims releases them for an expiry. A run of the default length ends before, and
expires then: an expiry costs a release and a claim for each kept row."""


@dataclass(slots=True, kw_only=True)
class Run:
    attempt: Attempt
    settings: Settings
    clock: Clock
    on_wave: OnWave
    is_stopping: Callable[[], bool]
    """Whether a person told this run's worker to stop."""
    expiring: Expiring | None = None
    """What expires the lake table's snapshots between two waves, or at the run's end; None: this run doesn't."""
    tell: Callable[[str], object] = field(default=lambda _: None)
    """Called with a sentence for people about what the run did between two waves."""
    failing: frozenset[str] | None = None
    """Lease keys of shards that failed before this run. A run over all due shards ends once another one begins to fail,
    because Dagster shows a failure only once its run has ended, and the next run goes on with the healthy shards. None:
    the run goes on."""
    retry_after: float | None = None
    """Seconds after which the next run may try a shard again that failed in this run or that it leaves alone. None: this run doesn't end for it."""
    waiting: dict[str, str] = field(default_factory=dict)
    """Named shards that aren't read up to their tip yet, each with the reason. By lease key."""
    _began: float = field(init=False)
    _is_told_to_stop: bool = False
    _shape: Shape | None = None
    """The lake table's, as the last wave that saw it left it."""
    _has_landed: bool = False
    """Whether a wave of this run has committed to the lake table."""
    _waves_since: int = 0
    """Waves since the run began, or since it last released its claims for an expiry."""

    def __post_init__(self) -> None:
        self._began = self.clock.monotonic()

    def all_that_is_due(self, *, to_the_newest: bool = False) -> None:
        """Make waves over all leases of the worker until no record has come for `times.idle`, or `times.linger` is
        over.

        Each wave plans anew: it begins to read children and new leases, and leaves leases that went to another
        worker. `to_the_newest`: go on beyond `times.linger` as long as a shard hasn't been read up to the record
        that was its newest when the run began. That is for a run without a sensor, which could start the next
        run.
        """
        since = self.clock.now() if to_the_newest else None
        try:
            self._until_nothing_comes(since)
        finally:
            # After an error, too: else the worker's next run would wait until the claims of this one count as dead.
            self._tell_of(self.attempt.let_go())
        if not self._is_told_to_stop:
            self._expire_what_is_due()
            self._record_what_landed()

    def _until_nothing_comes(self, since: datetime | None) -> None:
        last_news, has_told = self._began, False
        while True:
            began = self.clock.monotonic()
            report = self._wave(None)
            # An END counts as news although it may bring no row: the children are read by the next
            # wave of the same run, which needs neither a new process nor a new Spark session.
            if report.rows or report.goes_on:
                last_news = self.clock.monotonic()
            else:
                # A wait for Spark says nothing about the streams.
                last_news += report.waited
            idle_for = self.clock.monotonic() - last_news
            is_left = since is not None and _leaves_records_from_before(report, since)
            if self._must_end(is_left=is_left) or idle_for >= self.settings.times.idle.total_seconds():
                return
            if self._must_show_failure() or self._must_make_room():
                return
            if not report.goes_on:
                if since is not None and not has_told:
                    # A person looks at a shell that prints nothing. Dagster shows a run as one at work.
                    self.tell(
                        f"waiting for more records, until none has come for {show(self.settings.times.idle)} (times.idle); "
                        "Ctrl-C ends it sooner, and what has landed stays"
                    )
                    has_told = True
                self._pause_until(began + report.waited + self.settings.wave.every.total_seconds())
                if self._is_told_to_stop:
                    return
            elif report.rows == 0:
                self.clock.pause(_EMPTY_PAUSE)

    def catch_up(self, keys: tuple[str, ...]) -> dict[str, str]:
        """Read each of these shards to its present tip, or to its end. Returns the shards of which that wasn't
        possible, each with the reason.

        The run goes on as long as records land, however long the backlog is. When no record lands, the run waits
        for `times.linger` while another run is reading the shard, and for a few tries otherwise.
        """
        self.waiting = dict.fromkeys(keys, "its tip wasn't reached")
        try:
            # One moment for the whole run: if it moved on with each wave, the run would never be done with a busy
            # shard.
            since, began = self.clock.now(), self.clock.monotonic()
            self.attempt.ask_for(keys)
            self._began += self.clock.monotonic() - began  # as the wait for Spark in a wave
            return self._until_none_waits(since)
        finally:
            # A row that names a run which is over would keep its shard from other runs until that run counts as dead.
            self.attempt.claims.unwant_all()

    def _until_none_waits(self, since: datetime) -> dict[str, str]:
        vain_tries = 0
        while True:
            report = self._wave(tuple(self.waiting))
            for key in [key for key in self.waiting if self._is_done(key, report, since)]:
                del self.waiting[key]
            if not self.waiting:
                return {}
            self.waiting.update({p.lease_key: p.why for p in report.problems if p.lease_key in self.waiting})
            if report.rows:
                self._began = (
                    self.clock.monotonic()
                )  # records land, so the time of `times.linger` begins again
            # While another run is reading a shard, or this run gets on with one, only `times.linger` limits the
            # waiting.
            busy = {p.lease_key for p in report.problems if p.busy} & self.waiting.keys()
            vain_tries = 0 if busy or report.goes_on else vain_tries + 1
            if self._must_end() or vain_tries >= _TRIES:
                return self.waiting
            for key in sorted(busy):
                self.attempt.claims.want(key)
            self.attempt.claims.ask_holders()
            if not report.goes_on:
                self._pause_until_free(min(busy, default=None))

    def _pause_until_free(self, key: str | None) -> None:
        """Wait for the next try: until no run reads this shard any more, and `_RETRY_PAUSE` at most."""
        until = self.clock.monotonic() + _RETRY_PAUSE
        while self.clock.monotonic() < until:
            self.clock.pause(_RETRY_PAUSE if key is None else _FREE_PAUSE)
            if key is not None and self.attempt.claims.is_free(key):
                return

    def _is_done(self, key: str, report: WaveReport, since: datetime) -> bool:
        # A failed shard is done as well: within this run the attempt leaves it alone, so that
        # waiting for its tip would only end by the linger time.
        if key in self.attempt.failed or any(_is_current(landed, key, since) for landed in report.landed):
            return True
        row = self.attempt.ports.leases.get(key)
        return row is not None and row.has_ended

    def _wave(self, keys: tuple[str, ...] | None) -> WaveReport:
        report = self.attempt.wave(keys)
        self._began += report.waited  # the wait for Spark doesn't count against `times.linger`
        self.on_wave(report)
        self._shape = report.shape or self._shape
        self._waves_since += 1
        # An expiry needs all rows released, so that no shard waits for a slow catalog.
        if not self.attempt.kept.has_claims or self._waves_since >= _WAVES_APART:
            self._expire_what_is_due()
        # Whoever looks at a new table sees the first records within a wave. Later ledgers wait for
        # the end of the run or for an expiry, because each recording is a commit of its own to the
        # lineage table.
        if report.snapshot is not None and not self._has_landed:
            self._has_landed = True
            if self.expiring is not None and self.expiring.has_no_ledger():
                self._record_what_landed()
        return report

    def _expire_what_is_due(self) -> None:
        """With no shard claimed and all that has landed reported."""
        shape, expiring = self._shape, self.expiring
        self._shape, self._waves_since = None, 0
        if shape is None or expiring is None or not expiring.is_due(shape):
            return
        sentence = self.attempt.between_waves(lambda: expiring.step(shape))
        if sentence is not None:
            self.tell(sentence)

    def _record_what_landed(self) -> None:
        """At the end of a run, and after the first landing of all: readers that go by the lineage table find what has
        landed, also before the first expiry."""
        if self.expiring is not None and self._has_landed:
            sentence = self.attempt.between_waves(self.expiring.record)
            if sentence is not None:
                self.tell(sentence)

    def _tell_of(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.tell(f"{partition_of(problem.lease_key)}: {problem.why}")

    def _must_show_failure(self) -> bool:
        """Whether a shard has begun to fail in this run, and it isn't too soon to end the run for it."""
        if self.failing is None or not self.attempt.failed.keys() - self.failing:
            return False
        # Dagster shows a partition as failed only once the run of its newest planned event has
        # failed, so the run ends for it. With many failing shards each of them would make a run,
        # hence the calm minute.
        return not self.failing or self.clock.monotonic() - self._began >= _CALM

    def _must_make_room(self) -> bool:
        """Whether a shard that failed may be tried again by now. Only the next run does that."""
        if self.retry_after is None or not (self.attempt.failed or self.attempt.left_alone):
            return False
        return self.clock.monotonic() - self._began >= max(self.retry_after, _CALM)

    def _must_end(self, *, is_left: bool = False) -> bool:
        """`is_left`: the run isn't done yet, however long it has lasted."""
        if not is_left and self.clock.monotonic() - self._began > self.settings.times.linger.total_seconds():
            return True
        self._is_told_to_stop = self.is_stopping()
        return self._is_told_to_stop

    def _pause_until(self, moment: float) -> None:
        """Wait for the next wave. Meanwhile the run reads its worker's row twice a second: that is one read, however
        many shards the run keeps. The row tells whether the run has to stop, and whether somebody needs one of the kept
        shards."""
        while (seconds := moment - self.clock.monotonic()) > 0 and not self._is_told_to_stop:
            if self.attempt.kept.must_look:
                self._tell_of(self.attempt.look())
            self.clock.pause(min(seconds, _STOP_PAUSE))
            now = self.clock.monotonic()
            with suppress(Transient):  # the end of the next wave asks again
                self._is_told_to_stop = now < moment and self.is_stopping()
            self.attempt.claims.note_progress()


def _leaves_records_from_before(report: WaveReport, since: datetime) -> bool:
    """Whether a shard of this wave may have unread records that arrived before this time, or has ended, so that its
    children are read next."""
    return any(
        landed.staged.upto.ended
        or (landed.staged.error is None and not _is_current(landed, landed.lease_key, since))
        for landed in report.landed
    )


def _is_current(landed: Landed, key: str, since: datetime) -> bool:
    """Whether the shard was read to its tip, or past the records of the time when the run began. A busy shard may never
    be found at its tip."""
    staged = landed.staged
    arrived = staged.last_arrival is not None and staged.last_arrival >= since
    return landed.lease_key == key and staged.error is None and (staged.at_tip or arrived)


@dataclass(frozen=True, slots=True)
class RunEnding:
    """How a run ended."""

    failed: dict[str, str]
    """Lease keys of the shards that the run couldn't read, each with the reason."""
    error: HeadraceError | None = None
    """The error that ended the whole run early; None if there was none."""
    is_untried: bool = False
    """The run ended before it began with any shard, for example because another deployment reads a shard that was asked
    for."""

    @property
    def is_passing(self) -> bool:
        """Whether the run ended early for a reason that passes or that isn't the shards' own, so that it says
        nothing about the shards.
        """
        return self.is_untried or isinstance(self.error, Transient)


@dataclass(slots=True, kw_only=True)
class Reading:
    """Everything that one run reads. Named shards may belong to several workers; the run reads for one after the
    other."""

    open_run: Callable[[str, OnWave, OnStep], AbstractContextManager[Run]]
    """Worker id -> the loop for that worker. A thread beats for its claim until the block of the `with` statement
    ends."""
    readers: Readers
    on_wave: OnWave
    on_step: OnStep
    _failed: dict[str, str] = field(default_factory=dict)
    _unread: set[str] = field(default_factory=set)
    """Named shards for whose worker no loop has begun yet."""
    _claimed: tuple[str, ...] = ()
    """The shards of the wave that is at work, by lease key."""
    _run: Run | None = None

    def everything_due(self, worker_id: str, *, to_the_newest: bool = False) -> RunEnding:
        """Read all that is due of the worker's leases (list mode). `to_the_newest`: see `Run.all_that_is_due`."""

        def read(run: Run) -> None:
            run.all_that_is_due(to_the_newest=to_the_newest)

        return self._ending_of(lambda: self._read_for(worker_id, (), read))

    def shards(self, keys: Iterable[str]) -> RunEnding:
        """Read the shards that a person or a backfill names (partition mode)."""
        keys = tuple(keys)
        self._unread = set(keys)

        def work() -> None:
            for worker_id, own_keys in self.readers.by_worker(keys).items():
                self._read_for(worker_id, own_keys, partial(self._catch_up, own_keys))

        return self._ending_of(work)

    def expected(self) -> tuple[str, ...]:
        """Lease keys of those shards in the present wave that surely have records to read."""
        return self._run.attempt.expected() if self._run is not None else ()

    def _ending_of(self, work: Callable[[], None]) -> RunEnding:
        try:
            work()
        except HeadraceError as error:
            # Every shard that the run was to read and hasn't read: none of their partitions may look done.
            waiting = self._run.waiting if self._run is not None else ()
            self._failed.update(dict.fromkeys((*self._unread, *waiting, *self._claimed), str(error)))
            return RunEnding(self._failed, error, is_untried=self._run is None)
        return RunEnding(self._failed)

    def _catch_up(self, keys: tuple[str, ...], run: Run) -> None:
        self._failed |= run.catch_up(keys)

    def _read_for(self, worker_id: str, keys: tuple[str, ...], read: Callable[[Run], None]) -> None:
        """`keys`: the shards of this worker that were asked for by name."""
        with self.open_run(worker_id, self._note_wave, self._note_step) as run:
            self._run = run
            # Only once the run is open: an error before it leaves these shards among those that
            # nobody tried.
            self._unread -= set(keys)
            try:
                read(run)
            finally:
                self._failed |= run.attempt.failed

    def _note_step(self, step: WaveStep, keys: tuple[str, ...]) -> None:
        if step is WaveStep.CLAIMED:
            self._claimed = keys
        self.on_step(step, keys)

    def _note_wave(self, report: WaveReport) -> None:
        self._claimed = ()  # these shards are done: an error before the next wave's claims doesn't make them fail
        self.on_wave(report)
