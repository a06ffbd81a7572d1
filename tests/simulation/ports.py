"""The ports of one process: each call takes time, gives others a turn, and meets the weather."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipeline.core.batch import Batch, Limits, Manifest
from pipeline.core.change import Applied, Change, Refused
from pipeline.core.election import LockRow
from pipeline.core.lease import Lease
from pipeline.core.position import Start
from pipeline.core.shard import Shard
from pipeline.core.stream import ShardKey, StreamId
from pipeline.core.worker import Worker
from pipeline.core.landing import Proposal
from pipeline.errors import TablesMissing
from pipeline.ports import Committed, Listing, StagingSpec, StreamFacts, TableState
from tests.simulation.scheduler import Killed, Process

if TYPE_CHECKING:
    from tests.simulation.world import World

Script = Callable[[Process, str, tuple[Any, ...]], None]


class Door:
    """The way out of a process."""

    __slots__ = ("process", "random", "weather", "world")

    def __init__(self, world: World, process: Process) -> None:
        self.world = world
        self.process = process
        self.weather = world.weather
        self.random: Callable[[], float] = world.rng.random

    def read(self, service: str, what: str, do: Callable[..., Any], *args: Any) -> Any:
        process, world = self.process, self.world
        if not process.alive:
            raise Killed
        world.sim.pause(0.001 + 0.015 * self.random())
        if world.script is not None:
            world.script(process, what, args)
        if not self.weather.storm:
            return do(*args)
        return self.weather.read(process, service, what, lambda: do(*args))

    def write(self, service: str, what: str, do: Callable[..., Any], *args: Any) -> Any:
        process, world = self.process, self.world
        if not process.alive:
            raise Killed
        world.sim.pause(0.002 + 0.02 * self.random())
        if world.script is not None:
            world.script(process, what, args)
        if not self.weather.storm:
            return do(*args)
        return self.weather.write(process, service, what, lambda: do(*args))


class Tables:
    def __init__(self, door: Door) -> None:
        self._door = door

    def ensure(self) -> bool:
        return self._door.read("dynamo", "tables.ensure", self._door.world.ensure_tables)


class Leases:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._server = door.world.leases

    def get(self, key: str) -> Lease | None:
        return self._door.read("dynamo", "leases.get", self._server.get, key)

    def get_many(self, keys: Sequence[str]) -> Listing:
        return self._door.read("dynamo", "leases.get_many", self._server.get_many, keys)

    def get_many(self, keys: Sequence[str]) -> Listing:
        return self._door.read("dynamo", "leases.get_many", self._server.get_many, keys)

    def scan(self) -> Listing:
        found = self._door.read("dynamo", "leases.scan", self._server.scan)
        self._door.process.scans = found
        return found

    def held_by(self, worker_id: str) -> Listing:
        found = self._door.read("dynamo", "leases.held_by", self._server.held_by, worker_id)
        self._door.process.scans = found
        return found

    def apply(self, change: Change) -> Applied | Refused:
        return self._door.write("dynamo", "leases.apply", self._server.apply, change, self._door.process)


class Workers:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._server = door.world.workers

    def list(self) -> tuple[Worker, ...]:
        found = self._door.read("dynamo", "workers.list", self._there, self._server.list)
        self._door.process.looked_at_workers = self._door.world.sim.now
        return found

    def get(self, worker_id: str) -> Worker | None:
        return self._door.read("dynamo", "workers.get", self._there, self._server.get, worker_id)

    def beat(self, worker_id: str, instance: str, *, found: str | None) -> Worker | None:
        def do() -> Worker | None:
            return self._there(lambda: self._server.beat(worker_id, instance, found=found))

        return self._door.write("dynamo", "workers.beat", do)

    def beat_run(self, worker_id: str, run_claim: str) -> None:
        self._door.write("dynamo", "workers.beat_run", self._there, self._server.beat_run, worker_id, run_claim)

    def forget_runs(self, worker_id: str, claims: Iterable[str]) -> None:
        gone = tuple(claims)
        self._door.write("dynamo", "workers.forget_runs", self._there, self._server.forget_runs, worker_id, gone)

    def set_stopping(self, worker_id: str, *, stopping: bool) -> None:
        self._door.write("dynamo", "workers.set_stopping", lambda: self._server.set_stopping(worker_id, stopping=stopping))

    def count_assign_pass(self, worker_id: str) -> None:
        self._door.write("dynamo", "workers.count_assign_pass", self._there, self._server.count_assign_pass, worker_id)

    def _there(self, do: Callable[..., Any], *args: Any) -> Any:
        if self._door.world.tables_missing:
            raise TablesMissing("the worker table isn't there")
        return do(*args)


class Lock:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._server = door.world.lock

    def read(self) -> LockRow | None:
        return self._door.read("dynamo", "lock.read", self._server.read)

    def take(self, mine: LockRow, *, seen: LockRow | None) -> bool:
        taken = self._door.write("dynamo", "lock.take", lambda: self._server.take(mine, seen=seen))
        if taken:
            self._door.world.note(self._door.process.name, f"leads now as {mine.owner}")
        return taken

    def beat(self, mine: LockRow, version: str) -> bool:
        return self._door.write("dynamo", "lock.beat", self._server.beat, mine, version)

    def release(self, mine: LockRow) -> bool:
        return self._door.write("dynamo", "lock.release", self._server.release, mine)


class Source:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._server = door.world.source

    def aws_now(self) -> Any:
        return self._server.aws_now()

    def describe(self, name: str) -> StreamFacts:
        return self._door.read("kinesis", "source.describe", self._server.describe, name)

    def find_streams(self, prefix: str | None, tags: Mapping[str, str]) -> tuple[StreamId, ...]:
        return self._door.read("kinesis", "source.find_streams", self._server.find_streams, prefix, tags)

    def list_shards(self, stream: StreamId, since: Start | None = None) -> tuple[Shard, ...]:
        found = self._door.read("kinesis", "source.list_shards", self._server.list_shards, stream, since)
        return self._door.world.as_listed(found)

    def is_gone(self, key: ShardKey) -> bool:
        return self._door.read("kinesis", "source.is_gone", self._server.is_gone, key)

    def has_news(self, keys: Mapping[ShardKey, Start | int]) -> frozenset[ShardKey]:
        for key in keys:
            self._door.world.count_read(key)
        return self._door.read("kinesis", "source.has_news", self._server.has_news, keys)


class Table:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._server = door.world.table

    def ensure(self) -> None:
        """It always is there."""

    def load(self) -> TableState:
        return self._door.read("lake", "table.load", self._server.load)

    def staging_spec(self) -> StagingSpec:
        return self._server.staging_spec()

    def commit(self, proposal: Proposal) -> Committed:
        world, process = self._door.world, self._door.process
        if not process.alive:
            raise Killed
        world.sim.pause(0.005 + 0.05 * world.rng.random())
        if world.script is not None:
            world.script(process, "table.commit", (proposal,))
        if world.weather.strikes(world.weather.mix.frozen * 3):
            world.weather.freeze(process, "table.commit", lambda: None)
        done = self._server.commit(proposal)
        world.sim.pause(0.005)
        world.refused_rows += sum(r.range.rows for r in done.landing.refused)
        return done


class Stage:
    """Reading takes its time, now and then far too much of it; the stream may be made anew meanwhile."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: Limits) -> Manifest:
        door, world = self._door, self._door.world
        if not door.process.alive:
            raise Killed
        world.sim.pause(0.1 + world.rng.random())
        if world.script is not None:
            world.script(door.process, "stage.read", (batches,))
        if world.weather.strikes(world.weather.mix.hung):
            seconds = world.rng.choice((30.0, 130.0, 400.0))
            world.weather.told(door.process, "stage", f"hangs for {seconds:.0f} s")
            world.sim.pause(seconds)
        for batch in batches:
            world.count_read(batch.key)
        made = world.stage.stage(batches, spec, limits)
        world.sim.pause(0.05 + 0.3 * world.rng.random())
        if world.script is not None:
            world.script(door.process, "stage.staged", (made,))
        return made
