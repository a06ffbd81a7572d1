"""Applications for the console's tests, its bench and its pictures: fleets of any size, as values.

A scene has a stream that was split again and again and once merged, with sequence numbers of Kinesis's form, and workers
that read it. `later` lets time pass as living workers do; a test changes what it wants to see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from headrace.pipeline.console.document import Documents
from headrace.pipeline.console.ports import Lake, LookedAtTables, Peeked
from headrace.pipeline.console.server import Console
from headrace.pipeline.console.values import Behind, StreamSeen
from headrace.pipeline.console.watch import ConsoleWatch
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.shards.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, NumberRange, Shard
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.inspect.layout import LayoutFacts, OtherRows
from headrace.pipeline.inspect.observation import TablesRead
from headrace.pipeline.local.kinesis.sequence import END_ORDINAL, number_at, sequence_base
from headrace.pipeline.ports.usage import ProcessUsage
from tests.memory.clock import MemoryClock

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
RETENTION = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class SceneShard:
    index: int
    hashes: HashRange
    born: datetime
    closed: datetime | None = None
    parents: tuple[int, ...] = ()

    @property
    def shard_id(self) -> str:
        return f"shardId-{self.index:012d}"

    def number(self, ordinal: int, at: datetime) -> int:
        return number_at(sequence_base(int(self.born.timestamp()), self.index), ordinal, int(at.timestamp()))

    def listed(self) -> Shard:
        last = None if self.closed is None else self.number(END_ORDINAL, self.closed)
        return Shard(
            self.shard_id,
            tuple(f"shardId-{parent:012d}" for parent in self.parents),
            self.hashes,
            closed=self.closed is not None,
            numbers=NumberRange(self.number(0, self.born), last),
        )


PLACE = "eu-west-1 at https://dynamodb.eu-west-1.amazonaws.com"


@dataclass(slots=True)
class Scene:
    """What a console sees: the tables, the streams and Kinesis's lags."""

    shards: list[SceneShard]
    tables: TablesRead
    clock: MemoryClock
    stream: StreamSeen
    unread: dict[str, datetime | None] = field(default_factory=dict)
    """Lease key -> arrival of the oldest unread record, which grows older while nobody reads it; None: there is none."""
    fails: HeadraceError | None = None
    """Raised by each read of the tables."""
    trouble: str | None = None
    """Why Kinesis couldn't be asked for lags."""
    used_by_look: ProcessUsage = field(
        default_factory=lambda: ProcessUsage(
            {"dynamodb:Scan": 3, "kinesis:ListShards": 1, "kinesis:GetRecords": 1}, read_units=2.0
        )
    )
    provisioned: int = 0

    # -- the ports -------------------------------------------------------------------------------------------------

    def read(self) -> TablesRead:
        if self.fails is not None:
            raise self.fails
        return replace(self.tables, read_at=self.clock.now())

    def spending(self) -> Callable[[], ProcessUsage]:
        return lambda: self.used_by_look

    def of(self, leases: Sequence[Lease]) -> tuple[StreamSeen, ...]:
        return (self.stream,)

    def peek(self, leases: Sequence[Lease], streams: Sequence[StreamSeen], now: datetime) -> Peeked:
        return Peeked({key: Behind(since, now) for key, since in self.unread.items()}, self.trouble)

    # -- changes ---------------------------------------------------------------------------------------------------

    def lease(self, key: str) -> Lease:
        return next(lease for lease in self.tables.leases if lease.key == key)

    def change(self, key: str, **fields: object) -> None:
        self.tables = replace(
            self.tables,
            leases=tuple(
                replace(lease, **fields) if lease.key == key else lease  # type: ignore[arg-type]
                for lease in self.tables.leases
            ),
        )

    def later(self, seconds: float, *, without: Sequence[str] = (), lock: bool = True) -> None:
        """Time passes, and workers renew their leases, but for those named in `without`."""
        self.clock.advance(timedelta(seconds=seconds))
        at = self.clock.now()
        leases = tuple(
            replace(lease, counter=lease.counter + 1)
            if lease.holder and lease.holder not in without and not lease.has_ended
            else lease
            for lease in self.tables.leases
        )
        workers = tuple(
            row if row.worker_id in without else replace(row, last_update=at) for row in self.tables.workers
        )
        held = self.tables.lock
        if held is not None and lock:
            held = replace(held, version=f"{held.version}'")
        self.tables = replace(self.tables, leases=leases, workers=workers, lock=held)

    def console(
        self, *, peeking: bool = True, lake: Lake | None = None, dagster: str | None = None
    ) -> Console:
        watch = ConsoleWatch(
            tables=LookedAtTables(PLACE, self.read, lambda: self.provisioned),
            streams=self.of,
            clock=self.clock,
            spending=self.spending,
            peek=self.peek if peeking else None,
            cpu=lambda: 0.0,
        )
        return Console.of(watch, Documents("orders-app", dagster, lake is not None), lake)


def a_scene(open_shards: int = 4, workers: int = 2, *, now: datetime = NOW) -> Scene:
    """A stream of so many open shards, which began with a single one and was split in rounds; two shards merged lately."""
    shards = _family(open_shards, now)
    closed_by = {parent for shard in shards for parent in shard.parents}
    names = [f"east-{number}" for number in range(1, workers + 1)]
    leases: list[Lease] = []
    unread: dict[str, datetime | None] = {}
    reader = 0
    for shard in shards:
        has_ended = shard.index in closed_by
        owner = None if has_ended else names[reader % len(names)]
        reader += not has_ended
        lag = timedelta(seconds=(shard.index * 7919) % 40)
        checkpoint = SHARD_END if has_ended else Checkpoint(str(shard.number(5_000, now - lag)))
        leases.append(
            Lease(
                shard.shard_id,
                7,
                checkpoint,
                owner=owner or names[shard.index % len(names)],
                parents=frozenset(f"shardId-{parent:012d}" for parent in shard.parents),
                hash_range=shard.hashes,
                throughput_kbps=None if has_ended else 40.0 + (shard.index * 37) % 500,
            )
        )
        if not has_ended:
            unread[shard.shard_id] = now - lag if shard.index % 3 else None
    lock = LockRow(names[0], "v", timedelta(seconds=120))
    tables = TablesRead(
        read_at=now,
        tables=LayoutFacts(
            lease_table="orders-app",
            state_table="orders-app-CoordinatorState",
            beside_leases=OtherRows(lock=lock, workers=len(names)),
            typed_leases=True,
        ),
        leases=tuple(leases),
        workers=tuple(Worker(name, now, instance="here") for name in names),
        lock=lock,
    )
    listed = tuple(shard.listed() for shard in shards)
    stream = StreamSeen(
        "",
        "orders",
        shards=listed,
        asked_about=frozenset(lease.key for lease in leases),
        retention=RETENTION,
        created=shards[0].born,
    )
    return Scene(shards, tables, MemoryClock(now), stream, unread)


def _family(open_shards: int, now: datetime) -> list[SceneShard]:
    """Splits until there are so many open shards. A merge of the last two, and a split of the result, are part of it."""
    shards = [SceneShard(0, HashRange(0, MAX_HASH_KEY), now - timedelta(days=3))]
    is_open = [0]
    ages = [
        timedelta(days=1),
        timedelta(hours=9),
        timedelta(hours=3),
        timedelta(minutes=50),
        timedelta(minutes=12),
    ]
    step = 0
    while len(is_open) < open_shards:
        at = now - ages[min(step, len(ages) - 1)]
        room = open_shards - len(is_open)
        for index in is_open[:room]:
            is_open.remove(index)
            is_open += _split(shards, index, at)
        step += 1
    if open_shards > 2:
        last, before = sorted(is_open, key=lambda index: shards[index].hashes.start)[-1:-3:-1]
        merged = _merge(shards, before, last, now - timedelta(minutes=6))
        _split(shards, merged, now - timedelta(minutes=3))
    return shards


def _split(shards: list[SceneShard], index: int, at: datetime) -> list[int]:
    parent = shards[index]
    # Splits within one round are seconds apart, and after their parents' births.
    born = max(at, parent.born + timedelta(seconds=20))
    shards[index] = replace(parent, closed=born)
    middle = (parent.hashes.start + parent.hashes.end) // 2
    for hashes in (HashRange(parent.hashes.start, middle), HashRange(middle + 1, parent.hashes.end)):
        shards.append(SceneShard(len(shards), hashes, born, parents=(index,)))
    return [len(shards) - 2, len(shards) - 1]


def _merge(shards: list[SceneShard], left: int, right: int, at: datetime) -> int:
    born = max(at, shards[left].born + timedelta(seconds=20), shards[right].born + timedelta(seconds=20))
    hashes = HashRange(
        min(shards[left].hashes.start, shards[right].hashes.start),
        max(shards[left].hashes.end, shards[right].hashes.end),
    )
    for index in (left, right):
        shards[index] = replace(shards[index], closed=born)
    shards.append(SceneShard(len(shards), hashes, born, parents=(left, right)))
    return len(shards) - 1


def an_unread(scene: Scene, key: str, hours: float) -> None:
    """Plant: the checkpoint of this shard stays at a record that is so many hours old."""
    now = scene.clock.now()
    shard = next(shard for shard in scene.shards if shard.shard_id == key)
    at = now - timedelta(hours=hours)
    scene.change(key, checkpoint=Checkpoint(str(shard.number(9, at))))
    scene.unread[key] = at


def an_orphan(scene: Scene) -> str:
    """Plant: a lease that isn't at its end, of a shard that Kinesis doesn't list."""
    shard = SceneShard(9_999, HashRange(0, 9), NOW - timedelta(days=9))
    lease = Lease(
        shard.shard_id,
        3,
        Checkpoint(str(shard.number(4, shard.born))),
        owner=scene.tables.workers[0].worker_id,
        hash_range=shard.hashes,
    )
    scene.tables = replace(scene.tables, leases=(*scene.tables.leases, lease))
    scene.stream = replace(scene.stream, asked_about=scene.stream.asked_about | {lease.key})
    return lease.key


def a_new_lease(scene: Scene, key: str) -> None:
    """A lease that nobody has and that nothing was read of."""
    scene.change(key, owner=None, checkpoint=TRIM_HORIZON)
