"""Headrace's worker in fleets with KCL's default failover time of 10 s: its ticks are slow, and `headrace beat` beats
between them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.eventually import eventually
from tests.interop.commands import adopt_live, empty_lake, settings_beside
from tests.interop.meanwhile import meanwhile
from tests.interop.overlaps import Cause
from tests.interop.scene import A_BATCH, A_WAVE, APP, REBALANCE, START, Scene, Stage, scene

_FAILOVER = 10.0
_PACE = 15.0
"""Seconds between two ticks: longer than the failover time."""
_STEADY = 120.0
"""Seconds, in which KCL's workers look six times for leases that stand still."""


def beside_3_5(stage: Stage) -> int:
    """KCL 3.5.1 leads. Headrace's worker keeps what it was assigned; then it is killed, and its beats end."""
    with scene("default 3.5.1", 4, stage, failover=_FAILOVER) as play:
        lake = empty_lake(play)
        with play.traffic.flowing():
            play.fleet.start("k1", "3.5.1")
            eventually(lambda: APP in play.rows.tables(), "KCL made its table", within=START)
            with beating(play, settings_beside(play, lake, beat="process")):
                play.fleet.start_ours("h1", lake.home, beat="process", pace=_PACE)
                play.await_readers(START + REBALANCE, "k1", "h1")
                stay_steady(play, _PACE)
                play.traffic.split(play.shards_of("h1")[0])
                play.await_reshard()
                play.await_readers(REBALANCE, "k1", "h1")
                play.kill("h1", "k1")
        play.finish(lake, both={Cause.OURS_CUT_OFF: A_WAVE})
        return play.fails


def beside_2_7(stage: Stage) -> int:
    """Mode 2.x beside KCL 2.7.2: Headrace's worker keeps what it took; then it is killed, and its beats end."""
    with scene("default 2.7.2", 4, stage, failover=_FAILOVER) as play:
        lake = empty_lake(play)
        with play.traffic.flowing():
            play.fleet.start("k1", "2.7.2")
            play.await_readers(START, "k1")
            adopt_live(play, lake, mode="2.x", beat="process")
            with beating(play, settings_beside(play, lake, beat="process", mode="2.x")):
                play.fleet.start_ours("h1", lake.home, layout="M", mode="2.x", beat="process", pace=_PACE)
                play.await_readers(REBALANCE, "h1", "k1")
                stay_steady(play, _PACE)
                play.kill("h1", "k1")
        play.finish(lake, both={Cause.KCL_CUT_OFF: A_BATCH, Cause.OURS_CUT_OFF: 2 * A_WAVE})
        return play.fails


@contextmanager
def beating(play: Scene, config: Path) -> Iterator[None]:
    """Run `headrace beat` for h1, a process that outlives the worker."""
    command = [sys.executable, "-m", "headrace.pipeline.cli", "beat", "--config", str(config)]
    with (play.fleet.folder / f"{APP}.beat.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env=play.fleet.environment, start_new_session=True
        )
        try:
            yield
            play.check(process.poll() is None, "`headrace beat` ran all the time")
        finally:
            process.kill()
            process.wait()


@dataclass(slots=True)
class Counters:
    """How long the leases of a worker have stood still, as a reader of the table sees it."""

    play: Scene
    worker: str
    longest: float = 0.0
    lost: set[str] = field(default_factory=set)
    _seen: dict[str, tuple[str, float]] = field(default_factory=dict)

    def look(self) -> None:
        now = time.monotonic()
        rows = {row["leaseKey"]["S"]: row for row in self.play.rows.tables()[APP] if "checkpoint" in row}
        for key, row in rows.items():
            if row.get("leaseOwner", {}).get("S") != self.worker:
                if self._seen.pop(key, None) is not None:
                    self.lost.add(key)
                continue
            counter, since = self._seen.get(key, ("", now))
            self.longest = max(self.longest, now - since)
            if counter != row["leaseCounter"]["N"]:
                self._seen[key] = (row["leaseCounter"]["N"], now)


def stay_steady(play: Scene, pace: float) -> None:
    """`pace`: seconds between two ticks of h1. For two minutes nobody takes a lease of h1, and no lease stands still for as long as the failover time."""
    counters = Counters(play, "h1")
    before = play.rows.open_leases_of("h1")
    with meanwhile(counters.look, "the watch on the counters", every=0.25):
        play.never(lambda: sorted(counters.lost), "no lease of h1 goes away", seconds=_STEADY)
    play.check(
        bool(before) and set(before) <= set(play.rows.open_leases_of("h1")), f"h1 keeps {len(before)} leases"
    )
    play.check(
        counters.longest < play.fleet.failover_seconds,
        f"a lease of h1 stood still for {counters.longest:.1f} s at most, while its ticks came every {pace:.0f} s",
    )


DEFAULT_FAILOVER: dict[str, Callable[[Stage], int]] = {
    "default-3.5.1": beside_3_5,
    "default-2.7.2": beside_2_7,
}
