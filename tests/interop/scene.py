"""What a scenario consists of: a stream with traffic, an application on it, and the steps and checks of the
scenario."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.pipeline.local.endpoint import LocalAws, local_aws
from tests.eventually import eventually
from tests.interop.fleet import Event, Fleet
from tests.interop.landed import Lake
from tests.interop.overlaps import Allowed, explain
from tests.interop.rows import Rows
from tests.interop.traffic import Traffic
from tests.interop.verdict import Verdict, hand_overs, judge, read_again, readers

STREAM = "orders"
APP = "orders-app"
START = 180.0  # KCL 3 takes a minute or more until it reads its first record
REBALANCE = 240.0
_TAKE_OVER = 330.0  # for a dead leader's leases: its lock expires first, then the leases
_CATCH_UP = 90.0
_LOOK = 0.5
A_BATCH = 100  # records that arrive in 5 s: more than one batch of each shard that a KCL worker reads
A_WAVE = 200  # records that arrive in 10 s, which is `wave.seconds` of Headrace


class CommandFailed(Exception):
    """A `headrace` command failed. The message is what it printed."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where scenarios leave their logs, and whether they renew the fixtures in rows/."""

    folder: Path
    keep_rows: bool = False


@dataclass(slots=True)
class Scene:
    """A stream with traffic, an application on it, and the checks of both."""

    name: str
    aws: LocalAws
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
        """Wait until every open shard is read, and each of these workers reads at least one."""

        def all_read() -> bool:
            now = readers(self.fleet.events())
            return set(workers) <= set(now.values()) and set(self.traffic.open_shards()) <= set(now)

        what = f"every shard is read{', also by ' * bool(workers)}{', '.join(workers)}"
        began = time.monotonic()
        eventually(all_read, what, within=seconds, every=_LOOK)
        self.say(f"{what}, after {time.monotonic() - began:.0f} s")

    def shards_of(self, worker: str) -> list[str]:
        """The ids of the open shards that a worker reads."""
        now = readers(self.fleet.events())
        return sorted(shard for shard in self.traffic.open_shards() if now.get(shard) == worker)

    def seen(self) -> list[Event]:
        """The records that KCL's workers have been given so far."""
        return [event for event in self.fleet.events() if event.kind == "record"]

    def verdict(self, lake: Lake | None = None) -> Verdict:
        return judge(set(self.traffic.put.values()), self.fleet.events(), lake.records() if lake else ())

    def split_and_merge(self) -> None:
        """Split the first shard, merge the last two, and wait until all that came of it are read."""
        self.traffic.split("shardId-000000000000")
        self.await_reshard()
        self.traffic.merge(*self.traffic.open_shards()[-2:])
        self.await_reshard()
        self.await_readers(REBALANCE)

    def check_only_leases(self) -> None:
        rows = self.rows.tables()[APP]
        self.check(all("checkpoint" in row for row in rows), "nothing but leases in KCL's table")

    def await_reshard(self) -> None:
        """Wait until the stream is ACTIVE again, because Kinesis allows one reshard at a time."""
        kinesis = self.traffic.kinesis
        kinesis.get_waiter("stream_exists").wait(StreamName=STREAM, WaiterConfig={"Delay": 1})

    def kill(self, name: str, *heirs: str) -> None:
        """Kill a worker, and wait until other workers have read a record of each of its shards."""
        at = time.time()
        left = [shard for shard, worker in readers(self.fleet.events()).items() if worker == name]
        self.fleet.workers[name].kill()
        eventually(
            lambda: set(left) <= read_again(self.fleet.events(), name, at).keys(),
            f"{name}'s shards are read again",
            within=_TAKE_OVER,
            every=_LOOK,
        )
        took = sorted(read_again(self.fleet.events(), name, at).values())
        result = f"{len(took)} shards, the first record read by {', '.join(heirs)} after {_seconds(took)}"
        self.say(f"{name} killed: {result}")

    def keep_rows(self, kcl: str) -> None:
        if self.stage.keep_rows:
            self.say(f"rows kept in {self.rows.save(kcl)}")

    def never(self, wrong: Callable[[], object], what: str, *, seconds: float) -> None:
        """Look for so many seconds. The check fails at the first look that finds something."""
        over = time.monotonic() + seconds
        found = wrong()
        while not found and time.monotonic() < over:
            time.sleep(_LOOK)
            found = wrong()
        self.check(not found, f"{what}, for {seconds:.0f} s{f': {found}' if found else ''}")

    def finish(self, lake: Lake | None = None, *, both: Allowed | None = None) -> None:
        """After the end of the traffic, wait until every record has come out, and judge. `both`: how many records
        may be in both outputs."""
        try:
            eventually(
                lambda: self.verdict(lake).holds, "every record came out", within=_CATCH_UP, every=_LOOK
            )
        except TimeoutError as late:
            self.say(str(late))
        verdict, events = self.verdict(lake), self.fleet.events()
        self.check(verdict.holds, str(verdict))
        overlaps = explain(verdict.both, events, lake.commits() if lake else ())
        faults = overlaps.faults(both or {})
        self.check(not faults, f"records in both outputs: {'; '.join(faults) or overlaps}")
        for shard, before, after, took in hand_overs(events):
            self.say(f"{shard} handed over by {before} to {after}, the first record read after {took:.1f} s")


@contextmanager
def scene(
    name: str, shards: int, stage: Stage, *, failover: float = 20.0, options: Sequence[str] = ()
) -> Iterator[Scene]:
    """Set up a scenario, and leave no process running at its end. `options`: those of the stand-in."""
    place = stage.folder / name
    with local_aws(*options) as aws, Fleet(APP, STREAM, aws.endpoint, place, failover) as fleet:
        for old in place.glob(f"{APP}.*"):
            old.unlink()
        traffic = Traffic(aws.client("kinesis"), STREAM)
        traffic.create(shards)
        rows = Rows(aws.client("dynamodb"), APP)
        with rows.watched():
            yield Scene(name, aws, fleet, traffic, rows, stage)


def _seconds(took: list[float]) -> str:
    return ", ".join(f"{t:.1f}" for t in sorted(took)) + " s" if took else "no time"
