"""What people do to the lake table, and the commands by which they do or repair it: `headrace skip`, `headrace repair` and `headrace
reposition`.

what a person or another engine does       what follows
roll the table back to an older snapshot   shards whose rows are ahead stop with an error until they are repositioned
give up records of a shard                 the next wave reads on after them (`headrace skip --to`)
expire the snapshots that hold positions   nothing lands until the chain is repaired; then rows ahead as above
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.pipeline.app.wiring import NoDagster
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.start_of_reading import Stop
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON
from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.duties.policy.own_tables import WorkersBeat, alone
from headrace.pipeline.errors import ChainBroken, HeadraceError
from headrace.pipeline.repair.decide import Busy, Recovery
from headrace.pipeline.repair.decision_plan import Person, plan_reposition
from headrace.pipeline.repair.repair import Repairing
from tests.simulation.troubles.rolled_back import RolledBack
from tests.simulation.troubles.skips import Skips
from tests.simulation.watch.truth import Violation
from tests.simulation.watch.worker_watch import PERSON

if TYPE_CHECKING:
    from tests.simulation.world import World

_LOOKS = 5.0
"""Seconds between two looks of the person who repairs."""
_BACK = 8
"""How many snapshots a rollback goes back at most, plus one."""


class People:
    """The people of one seed, and what they do."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._looking = False
        self._count = 0
        self._recoveries: dict[str, Recovery] = {}
        """The `headrace reposition` command of each row, by key."""
        self.skips = Skips(world, self.a_recovery)

    def roll_back(self, *, forward: bool = False) -> None:
        """`forward`: the person rolls the table forward again a little later, to where it stood."""
        world = self._world
        table = world.table
        if not self._is_whole() or table.head is None:
            return
        now = frozenset(table.load().positions.origins)
        kept = table.retained().snapshots
        behind = [snapshot.id for snapshot in table.history(table.head) if snapshot.id in kept][1:_BACK]
        fit = [snapshot for snapshot in behind if self._origins_at(snapshot) == now]
        if fit:
            to = world.rng.choice(fit)
            world.note("a person", f"rolls the table back from snapshot {table.head} to {to}")
            world.call_faults.happened["rolled_back"] += 1
            undone = table.roll_back(to)
            self._start_looking()
            if forward:
                world.sim.after(world.rng.uniform(2.0, 60.0), lambda: self._forward(undone))

    def _origins_at(self, snapshot: int) -> frozenset[StreamId] | None:
        """The streams that have positions at this snapshot; None where an expiry has cut the history before it."""
        with suppress(ChainBroken):
            return frozenset(self._world.table.state_at(snapshot).positions.origins)
        return None

    def _forward(self, undone: RolledBack) -> None:
        """The person has changed their mind. Not where somebody has repaired the table or rolled it back once more."""
        world, table = self._world, self._world.table
        since = [snapshot.id for snapshot in table.history(table.head)]
        kept = table.retained().snapshots
        if undone.to not in since or undone.head not in kept or any(at not in kept for at in undone.before):
            return
        now, then = self._origins_at(table.head or 0), self._origins_at(undone.head or 0)
        if now is None or now != then:
            return  # an expiry has cut one of the histories, or they have other streams
        world.note("a person", f"rolls the table forward from snapshot {table.head} to {undone.head}")
        world.call_faults.happened["rolled_forward"] += 1
        table.roll_forward(undone)

    def expire(self) -> None:
        """Another engine expires snapshots that carry positions, and deletes the metadata files that name them."""
        world, table = self._world, self._world.table
        if not self._is_whole() or table.head is None:
            return
        ours = [snapshot.id for snapshot in table.history(table.head)]
        link = table.append_as_others()
        table.append_as_others()
        gone = [link] if world.rng.random() < 0.5 else [*ours, link]
        table.forget(*gone)
        world.note("a person", f"expires {len(gone)} snapshots; none of their metadata files is left")
        world.call_faults.happened["expired"] += 1
        self._start_looking()

    def _is_whole(self) -> bool:
        try:
            return bool(self._world.table.load().positions.origins)
        except ChainBroken:
            return False

    # -- repairing ------------------------------------------------------------------------------------------

    def _start_looking(self) -> None:
        if not self._looking:
            self._looking = True
            self._world.sim.after(self._world.rng.uniform(10.0, 60.0), self._look)

    def _look(self) -> None:
        """Look every few seconds from the first rollback or expiry on, because writes that were sent before it may
        still arrive. In a quiet stretch the person looks less often, as the fleet does."""
        world = self._world
        world.sim.after(world.typed.paced(_LOOKS), self._look)
        try:
            self._repair()
            self._reposition()
        except HeadraceError as error:
            world.note("a person", f"tries again: {error}")

    def _repair(self) -> None:
        world = self._world
        if self._is_whole():
            return
        repairing = Repairing(
            settings=world.settings(("w1",)),
            leases=world.leases.store,
            source=world.source,
            table=world.table,
            run="repair",
        )
        start = Start(world.table.origins.get(world.truth.stream))
        plan = repairing.plan(why="another engine expired it", origin=start)
        if isinstance(plan, Stop) and world.source.denied:
            return  # the command refuses while Kinesis denies the stream; the person tries again later
        if isinstance(plan, Stop):
            raise Violation("I26", f"the chain can't be repaired: {plan.why}")
        for sentence in plan.sentences:
            world.note("a person", sentence)
        world.table.repairing = True
        try:
            world.note("a person", repairing.carry_out(plan))
        finally:
            world.table.repairing = False
        world.call_faults.happened["repaired"] += 1

    def _reposition(self) -> None:
        world = self._world
        ahead = sorted(
            row.key
            for row in world.leases.rows.values()
            if world.leases.is_ahead(row) or self._is_waited_for(row)
        )
        for key in [key for key in self._recoveries if key not in ahead]:
            self._recoveries.pop(key).release(key)
        for key in ahead:
            if key not in self._recoveries:
                self._recoveries[key] = self.a_recovery()
            self._to_table(self._recoveries[key], key)

    def _is_waited_for(self, row: Lease) -> bool:
        """Whether the leader says of this row that the table lacks the shard's end, and an unread child waits for it. That is so also
        where a descendant of another child has been read, which the rows and the listings that are left don't tell."""
        world = self._world
        shard = world.leases.shard(row)
        if shard is None or not row.has_ended or row.landed is None or shard.token is not None:
            return False
        children = (world.truth.shards.get(ShardKey(shard.key.stream, name)) for name in shard.children)
        return any(
            child is not None and child.token is None and world.key_of(child.key) in world.leases.rows
            for child in children
        )

    def a_recovery(self) -> Recovery:
        """A command about one shard, of a person who has a claim for it."""
        world = self._world
        self._count += 1
        claim = f"{PERSON}{self._count}/{self._count}"
        settings = world.settings(("w1",))
        return Recovery(
            claim=claim,
            settings=settings,
            policy=alone(
                settings,
                signs_of_life=WorkersBeat(),
                leases=world.leases.store,
                workers=world.workers,
                lock=world.lock,
            ),
            leases=world.leases.store,
            workers=world.workers,
            runs=NoDagster(),
            source=world.source,
            table=world.table,
            clock=world.clock,
        )

    def _to_table(self, recovery: Recovery, key: str) -> None:
        """Move the row back to the table, by `headrace reposition`."""
        world = self._world
        held = recovery.hold(key)
        if isinstance(held, Busy):
            return
        try:
            person = Person(recovery.claim, recovery.claim, "the table was rolled back")
            scene = recovery.situation(held.row)
            decision = plan_reposition(scene, to_lease=False, sentinel=TRIM_HORIZON, person=person)
            if isinstance(decision, Stop):
                world.note("a person", decision.why)
                return
            world.note("a person", f"{decision.sentences[0]}: {recovery.carry_out(held.row, decision)}")
            world.leases.forget_ahead(key)
            world.call_faults.happened["repositioned"] += 1
        finally:
            recovery.release(key)
