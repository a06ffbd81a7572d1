"""The scene of a scenario: a stream with traffic, an application on it, and what is waited for, done and noted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.local.endpoint import local_aws
from tests.eventually import eventually
from tests.interop.fleet import Event, Fleet
from tests.interop.rows import Rows
from tests.interop.traffic import Traffic
from tests.interop.verdict import Verdict, hand_overs, judge, readers, take_overs

STREAM = "orders"
APP = "orders-app"
START = 180.0  # KCL 3 takes a minute and more to read its first record
REBALANCE = 240.0
_TAKE_OVER = 330.0  # of a dead leader's leases: its lock first, then the leases
_CATCH_UP = 90.0
_LOOK = 0.5


class CommandFailed(Exception):
    """A `headrace` command ended badly: what it said."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where scenarios leave their logs, and whether they renew the rows that are kept in rows/."""

    folder: Path
    keep_rows: bool = False


@dataclass(slots=True)
class Scene:
    """A stream with traffic, an application on it, and what is noted of both."""

    name: str
    fleet: Fleet
    traffic: Traffic
    rows: Rows
    stage: Stage
    fails: int = 0

    def say(self, text: str) -> None:
        print(f"{self.name}: {text}", flush=True)

    def check(self, holds: bool, what: str) -> None:  # noqa: FBT001
        self.fails += not holds
        self.say(f"{'ok' if holds else 'FAILED'}: {what}")

    def await_readers(self, seconds: float, *workers: str) -> None:
        """Wait until every open shard is read, and each of these workers reads one."""

        def all_read() -> bool:
            now = readers(self.fleet.events())
            return set(workers) <= set(now.values()) and set(self.traffic.open_shards()) <= set(now)

        what = f"every shard is read{', also by ' * bool(workers)}{', '.join(workers)}"
        began = time.monotonic()
        eventually(all_read, what, within=seconds, every=_LOOK)
        self.say(f"{what}, after {time.monotonic() - began:.0f} s")

    def shards_of(self, worker: str) -> list[str]:
        """The open shards that a worker reads, by name."""
        now = readers(self.fleet.events())
        return sorted(shard for shard in self.traffic.open_shards() if now.get(shard) == worker)

    def seen(self) -> list[Event]:
        """Records that KCL's workers were given so far."""
        return [event for event in self.fleet.events() if event.kind == "record"]

    def verdict(self, ours: Sequence[str] = ()) -> Verdict:
        return judge(self.traffic.put, self.fleet.events(), ours)

    def await_reshard(self) -> None:
        """Wait until the stream is itself again: one reshard at a time."""
        kinesis = self.traffic.kinesis
        kinesis.get_waiter("stream_exists").wait(StreamName=STREAM, WaiterConfig={"Delay": 1})

    def kill(self, name: str, *heirs: str) -> None:
        at = time.time()
        left = [shard for shard, worker in readers(self.fleet.events()).items() if worker == name]
        self.fleet.workers[name].kill()
        eventually(
            lambda: set(left) <= take_overs(self.fleet.events(), name, at).keys(),
            f"{name}'s shards were taken over",
            within=_TAKE_OVER,
            every=_LOOK,
        )
        took = sorted(take_overs(self.fleet.events(), name, at).values())
        self.say(f"{name} killed: {len(took)} shards read by {', '.join(heirs)} after {_seconds(took)}")

    def keep_rows(self, kcl: str) -> None:
        if self.stage.keep_rows:
            self.say(f"rows kept in {self.rows.save(kcl)}")

    def finish(self, ours: Callable[[], list[str]] = list) -> None:
        """The traffic is over: wait until all of it has come out, and judge."""

        try:
            eventually(
                lambda: self.verdict(ours()).holds, "every record came out", within=_CATCH_UP, every=_LOOK
            )
        except TimeoutError as late:
            self.say(str(late))
        verdict = self.verdict(ours())
        self.check(verdict.holds, str(verdict))
        for shard, before, after, took in hand_overs(self.fleet.events()):
            self.say(f"{shard} handed over by {before} to {after} in {took:.1f} s")


@contextmanager
def scene(name: str, shards: int, stage: Stage, *, failover: float = 20.0) -> Iterator[Scene]:
    """Set a scene up, and leave no process behind."""
    place = stage.folder / name
    with local_aws() as aws, Fleet(APP, STREAM, aws.endpoint, place, failover) as fleet:
        for old in place.glob(f"{APP}.*"):
            old.unlink()
        traffic = Traffic(aws.client("kinesis"), STREAM)
        traffic.create(shards)
        rows = Rows(aws.client("dynamodb"), APP)
        with rows.watched():
            yield Scene(name, fleet, traffic, rows, stage)


def _seconds(took: list[float]) -> str:
    return ", ".join(f"{t:.1f}" for t in sorted(took)) + " s" if took else "no time"
