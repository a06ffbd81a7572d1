"""What fleets of real KCL workers are put through. Each prints what happened and returns whether all of it holds."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.local.endpoint import local_aws
from tests.interop.eventually import eventually
from tests.interop.fleet import Fleet
from tests.interop.landed import landed
from tests.interop.rows import Rows
from tests.interop.traffic import Traffic
from tests.interop.verdict import hand_overs, judge, readers, take_overs

STREAM = "orders"
APP = "orders-app"
_START = 180.0  # KCL 3 takes a minute and more to read its first record
_REBALANCE = 240.0
_TAKE_OVER = 330.0  # of a dead leader's leases: its lock first, then the leases
_CATCH_UP = 90.0


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

        took = eventually(all_read, seconds, f"every shard is read, by {', '.join(workers)}")
        self.say(f"every shard is read, by {', '.join(workers)}, after {took:.0f} s")

    def a_shard_of(self, worker: str) -> str:
        return next(shard for shard, its in readers(self.fleet.events()).items() if its == worker)

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
            _TAKE_OVER,
            f"{name}'s shards were taken over",
        )
        took = sorted(take_overs(self.fleet.events(), name, at).values())
        self.say(f"{name} killed: {len(took)} shards read by {', '.join(heirs)} after {_seconds(took)}")

    def keep_rows(self, kcl: str) -> None:
        if self.stage.keep_rows:
            self.say(f"rows kept in {self.rows.save(kcl)}")

    def finish(self, ours: Callable[[], list[str]] = list) -> None:
        """The traffic is over: wait until all of it has come out, and judge."""

        def verdict_holds() -> bool:
            return judge(self.traffic.put, self.fleet.events(), ours()).holds

        try:
            eventually(verdict_holds, _CATCH_UP, "every record came out")
        except TimeoutError as late:
            self.say(str(late))
        verdict = judge(self.traffic.put, self.fleet.events(), ours())
        self.check(verdict.holds, str(verdict))
        asked = hand_overs(self.fleet.events())
        if asked:
            self.say(
                f"{len(asked)} hand-overs between KCL workers, each {_seconds([took for *_, took in asked])}"
            )


@contextmanager
def scene(name: str, shards: int, stage: Stage, *, failover: float = 20.0) -> Iterator[Scene]:
    """Set a scene up, and leave no process behind."""
    place = stage.folder / name
    with local_aws() as aws, Fleet(APP, STREAM, aws.endpoint, place, failover) as fleet:
        for old in place.glob(f"{APP}.*"):
            old.unlink()
        traffic = Traffic(aws.client("kinesis"), STREAM)
        traffic.create(shards)
        with Rows(aws.client("dynamodb"), APP) as rows:
            yield Scene(name, fleet, traffic, rows, stage)


def kcl_3_5_alone(stage: Stage) -> int:
    """3.5.1: two workers, a split, a merge, the leader killed."""
    with scene("3.5.1 alone", 4, stage) as play:
        with play.traffic:
            play.fleet.start("k1", "3.5.1")
            play.await_readers(_START, "k1")
            play.fleet.start("k2", "3.5.1")
            play.await_readers(_REBALANCE, "k1", "k2")
            play.traffic.split("shardId-000000000000")
            play.await_reshard()
            play.traffic.merge(*play.traffic.open_shards()[-2:])
            play.await_reshard()
            play.await_readers(_REBALANCE)
            play.kill("k1", "k2")
        play.finish()
        play.check(set(play.rows.tables()) == {APP}, "one table")
        play.say(f"rows kept in {play.rows.save('3.5.1').name}")
        return play.fails


def kcl_3_4_stopped(stage: Stage) -> int:
    """3.4.2: three tables, left by an application that was stopped in the midst of it."""
    with scene("3.4.2 stopped", 4, stage) as play:
        with play.traffic:
            play.fleet.start("k1", "3.4.2")
            play.fleet.start("k2", "3.4.2")
            play.await_readers(_START + _REBALANCE, "k1", "k2")
            play.traffic.split("shardId-000000000000")
            play.await_reshard()
            play.await_readers(_REBALANCE)
        play.finish()
        for worker in play.fleet.workers.values():
            worker.stop()
        tables = play.rows.tables()
        wanted = {APP, f"{APP}-CoordinatorState", f"{APP}-WorkerMetricStats"}
        play.check(set(tables) == wanted, "three tables")
        owned = sum("leaseOwner" in row for row in tables[APP])
        play.check(
            owned > 0,
            f"{owned} of {len(tables[APP])} leases still name an owner: KCL keeps them when it stops",
        )
        play.say(f"rows kept in {play.rows.save('3.4.2').name}")
        return play.fails


def kcl_2_7_alone(stage: Stage) -> int:
    """2.7.2: lease rows only; one of two workers killed."""
    with scene("2.7.2 alone", 4, stage) as play:
        with play.traffic:
            play.fleet.start("k1", "2.7.2")
            play.fleet.start("k2", "2.7.2")
            play.await_readers(_START, "k1", "k2")
            play.traffic.split("shardId-000000000000")
            play.await_reshard()
            play.traffic.merge(*play.traffic.open_shards()[-2:])
            play.await_reshard()
            play.await_readers(_REBALANCE)
            play.kill("k1", "k2")
        play.finish()
        tables = play.rows.tables()
        play.check(set(tables) == {APP}, "one table")
        play.check(all("checkpoint" in row for row in tables[APP]), "nothing but leases in it")
        play.say(f"rows kept in {play.rows.save('2.7.2').name}")
        return play.fails


def joined(stage: Stage) -> int:
    """One of ours beside KCL 3.5.1 in one application: KCL leads, ours is handed leases, gives them up, ends a shard, dies."""
    with scene("joined", 4, stage) as play:
        home = play.fleet.folder / "lake"
        shutil.rmtree(home, ignore_errors=True)
        with play.traffic:
            play.fleet.start("k1", "3.5.1")
            eventually(lambda: APP in play.rows.tables(), _START, "KCL made its table")
            play.fleet.start_ours("h1", home)
            play.await_readers(_START + _REBALANCE, "k1", "h1")
            play.fleet.start("k2", "3.5.1")
            play.await_readers(_REBALANCE, "k1", "k2", "h1")
            play.traffic.split(play.a_shard_of("h1"))
            play.await_reshard()
            play.await_readers(_REBALANCE, "h1")
            play.kill("h1", "k1, k2")
        play.finish(lambda: landed(home))
        play.check(set(play.rows.tables()) == {APP}, "one table")
        return play.fails


SCENARIOS: dict[str, Callable[[Stage], int]] = {
    "3.5.1": kcl_3_5_alone,
    "3.4.2": kcl_3_4_stopped,
    "2.7.2": kcl_2_7_alone,
    "joined": joined,
}


def _seconds(took: list[float]) -> str:
    return ", ".join(f"{t:.1f}" for t in sorted(took)) + " s" if took else "no time"
