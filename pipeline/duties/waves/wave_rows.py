"""Chooses which of a worker's rows a wave takes. Each row that it takes costs a claim and a release; the others
cost nothing.

due    by what the row says: never read, behind, left by a dead run, not looked at for a long time (core.due)
warm   the worker's sensor named the shard, or the last wave that took the shard found records or didn't finish it.
       Where the stage keeps something for the shard (such as a process) that it would have to start anew, the shard
       stays warm for a while
news   a probe found a record. Shards are probed as often as `times.probe` says, if need be a wave earlier
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import ceil
from zlib import crc32

from headrace.pipeline.core.leases.due import DuePlan
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.duties.streams.due_rows import DueRows, Streams
from headrace.pipeline.duties.waves.report import Landed
from headrace.pipeline.errors import Transient
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.settings.model import Settings

PROBES_A_WAVE = 1_000
"""Shards. Probing so many takes a wave a second or two."""
_AT_ONCE = 100
"""Shards. After so many the wave looks whether its time for probing is over: due rows wait until the probes have
ended."""


@dataclass(slots=True, kw_only=True)
class WaveRows:
    due: DueRows
    claim: str
    """The claim of the run. It decides where the run's first round of probes begins."""
    clock: Clock
    settings: Settings
    warm: frozenset[str] = frozenset()
    """Lease keys of warm shards."""
    _had_records: dict[str, float] = field(default_factory=dict)
    """When a wave has last found records of a shard, or hasn't finished it. By lease key."""
    _round_ended: float | None = None
    """When the last round of probes over all shards that are neither due nor warm ended, by the monotonic clock."""
    _probed_up_to: str | None = None
    """The lease key up to which an unfinished round has probed."""

    def choose(self, rows: Iterable[Lease], streams: Streams, living: frozenset[str]) -> list[Lease]:
        rows = tuple(rows)
        plan = self.due.plan(rows, streams, living, now=self.clock.now())
        keys = {due.lease_key for due in plan.due}
        # A shard that had records a moment ago most likely has some again: reading it costs no more than a probe of it.
        keys |= {row.key for row in plan.idle if row.key in self.warm}
        cold = tuple(row for row in plan.idle if row.key not in self.warm)
        keys |= self._with_news(replace(plan, idle=cold), streams)
        return [row for row in rows if row.key in keys]

    def remember(self, taken: Iterable[Lease], landed: Iterable[Landed], *, stays: float) -> None:
        """Note after a wave which shards are warm. `stays`: for how many seconds after its last record a shard
        stays warm.
        """
        now, keys = self.clock.monotonic(), {row.key for row in taken}
        quiet = {landing.lease_key for landing in landed if landing.is_quiet}
        self._had_records |= dict.fromkeys(keys - quiet, now)
        had_lately = {key for key, since in self._had_records.items() if now - since < stays}
        self.warm = (self.warm | keys) - (quiet - had_lately)

    def _with_news(self, plan: DuePlan, streams: Streams) -> set[str]:
        now = self.clock.monotonic()
        next_wave = now + self.settings.wave.every.total_seconds()
        if (
            self._probed_up_to is None
            and self._round_ended is not None
            and next_wave < self._round_ended + self.settings.times.probe.total_seconds()
        ):
            return set()  # the next wave is early enough for the next round
        if self._round_ended is None and self._probed_up_to is None:
            # Short runs make one wave each. If all began with the first shard, they would never come to the last ones.
            # crc32 is the same in every process, unlike Python's hash of a text (I31).
            first = PROBES_A_WAVE * (
                crc32(self.claim.encode()) % ceil(max(len(plan.idle), 1) / PROBES_A_WAVE)
            )
            self._probed_up_to = plan.idle[first - 1].key if first else None
        with_news: set[str] = set()
        # Half of the time between two waves: the due rows are claimed only once the probes have ended.
        enough = now + self.settings.wave.every.total_seconds() / 2
        for _ in range(0, PROBES_A_WAVE, _AT_ONCE):
            try:
                due, self._probed_up_to = self.due.probe(
                    plan, streams, self._probed_up_to, at_most=min(_AT_ONCE, PROBES_A_WAVE)
                )
            except Transient:  # the wave still reads the shards that are due; the next wave probes again
                break
            with_news |= {news.lease_key for news in due}
            # The round counts from the beginning of this wave's probing, so that the next round is
            # rather a wave too early than one too late.
            if self._probed_up_to is None:
                self._round_ended = now
            if self._probed_up_to is None or self.clock.monotonic() >= enough:
                break
        return with_news
