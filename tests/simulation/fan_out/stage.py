"""The stage of a run that reads by enhanced fan-out: the product's own reader and the product's own reading of a shard, in virtual time, on
subscriptions that the simulated Kinesis serves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.reading import fan_out
from headrace.pipeline.aws.reading.asking import Host
from headrace.pipeline.aws.reading.fan_out import ConsumerNames, FanOutPages
from headrace.pipeline.aws.reading.known_consumers import CONSUMERS
from headrace.pipeline.aws.reading.pages_proof import PROOFS
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest, Staged
from headrace.pipeline.lake.staging.kept_iterators import KeptIterators
from headrace.pipeline.lake.staging.stage_read import Box, ShardReading
from headrace.pipeline.ports.staging import StagingSpec
from tests.memory.aggregates import LandedRow
from tests.simulation.fan_out.subscriber import SimulatedSubscriber
from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from headrace.pipeline.core.shards.stream import ShardKey
    from tests.simulation.world import World

_ALL_BYTES = 1 << 40


def forget_processes() -> None:
    """What processes of another world have remembered. Each process of this one has an access of its own."""
    PROOFS._proved.clear()
    PROOFS._asking.clear()
    PROOFS._rests.clear()
    CONSUMERS._arns.clear()
    CONSUMERS._asking.clear()
    fan_out._subscribed.clear()


class FanOutStage:
    def __init__(self, world: World, process: Process, consumer: str) -> None:
        self._world = world
        self._process = process
        subscriber = SimulatedSubscriber(world, process)
        self._pages = FanOutPages(
            access=KinesisAccess("us-east-1", endpoint=process.name),
            consumers=ConsumerNames(others=consumer),
            host=Host(
                connect=lambda _: subscriber,
                sleep=world.sim.pause,
                monotonic=lambda: world.sim.now,
                dice=world.rng.random,
            ),
        )
        self._iterators = KeptIterators(lambda: world.sim.now)

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        world, rows = self._world, list[LandedRow]()
        box, most = Box(limits, self._process.host), limits.records // len(batches)

        def write(key: ShardKey, page: Any) -> None:
            numbers, subs = page["sequence_number"].to_pylist(), page["sub_sequence_number"].to_pylist()
            rows.extend((key, int(number) + sub) for number, sub in zip(numbers, subs, strict=True))

        staged: list[Staged] = []
        for batch in self._iterators.given_to(batches):
            reading = ShardReading(batch, self._pages, write, unpack=spec.unpack)
            reading.read_on(box, records=max(1, most), bytes_=_ALL_BYTES)
            reading._pages.close()
            staged.append(self._checked(reading.staged))
            world.losses.note_read(self._process, Manifest((reading.staged,)))
        made = Manifest(tuple(staged), world.stage.files_of(tuple(rows), spec))
        self._iterators.note(made)
        world.call_faults.happened["fanned_out"] += len(batches)
        return made

    def _checked(self, staged: Staged) -> Staged:
        if staged.error is not None and "unexpected" in staged.error:
            raise Violation("crash", staged.error, staged.key.shard_id)
        if staged.data_loss and not self._may_have_lost(staged.key):
            raise Violation(
                "I13",
                f"nothing has left the stream, and {self._process} says: {staged.error}",
                staged.key.shard_id,
            )
        return staged

    def _may_have_lost(self, key: ShardKey) -> bool:
        world = self._world
        is_young = world.sim.now < world.plan.retention
        return not is_young or bool(world.source.denied) or not world.truth.lives(key.stream)
