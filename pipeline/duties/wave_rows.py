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
    _probed: float | None = None
    """When all cold shards had been probed."""
    _after: str | None = None
    """The last shard of a round of probes that isn't finished."""

    def choose(self, rows: Iterable[Lease], streams: Streams, living: frozenset[str]) -> list[Lease]:
        rows = tuple(rows)
        plan = self.due.plan(rows, streams, living, now=self.clock.now())
        wanted = {due.lease_key for due in plan.due}
        wanted |= {row.key for row in plan.idle if row.key in self.warm}
        cold = tuple(row for row in plan.idle if row.key not in self.warm)
        wanted |= self._news(replace(plan, idle=cold), streams)
        return [row for row in rows if row.key in wanted]

    def remember(self, taken: Iterable[Lease], landed: Iterable[Landed]) -> None:
        quiet = {each.lease_key for each in landed if each.is_quiet}
        self.warm = (self.warm | {row.key for row in taken}) - quiet

    def _news(self, plan: DuePlan, streams: Streams) -> set[str]:
        now = self.clock.monotonic()
        next_wave = now + self.settings.wave.every.total_seconds()
        if (
            self._after is None
            and self._probed is not None
            and next_wave < self._probed + self.settings.times.probe.total_seconds()
        ):
            return set()
        if self._probed is None and self._after is None:
            first = PROBES_A_WAVE * (
                crc32(self.claim.encode()) % ceil(max(len(plan.idle), 1) / PROBES_A_WAVE)
            )
            self._after = plan.idle[first - 1].key if first else None
        found: set[str] = set()
        enough = now + self.settings.wave.every.total_seconds() / 2
        for _ in range(0, PROBES_A_WAVE, _AT_ONCE):
            try:
                due, self._after = self.due.probe(
                    plan, streams, self._after, at_most=min(_AT_ONCE, PROBES_A_WAVE)
                )
            except Transient:  # what is due anyway is read all the same, and the next wave probes again
                break
            found |= {each.lease_key for each in due}
            if self._after is None:
                self._probed = now
            if self._after is None or self.clock.monotonic() >= enough:
                break
        return found
