"""A run: wave after wave, until nothing is left to read or the run's time is up; and what became of its shards.

    Run       the loop: everything that is due, or named shards up to their tip
    Reading   all that one run reads, for one worker after the other; which shards the run has to call failed

Dagster's asset, `headrace consume` and the simulator all come through `Reading`. Nothing in here knows Dagster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime

from pipeline.duties.attempt import Attempt
from pipeline.duties.readers import Readers
from pipeline.duties.wave import Arrow, Landed, OnArrow, WaveReport
from pipeline.errors import HeadraceError, Transient
from pipeline.ports import Clock
from pipeline.settings.model import Settings

OnWave = Callable[[WaveReport], None]

_EMPTY_PAUSE = 1.0
"""Seconds between two waves of which the first brought nothing though the shard isn't at its tip."""
_RETRY_PAUSE = 2.0
"""Seconds between two tries for a shard that another run is reading."""
_TRIES = 10
"""For shards that no run is reading and that this run can't claim: the leader gave them to another worker, or their
parents have to be read first. While this run waits its worker starts no other run, and such a run may be the one that
reads the parents."""


@dataclass(slots=True, kw_only=True)
class Run:
    attempt: Attempt
    settings: Settings
    clock: Clock
    on_wave: OnWave
    is_stopping: Callable[[], bool]
    """Whether a person told this run's worker to stop."""
    waiting: dict[str, str] = field(default_factory=dict)
    """Shards asked for by name that aren't at their tip yet, each with the reason."""
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock.monotonic()

    def all_that_is_due(self) -> None:
        """Every wave plans anew: it takes up children and new leases, and drops leases that were given away."""
        news = self._began
        while True:
            began = self.clock.monotonic()
            report = self._wave(None)
            if report.rows or report.goes_on:
                news = self.clock.monotonic()
            if self._must_end() or self.clock.monotonic() - news >= self.settings.times.idle.total_seconds():
                return
            if not report.goes_on:
                self._pause_until(began + self.settings.wave.every.total_seconds())
            elif report.rows == 0:
                self.clock.pause(_EMPTY_PAUSE)

    def catch_up(self, keys: tuple[str, ...]) -> dict[str, str]:
        """Read each of these shards to its tip as of now, or to its end. The shards that couldn't be, each with the reason.

        As long as records land the run goes on, however long the backlog. Without any it waits for the linger time
        where another run is reading, and for a few tries where none is.
        """
        self.waiting = dict.fromkeys(keys, "its tip wasn't reached")
        try:
            return self._until_none_waits()
        finally:
            self.attempt.claims.unwant_all()

    def _until_none_waits(self) -> dict[str, str]:
        # Once for the whole run: a moment that moved with each wave would have the run follow a busy shard for ever.
        since = self.clock.now()
        vain_tries = 0
        while True:
            report = self._wave(tuple(self.waiting))
            for key in [key for key in self.waiting if self._is_done(key, report, since)]:
                del self.waiting[key]
            if not self.waiting:
                return {}
            self.waiting.update({p.lease_key: p.why for p in report.problems if p.lease_key in self.waiting})
            if report.rows:
                self._began = self.clock.monotonic()
            busy = {p.lease_key for p in report.problems if p.busy} & self.waiting.keys()
            vain_tries = 0 if busy or report.goes_on else vain_tries + 1
            if self._must_end() or vain_tries >= _TRIES:
                return self.waiting
            for key in sorted(busy):
                self.attempt.claims.want(key)
            if not report.goes_on:
                self.clock.pause(_RETRY_PAUSE)

    def _is_done(self, key: str, report: WaveReport, since: datetime) -> bool:
        if key in self.attempt.failed or any(_is_current(each, key, since) for each in report.landed):
            return True
        row = self.attempt.ports.leases.get(key)
        return row is not None and row.has_ended

    def _wave(self, keys: tuple[str, ...] | None) -> WaveReport:
        report = self.attempt.wave(keys)
        self.on_wave(report)
        return report

    def _must_end(self) -> bool:
        lingered = self.clock.monotonic() - self._began > self.settings.times.linger.total_seconds()
        return lingered or self.is_stopping()

    def _pause_until(self, moment: float) -> None:
        left = moment - self.clock.monotonic()
        if left > 0:
            self.clock.pause(left)


def _is_current(landed: Landed, key: str, since: datetime) -> bool:
    """At the tip, or past what was the tip when the run began: a busy shard may never stand at its tip."""
    staged = landed.staged
    arrived = staged.last_arrival is not None and staged.last_arrival >= since
    return landed.lease_key == key and staged.error is None and (staged.at_tip or arrived)


@dataclass(frozen=True, slots=True)
class RunEnding:
    """How a run ended."""

    failed: dict[str, str]
    """Lease keys of the shards that the run couldn't read, each with the reason."""
    error: HeadraceError | None = None
    """Why the run broke off as a whole; None where it came to its end."""

    @property
    def is_passing(self) -> bool:
        """The run broke off over trouble that passes: the shards in it may be healthy."""
        return isinstance(self.error, Transient)


@dataclass(slots=True, kw_only=True)
class Reading:
    """All that one run reads. A run that is asked for shards by name may read for several workers, one after the other."""

    open_run: Callable[[str, OnWave, OnArrow], AbstractContextManager[Run]]
    """By worker id: a run of that worker, with its beat beside it until the block ends."""
    readers: Readers
    on_wave: OnWave
    on_arrow: OnArrow
    _failed: dict[str, str] = field(default_factory=dict)
    _unread: set[str] = field(default_factory=set)
    """Asked for by name, and no worker has begun to read them."""
    _claimed: tuple[str, ...] = ()
    """Shards of the wave that is at work."""
    _run: Run | None = None

    def everything_due(self, worker_id: str) -> RunEnding:
        return self._ending_of(lambda: self._read_for(worker_id, None))

    def shards(self, keys: Iterable[str]) -> RunEnding:
        keys = tuple(keys)
        self._unread = set(keys)

        def work() -> None:
            for worker_id, its in self.readers.by_worker(keys).items():
                self._read_for(worker_id, its)

        return self._ending_of(work)

    def expected(self) -> tuple[str, ...]:
        """Shards of the wave at work that surely have something to read."""
        return self._run.attempt.expected() if self._run is not None else ()

    def _ending_of(self, work: Callable[[], None]) -> RunEnding:
        try:
            work()
        except HeadraceError as error:
            waiting = self._run.waiting if self._run is not None else ()
            self._failed.update(dict.fromkeys((*self._unread, *waiting, *self._claimed), str(error)))
            return RunEnding(self._failed, error)
        return RunEnding(self._failed)

    def _read_for(self, worker_id: str, keys: tuple[str, ...] | None) -> None:
        with self.open_run(worker_id, self._note_wave, self._note_arrow) as run:
            self._run = run
            self._unread -= set(keys or ())
            try:
                if keys is None:
                    run.all_that_is_due()
                else:
                    self._failed |= run.catch_up(keys)
            finally:
                self._failed |= run.attempt.failed

    def _note_arrow(self, arrow: Arrow, keys: tuple[str, ...]) -> None:
        if arrow is Arrow.CLAIMED:
            self._claimed = keys
        self.on_arrow(arrow, keys)

    def _note_wave(self, report: WaveReport) -> None:
        self._claimed = ()  # an error before the next wave's claims is no failure of these shards
        self.on_wave(report)
