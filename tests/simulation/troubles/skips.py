"""A person who gives up records of a shard that haven't landed (`headrace skip --to`), though Kinesis still has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.pipeline.core.order.start_of_reading import Stop
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.repair.decide import Busy, Recovery
from headrace.pipeline.repair.decision_plan import AfterRecord, Person, plan_skip
from tests.simulation.watch.truth import ShardTruth

if TYPE_CHECKING:
    from tests.simulation.world import World

_TRIES = 12
_AGAIN = 5.0
"""Seconds after which the command tries again, where a run reads the shard."""


class Skips:
    def __init__(self, world: World, a_recovery: Callable[[], Recovery]) -> None:
        self._world = world
        self._a_recovery = a_recovery

    def begin(self) -> None:
        """Choose a shard with records that haven't landed, and one of these records."""
        world = self._world
        unread = [
            (shard, wanted)
            for shard in world.truth.open_shards()
            if world.key_of(shard.key) in world.leases.rows and (wanted := self._wanted(shard))
        ]
        if unread:
            shard, wanted = world.rng.choice(unread)
            number = world.rng.choice(wanted)
            self._try(self._a_recovery(), shard, number - shard.subs.get(number, 0), _TRIES)

    def _wanted(self, shard: ShardTruth) -> list[int]:
        """The records of the shard that are to land, and haven't landed."""
        origins = self._world.table.origins
        if shard.key.stream not in origins:
            return []
        first = self._world.truth.first(shard, origins[shard.key.stream])
        return shard.sequences[max(first, shard.read) :]

    def _try(self, recovery: Recovery, shard: ShardTruth, sequence: int, tries: int) -> None:
        world, key = self._world, self._world.key_of(shard.key)
        try:
            held = recovery.hold(key)
            if isinstance(held, Busy) and tries:
                world.sim.after(_AGAIN, lambda: self._try(recovery, shard, sequence, tries - 1))
                return
            if not isinstance(held, Busy):
                self._skip(recovery, key, sequence)
        except HeadraceError as error:
            world.note("a person", f"gives up to skip records of {key}: {error}")
        recovery.release(key)

    def _skip(self, recovery: Recovery, key: str, sequence: int) -> None:
        world, row = self._world, self._world.leases.rows[key]
        person = Person(recovery.claim, recovery.claim, "these records aren't wanted")
        situation = recovery.situation(row)
        # The command asks Kinesis first. The stream may have been created again since the person saw the record.
        if not world.fan_out.takes(situation.key, sequence):
            world.note("a person", f"gives up to skip records of {key}: Kinesis doesn't take {sequence}")
            return
        decision = plan_skip(situation, AfterRecord(sequence), person)
        if isinstance(decision, Stop):
            world.note("a person", decision.why)
            return
        world.note("a person", f"{decision.sentences[0]}: {recovery.carry_out(row, decision)}")
        world.call_faults.happened["skipped"] += 1
