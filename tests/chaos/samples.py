"""What `headrace status`, the console and the checks say while things go wrong."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from headrace.pipeline.console.document import MOVING
from tests.chaos.deployment import Deployment
from tests.chaos.truth import Sample, Told

STATUS, CONSOLE, CHECKS = "headrace status --json", "headrace console --once", "the checks"
LAG_LIMIT = 60.0
"""The setting `dagster.checks.lag` of the deployment, in seconds."""
_EVERY = 10.0
_NEVER_FAILS = ("no_gaps", "no_duplicates", "parents_before_children", "hash_keys_covered")
_JUDGED = re.compile(r"checks? (hold|fail)")
_STORED = re.compile(r'<script type="application/json" id="stored">(.*?)</script>', re.DOTALL)


@dataclass
class Sampler:
    deployment: Deployment
    records: dg.AssetKey
    watch: str
    """The name of the sensor that judges the checks."""
    samples: list[Sample] = field(default_factory=list)
    longest_unjudged: float = 0.0
    """Seconds for which the sensor `watch` hadn't judged the checks, at most."""
    unanswered: list[str] = field(default_factory=list)
    """Commands that have failed, and why."""
    _ends: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def sampling(self) -> Iterator[None]:
        thread = threading.Thread(target=self._sample)
        thread.start()
        try:
            yield
        finally:
            self._ends.set()
            thread.join()

    def _sample(self) -> None:
        with dg.DagsterInstance.from_config(str(self.deployment.dagster_home)) as instance:
            while not self._ends.wait(_EVERY):
                for look in (self._status, self._console, lambda: self._checks(instance)):
                    self._take(look)

    def _take(self, look: Callable[[], Sample | None]) -> None:
        try:
            sample = look()
        except Exception as failed:  # noqa: BLE001 - whatever it is, a source that doesn't answer is told at the end
            self.unanswered.append(f"{type(failed).__name__}: {failed}")
            return
        if sample is not None:
            self.samples.append(sample)

    def _status(self) -> Sample:
        began = time.time()
        done = self.deployment.headrace("status", "--json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        alarms = [
            *(f"hash keys without a lease: {uncovered}" for uncovered in document["uncovered"]),
            *(f"a child before its parent: {early}" for early in document["early"]),
        ]
        lags = [shard["lag_seconds"] for shard in document["lags"]]
        return Sample(STATUS, began, time.time(), _most(lags), tuple(alarms))

    def _console(self) -> Sample:
        began = time.time()
        page = self.deployment.folder / "console.html"
        done = self.deployment.headrace("console", "--once", str(page))
        assert done.returncode == 0, done.stderr
        stored = _STORED.search(page.read_text())
        assert stored is not None
        look = json.loads(stored[1])["look"]
        return Sample(CONSOLE, began, time.time(), _most(list(_lags_of(look))))

    def _checks(self, instance: dg.DagsterInstance) -> Sample | None:
        """The newest results. They are true of the moment at which they were judged last: a result that hasn't changed isn't told
        again, and nobody judges while the daemon or the code server is dead."""
        judged_at = _judged_at(instance, self.watch)
        if judged_at is None:
            return None
        keys = [dg.AssetCheckKey(self.records, name) for name in (*_NEVER_FAILS, "lag")]
        newest = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
        # A planned evaluation, as of a backfill, is none yet.
        results = {
            key.name: record.evaluation
            for key, record in newest.items()
            if isinstance(record.evaluation, dg.AssetCheckEvaluation)
        }
        if "lag" not in results:
            return None
        alarms = [
            f"{name}: {results[name].description}"
            for name in _NEVER_FAILS
            if name in results and not results[name].passed
        ]
        told = Told.AT_MOST if results["lag"].passed else Told.AT_LEAST
        # A check that holds says nothing of shards that nobody has read yet, and says that it doesn't.
        is_known = not results["lag"].passed or "isn't known" not in (results["lag"].description or "")
        self.longest_unjudged = max(self.longest_unjudged, time.time() - judged_at[1])
        return Sample(CHECKS, *judged_at, LAG_LIMIT if is_known else None, tuple(alarms), told)


def _judged_at(instance: dg.DagsterInstance, watch: str) -> tuple[float, float] | None:
    """The begin and the end of the newest tick that has judged the checks. A later one may have been cut off."""
    states = [state for state in instance.all_instigator_state() if state.instigator_name == watch]
    ticks = [
        tick
        for state in states
        for tick in instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=20)
        if tick.end_timestamp is not None and _JUDGED.search(tick.skip_reason or "")
    ]
    newest = max(ticks, key=lambda tick: tick.timestamp, default=None)
    return None if newest is None else (newest.timestamp, newest.end_timestamp or newest.timestamp)


def _lags_of(look: Mapping[str, Any]) -> Iterator[float | None]:
    lag, since = (1 + MOVING.index(name) for name in ("lag", "since"))
    for row in look["moving"]:
        if look["states"][row[1]]["code"] in {"ended", "before", "waiting", "no-lease"}:
            continue
        yield row[lag] if row[since] is None else look["at"] / 1000 - row[since] / 1000


def _most(lags: Sequence[float | None]) -> float | None:
    known = [lag for lag in lags if lag is not None]
    return max(known, default=0.0) if len(known) == len(lags) else None
