"""What goes wrong, and what a person does meanwhile: drawn by a seed, one thing after the other."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import dagster as dg

from tests.chaos.deployment import Deployment, Part
from tests.chaos.graphql import DagsterUi
from tests.dagster.partition_status import partition_statuses

_EVERY = (4.0, 14.0)
"""Seconds from one trouble to the next: so short that some come while the fleet recovers from the one before."""
_DOWN = 75.0
"""Seconds for which the daemon stays dead once: longer than a worker's row counts as fresh."""
_RECENT = timedelta(minutes=2)


@dataclass
class Troubles:
    deployment: Deployment
    ui: DagsterUi
    records: dg.AssetKey
    partitions: str
    application: str
    """As names of jobs begin with it."""
    dice: random.Random
    has_outage: bool
    done: Counter[str] = field(default_factory=Counter)
    story: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """What a person asked for while a process of Dagster's was dead."""

    def go_on_for(self, seconds: float) -> None:
        until, pause = time.monotonic() + seconds, threading.Event()
        outage_at = time.monotonic() + seconds / 2 if self.has_outage else None
        for name, trouble in self._drawn():
            if time.monotonic() > until:
                return
            if outage_at is not None and time.monotonic() > outage_at:
                outage_at = None
                self._tell("the daemon is down for a while")
                self.deployment.hold_down(Part.DAEMON)
                pause.wait(_DOWN)
                self.deployment.let_go()
            try:
                happened = trouble()
            except (OSError, AssertionError) as error:
                # The webserver, or what it asks, is dead: a person sees that, too.
                self.refused.append(f"{name}: {error}"[:300])
                self._tell(f"{name}: not now: {error}"[:200])
            else:
                if happened:
                    self.done[name] += 1
                self._tell(name if happened else f"{name}: there was none")
            pause.wait(self.dice.uniform(*_EVERY))

    def _drawn(self) -> Iterator[tuple[str, Callable[[], bool]]]:
        """Each trouble comes up as often as the others: they come in rounds, each shuffled."""
        while True:
            names = {
                **{f"kill {part}": self._killing(part) for part in Part},
                "backfill failed shards": self._backfill,
                "replay": self._replay,
                "cancel a run": self._cancel,
                "reload the code": self._reload,
            }
            order = list(names.items())
            self.dice.shuffle(order)
            yield from order

    def _killing(self, part: Part) -> Callable[[], bool]:
        return lambda: self.deployment.kill(part, which=self.dice.randrange(100))

    def _backfill(self) -> bool:
        with dg.DagsterInstance.from_config(str(self.deployment.dagster_home)) as instance:
            statuses = partition_statuses(
                instance, dg.DynamicPartitionsDefinition(name=self.partitions), self.records
            )
        failed = statuses.get("FAILED") or [
            self.dice.choice([key for keys in statuses.values() for key in keys])
        ]
        self.ui.backfill(self.records.path, failed)
        return True

    def _replay(self) -> bool:
        now = datetime.now(UTC)
        times = {"from": f"{now - _RECENT:%Y-%m-%dT%H:%M:%S}", "to": f"{now - _RECENT / 2:%Y-%m-%dT%H:%M:%S}"}
        self.ui.launch(
            f"{self.application}_replay", {"ops": {f"replay_{self.application}": {"config": times}}}
        )
        return True

    def _cancel(self) -> bool:
        runs = self.ui.runs_at_work()
        return bool(runs) and self.ui.cancel(self.dice.choice(runs)) == "TerminateRunSuccess"

    def _reload(self) -> bool:
        return self.ui.reload() == "WorkspaceLocationEntry"

    def _tell(self, sentence: str) -> None:
        line = f"{datetime.now(UTC):%H:%M:%S} {sentence}"
        self.story.append(line)
        print(line, flush=True)
