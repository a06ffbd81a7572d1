"""Which of a worker's rows a wave takes. The others cost it no write.

due by the row   never read, behind, left by a dead run, not looked at for long (core.due)
warm             the worker's sensor named it, or the last wave that took it didn't find it quiet
news             a probe found something: as often as `times.probe` says, rather a wave too early than one too late
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil
from zlib import crc32

from pipeline.core.due import DuePlan
from pipeline.core.lease import Lease
from pipeline.duties.due_rows import DueRows, Streams
from pipeline.duties.wave import Landed
from pipeline.errors import Transient
from pipeline.ports import Clock
from pipeline.settings.model import Settings

PROBES_A_WAVE = 1_000
"""Shards. A second or two of a wave; a wave that read them all would ask each as well."""
_AT_ONCE = 100
"""Between so many it is asked whether the probe takes too long: where Kinesis throttles, due rows wait for it."""


@dataclass(slots=True, kw_only=True)
class WaveRows:
    due: DueRows
    claim: str
    """Of the run: where its probes begin, so that short runs don't all probe the same shards."""
    clock: Clock
    settings: Settings
    warm: frozenset[str] = frozenset()
    """Lease keys."""
    _round_ended: float | None = None
    """When all cold shards had been probed."""
    _probed_up_to: str | None = None
    """The last shard of a round of probes that isn't finished."""

    def choose(self, rows: Iterable[Lease], streams: Streams, living: frozenset[str]) -> list[Lease]:
        rows = tuple(rows)
        plan = self.due.plan(rows, streams, living, now=self.clock.now())
        wanted = {due.lease_key for due in plan.due}
        wanted |= {row.key for row in plan.idle if row.key in self.warm}
        cold = tuple(row for row in plan.idle if row.key not in self.warm)
        wanted |= self._with_news(replace(plan, idle=cold), streams)
        return [row for row in rows if row.key in wanted]

    def remember(self, taken: Iterable[Lease], landed: Iterable[Landed]) -> None:
        quiet = {each.lease_key for each in landed if each.is_quiet}
        self.warm = (self.warm | {row.key for row in taken}) - quiet

    def _with_news(self, plan: DuePlan, streams: Streams) -> set[str]:
        now = self.clock.monotonic()
        next_wave = now + self.settings.wave.every.total_seconds()
        if (
            self._probed_up_to is None
            and self._round_ended is not None
            and next_wave < self._round_ended + self.settings.times.probe.total_seconds()
        ):
            return set()
        if self._round_ended is None and self._probed_up_to is None:
            first = PROBES_A_WAVE * (
                crc32(self.claim.encode()) % ceil(max(len(plan.idle), 1) / PROBES_A_WAVE)
            )
            self._probed_up_to = plan.idle[first - 1].key if first else None
        found: set[str] = set()
        enough = now + self.settings.wave.every.total_seconds() / 2
        for _ in range(0, PROBES_A_WAVE, _AT_ONCE):
            try:
                due, self._probed_up_to = self.due.probe(
                    plan, streams, self._probed_up_to, at_most=min(_AT_ONCE, PROBES_A_WAVE)
                )
            except Transient:  # what is due anyway is read all the same, and the next wave probes again
                break
            found |= {each.lease_key for each in due}
            if self._probed_up_to is None:
                self._round_ended = now
            if self._probed_up_to is None or self.clock.monotonic() >= enough:
                break
        return found
