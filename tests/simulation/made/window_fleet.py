"""People who make windows beside the fleet, and the runs that replace or copy their rows, read them from the stream, let a processor work on them,
or take their aggregates apart: by one run or by two at once, killed, cancelled and resumed, with the code of the day."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from headrace.pipeline.core.ledger.arrivals import Window as Arrivals
from headrace.pipeline.core.ledger.ledger import LedgerEntry, Range
from headrace.pipeline.errors import HeadraceError, Transient, Unknown, WrongShape
from headrace.pipeline.typed.check_wave import SET_ELSEWHERE
from headrace.pipeline.windows.backfill import HoursOfPartition
from headrace.pipeline.windows.make import Asked, Numbers, OfRun, OfSnapshot
from headrace.pipeline.windows.window import ReplayWindow, Word
from headrace.pipeline.windows.windows import WindowRequest
from tests.memory.windows import MemoryWindows
from tests.simulation.made.processor_fleet import Processor, ProcessorJob
from tests.simulation.made.typed_job import Job
from tests.simulation.watch.backfill_watch import judge_complete
from tests.simulation.watch.copy_watch import CopyWatch
from tests.simulation.watch.window_processor_watch import WindowProcessorWatch

if TYPE_CHECKING:
    from tests.simulation.made.typed_fleet import Target, TypedFleet

_AGAIN = 30.0
"""Seconds between two runs of a window that isn't done."""
_CANCELLED = 0.2
"""The share of the windows that are cancelled while they are worked on, and resumed later."""
_BY_PEOPLE = (
    "was rolled back",
    "its ledgers state",
    "knows nothing of the stream",
    "twice in this window",
    "because a person has moved the position of the shard back",
    "outside of the window",
    "doesn't have all of their records any more",
)
"""What a window is refused for after a person has rolled the lake table back, or has repaired it."""
_NOT_YET = "parse these records first"
_LIFE_IS_OVER = "can't be read on from the stream"
_GONE_FROM_STREAM = "make a new window, which tells what is out of reach"


class What(StrEnum):
    """What a window is made for, and what became of one that is done."""

    REPLACE = "replaced"
    COPY = "copied"
    READ = "read"
    PROCESS = "window_processed"
    UNPACK = "unpacked"


@dataclass
class _Made:
    """A window, and what became of it so far."""

    window: ReplayWindow
    target: Target | Processor
    what: What
    is_done: bool = False
    given_up: str = ""
    accepts_difference: bool = False
    """Whether a person says so with the next run."""


def _job_of(what: What) -> Callable[..., Job]:
    return ProcessorJob if what is What.PROCESS else Job


class WindowFleet:
    def __init__(self, fleet: TypedFleet) -> None:
        self.store = MemoryWindows()
        self._fleet = fleet
        self._world = fleet.world
        self._names = count(1)
        self._made: dict[str, _Made] = {}
        self._copies: dict[str, CopyWatch] = {}
        self._processed: dict[str, WindowProcessorWatch] = {}

    def a_name(self) -> str:
        return f"{next(self._names):08x}"

    def window(self, window: str) -> ReplayWindow:
        return self._made[window].window

    def copy_of(self, window: str) -> CopyWatch:
        if window not in self._copies:
            self._copies[window] = CopyWatch(self._fleet, self.window(window))
        return self._copies[window]

    def processed_of(self, window: ReplayWindow, processor: Processor) -> WindowProcessorWatch:
        if window.id not in self._processed:
            self._processed[window.id] = WindowProcessorWatch(self._fleet, window, processor.code)
        return self._processed[window.id]

    # -- what happens --------------------------------------------------------------------------------------------

    def start(self, target: Target) -> None:
        plan = self._fleet.plan
        self._fleet.now_and_then(plan.windows, partial(self._make, target, What.REPLACE))
        self._fleet.now_and_then(plan.copies, partial(self._copy, target))
        if target is self._fleet.targets[0]:
            self._fleet.now_and_then(plan.reads, partial(self._make, target, What.READ))
            self._fleet.now_and_then(plan.unpacks, partial(self._unpack, target))

    def start_for(self, processor: Processor) -> None:
        self._fleet.now_and_then(self._fleet.plan.processed, partial(self._make, processor, What.PROCESS))

    def _unpack(self, target: Target) -> None:
        if self._world.table.staging_spec().unpack:
            self._make(target, What.UNPACK)

    def end_faults(self) -> None:
        """Windows that were cancelled are resumed, so that all are done in the end."""
        for window in self._made:
            self.store.say(window, Word.RESUMED, by="a person")

    def _copy(self, target: Target) -> None:
        if self._fleet.rng.random() < 0.5:
            self._make(target, What.COPY)
        else:
            self._backfill(target)

    def _backfill(self, target: Target) -> None:
        """A run of a backfill, whose partitions are shorter than hours. The last ones may not be over yet."""
        rng, now = self._fleet.rng, self._world.clock.now()
        length = timedelta(seconds=rng.uniform(20.0, 120.0))
        first = now - length * rng.uniform(2.0, 6.0)
        spans = [
            HoursOfPartition(
                f"part {number}", f"{number}", first + length * number, first + length * (number + 1)
            )
            for number in range(4)
        ]

        def work(job: Job) -> Iterator[object]:
            try:
                chosen = job.wiring.windows.backfilling("a person").choose(spans, target=None, ports=None)
            except Unknown as error:
                yield f"backfill: {error}"
                return
            self._fleet.faults.happened["backfilled"] += 1
            judge_complete(self._world, chosen.done)
            if chosen.window is not None and chosen.window.id not in self._made:
                self._made[chosen.window.id] = _Made(chosen.window, target, What.COPY)
                self._begin(self._made[chosen.window.id])
            yield f"backfill: {chosen.sentence}"

        self._fleet.run("backfill", target, work, may_refuse=self._is_by_people)

    def _make(self, target: Target | Processor, what: What) -> None:
        def work(job: Job) -> Iterator[object]:
            asked = self._asked(target)
            if asked is None:
                return
            named = target.settings
            made = job.wiring.windows.windowing("a person").create(
                WindowRequest(
                    asked,
                    how=f"{asked}",
                    stream=named.stream if what is What.REPLACE else None,
                    target=named.name if what is What.REPLACE else "",
                    processor=named.name if what is What.PROCESS else "",
                    unpack=what is What.UNPACK,
                    from_stream=what is What.READ,
                )
            )
            self._made[made.id] = _Made(made, target, what)
            self._begin(self._made[made.id])
            yield f"window {made.id} of {made.how}: {made.cost()}"

        self._fleet.run("window", target, work, may_refuse=self._is_by_people, job_of=_job_of(what))

    def _asked(self, target: Target | Processor) -> Asked | None:
        """What a person asks for who looks at the ledgers: some range, and what landed at the same time, by the same run, or near it."""
        rng = self._fleet.rng
        try:
            entries = [each for each in self._world.lineage.entries() if isinstance(each, LedgerEntry)]
        except HeadraceError:
            return None
        found = [
            (entry.snapshot, each)
            for entry in entries
            for each in entry.page.ranges
            if each.rows and target.takes(each.key)
        ]
        if not found:
            return None
        snapshot, each = rng.choice(found)
        return rng.choice(
            (
                OfSnapshot(snapshot),
                OfRun(each.run),
                self._numbers(each),
                self._numbers(each),
                self._arrivals(each),
            )
        )

    def _numbers(self, each: Range) -> Numbers:
        """Some records of the shard, which mostly cut ranges of the ledgers."""
        rng, shard = self._fleet.rng, self._world.truth.shards[each.key]
        some = [number - shard.subs.get(number, 0) for number in shard.sequences]
        first, last = sorted((rng.choice(some), rng.choice(some)))
        return Numbers(
            each.key.shard_id, rng.choice((None, first, first, first)), rng.choice((None, last, last, last))
        )

    def _arrivals(self, each: Range) -> Arrivals:
        rng, first = self._fleet.rng, each.first_arrival
        if first is None:
            return Arrivals()
        since = first - timedelta(seconds=rng.uniform(0.0, 60.0))
        return rng.choice(
            (Arrivals(since, first + timedelta(seconds=rng.uniform(0.0, 60.0))), Arrivals(since))
        )

    def _begin(self, made: _Made) -> None:
        rng, sim = self._fleet.rng, self._world.sim
        for _ in range(rng.choice((1, 1, 2))):
            sim.after(rng.uniform(0.0, 4.0), partial(self._work_on, made))
        sim.after(_AGAIN, partial(self._work_again, made))
        if rng.random() < _CANCELLED:
            at = rng.uniform(1.0, 20.0)
            sim.after(at, partial(self._say, made, Word.CANCELLED))
            sim.after(at + rng.uniform(5.0, 60.0), partial(self._say, made, Word.RESUMED))

    def _say(self, made: _Made, word: Word) -> None:
        if not self._fleet.is_over:
            self.store.say(made.window.id, word, by="a person")
            self._fleet.faults.happened[f"window_{word}"] += 1
            self._world.note("a person", f"window {made.window.id} is {word}")

    def _work_again(self, made: _Made) -> None:
        if not (made.is_done or made.given_up):
            self._work_on(made)
            self._world.sim.after(self._wait(), partial(self._work_again, made))

    def _wait(self) -> float:
        """Seconds until the next run of a window. Of windows that overlap and are always worked on at the same time, one would be done in each
        round, so that runs come at uneven times once all of them have to be done."""
        wait = self._fleet.paced(_AGAIN)
        return wait * (0.5 + self._fleet.rng.random()) if self._fleet.is_over else wait

    def _work_on(self, made: _Made) -> None:
        window, target = made.window, made.target
        if isinstance(target, Processor):
            # With the code of this moment, and the window's table in the place of the processor's.
            target = replace(target, watch=self.processed_of(window, target), accepts_difference=False)

        def work(job: Job) -> Iterator[object]:
            accepts, made.accepts_difference = made.accepts_difference, False
            duty = job.wiring.windows.redoing(window, job.process.name, accepts_difference=accepts)
            duty = replace(duty, on_step=job.on_step)
            try:
                for wave in duty.waves():
                    if wave.is_last:
                        self._end(made, wave.notes, self._fleet.looks.get(job.process))
                    yield f"window {window.id}: {wave}"
            except (WrongShape, Transient) as error:
                if self._is_by_people(error) or self._has_left(made, error):
                    made.given_up = str(error)
                self._fleet.faults.happened["second_refused"] += "no row is lost or doubled" in str(error)
                made.accepts_difference = SET_ELSEWHERE in str(error)
                raise
            except Unknown as error:
                # Cancelled, or made for a table into which nothing was parsed yet.
                yield f"window {window.id}: {error}"

        def may_refuse(error: WrongShape) -> bool:
            is_denied = _LIFE_IS_OVER in str(error) and self._world.call_faults.happened["denied"]
            is_not_yet = _NOT_YET in str(error) or bool(is_denied)
            return is_not_yet or self._is_by_people(error) or self._has_left(made, error)

        self._fleet.run("redo", target, work, may_refuse=may_refuse, job_of=_job_of(made.what))

    def _end(self, made: _Made, notes: tuple[str, ...], looked: int | None) -> None:
        made.is_done = True
        self._fleet.faults.happened[made.what] += 1
        if made.what is What.UNPACK:
            self._fleet.unpackings.judge_done(made.window, notes, looked)

    def _has_left(self, made: _Made, error: HeadraceError) -> bool:
        """Whether records of the window can't be read from the stream any more: their stream's life is over, or Kinesis has forgotten the shard."""
        reads = [each.key for each in made.window.ranges if each.stretches]
        if any(not self._world.truth.lives(key.stream) for key in reads) and _LIFE_IS_OVER in str(error):
            return True
        return any(map(self._world.is_unlisted, reads)) and _GONE_FROM_STREAM in str(error)

    def _is_by_people(self, error: HeadraceError) -> bool:
        happened = self._world.call_faults.happened
        is_changed = happened["rolled_back"] or happened["expired"] or happened["repaired"]
        return bool(is_changed) and any(why in str(error) for why in _BY_PEOPLE)

    # -- the end -------------------------------------------------------------------------------------------------

    def unsettled(self) -> Iterator[tuple[str, str]]:
        for made in self._made.values():
            if not (made.is_done or made.given_up):
                yield made.target.settings.name, f"the window {made.window.id} isn't done"

    def require_done(self) -> None:
        for made in self._made.values():
            if made.is_done and made.what is What.REPLACE:
                made.target.watch.replacements.require_replaced(made.window)
            elif made.is_done and made.what is What.PROCESS:
                self._processed[made.window.id].require_processed()
            elif made.is_done and made.what is not What.UNPACK:
                self.copy_of(made.window.id).require_copied()
