"""A policy for sharing tables that only this test has, besides the four of the product: two fleets of one application
take turns, as when a new version replaces an old one. Core and duties work with the policy without knowing it.

Each worker belongs to a colour. Only workers of the colour whose turn it is are assigned leases. Workers of the
other colour keep their leases until these are moved, don't lead, and are assigned nothing new. A command may hold
no row that a worker of the other colour owns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.sharing.assign_plan import AssignmentInput, GapRules, move_or_hand_over
from headrace.pipeline.duties.policy.leader_watch import LeaderWatchMemory
from headrace.pipeline.duties.policy.memory import PartMemory
from headrace.pipeline.duties.policy.own_tables import (
    NoOtherWorkers,
    WorkersBeat,
    alone,
    by_gap,
    rules_of,
)
from headrace.pipeline.duties.policy.policy import (
    AssignmentPaused,
    AssignmentView,
    MayAssign,
    Policy,
    Presence,
    TakenLeases,
)
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.repair.decide import Busy, Held, Recovery
from tests.duties.world import World

ROOT = Path(__file__).parents[2]


@dataclass
class Turn:
    """The colour whose turn it is. The test changes it while ticks go on."""

    colour: str = "blue"

    def has(self, worker: str) -> bool:
        return worker.startswith(self.colour)


@dataclass(frozen=True)
class OneColourAtATime:
    """The policy's part that judges the fleet: only workers of the colour whose turn it is may be assigned leases."""

    turn: Turn
    nobody: NoOtherWorkers

    def why_not_lead(self) -> str | None:
        return "it is nobody's turn" if self.turn.colour == "none" else None

    def patience(self, worker: Worker) -> Any:
        return self.nobody.patience(worker)

    def judge(self, view: AssignmentView) -> MayAssign | AssignmentPaused:
        here = frozenset(name for name in view.fleet.ready if self.turn.has(name))
        if not here:
            return AssignmentPaused(f"no {self.turn.colour} worker beats: every lease stays where it is")
        return MayAssign(here)

    def others_read(self, strangers: frozenset[str], listing: object) -> bool:
        return False

    def presence(self, me: str, watch: LeaderWatchMemory, memory: PartMemory, now: Any) -> Presence:
        return Presence(f"worker {me}: colourless, this one does nothing" if me.startswith("plain") else None)

    def why_not_hold(self, row: Lease) -> str | None:
        leaving = row.holder is not None and not self.turn.has(row.holder)
        return f"{row.holder} is on its way out: wait until {row.key} has moved" if leaving else None


@dataclass(frozen=True)
class AssignToTheColour:
    """The policy's part that assigns: leases of the other colour's workers move to the colour whose turn it is."""

    turn: Turn
    rules: GapRules

    def plan_moves(self, scene: AssignmentInput, workers: Iterable[Worker], passes: int) -> list[Change]:
        names = sorted(scene.living)
        leaving = [row for row in scene.leases if row.holder is not None and row.holder not in scene.living]
        if not names or not leaving:
            return by_gap(self.rules)(scene, workers, passes)
        return [
            move_or_hand_over(
                row, names[n % len(names)], "the colours change", when=scene.now, rules=self.rules
            )
            for n, row in enumerate(sorted(leaving, key=lambda row: row.key))
            if row.checkpoint_owner is None
        ]


@dataclass(frozen=True)
class TickCounter:
    """The policy's part in a worker's tick: it counts ticks, and its count outlives the process."""

    given: Any

    def watch_leader(self, seen: LeaderWatchMemory, memory: PartMemory, now: Any) -> Any:
        return self.given.watch_leader(seen, memory, now)

    def own_rows(self, me: str, held: frozenset[str], known: Mapping[str, Lease]) -> tuple[Lease, ...]:
        rows: tuple[Lease, ...] = self.given.own_rows(me, held, known)
        return rows

    def rows_to_beat(self, me: str, known: Mapping[str, Lease], *, search: bool) -> tuple[Lease, ...]:
        rows: tuple[Lease, ...] = self.given.rows_to_beat(me, known, search=search)
        return rows

    def take_leases(self, me: str, memory: PartMemory) -> TakenLeases:
        ticks = (memory or 0) + 1
        return TakenLeases(ticks, sentence=f"tick {ticks} of its diary")


@dataclass
class Coloured(World):
    """A world whose duties follow the policy of the two colours."""

    workers: tuple[str, ...] = ("blue-1", "blue-2", "green-1")
    shards: int = 4
    turn: Turn = field(default_factory=Turn)

    @property
    def policy(self) -> Policy:
        plain = alone(
            self.settings, signs_of_life=WorkersBeat(), leases=self.leases, workers=self.rows, lock=self.lock
        )
        times = self.settings.times
        return replace(
            plain,
            other_workers=OneColourAtATime(self.turn, NoOtherWorkers(times.lease_duration)),
            plan_moves=AssignToTheColour(self.turn, rules_of(self.settings, plain.signs_of_life)).plan_moves,
            own_leases=TickCounter(plain.own_leases),
        )

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.lead(self.workers[0])
            for worker in self.workers:
                self.work(worker)
            self.clock.advance(self.settings.times.worker_tick)

    @property
    def owners(self) -> set[str | None]:
        return {row.owner for row in self.leases.scan().leases}


def test_only_workers_of_the_colour_whose_turn_it_is_are_assigned_leases_and_read() -> None:
    world = Coloured()
    world.tick(12)
    assert world.owners == {"blue-1", "blue-2"}
    world.produce(0, 5)
    assert sum(world.wave(name, f"run-{name}").rows for name in world.workers) == 5
    world.check()


def test_the_policy_is_judged_anew_at_each_tick() -> None:
    world = Coloured()
    world.tick(12)
    world.turn.colour = "green"
    world.tick(12)
    assert world.owners == {"green-1"}
    world.turn.colour = "blue"
    world.tick(12)
    assert world.owners == {"blue-1", "blue-2"}


def test_if_no_worker_of_the_colour_whose_turn_it_is_beats_the_leader_assigns_nothing_and_says_why() -> None:
    world = Coloured()
    world.tick(12)
    world.turn.colour = "red"
    before = {row.key: row.owner for row in world.leases.scan().leases}
    world.clock.advance(world.settings.times.assignment)
    report = world.lead(world.workers[0])
    assert isinstance(report.trouble, BadSetting)
    assert "no red worker beats: every lease stays where it is" in str(report)
    assert {row.key: row.owner for row in world.leases.scan().leases} == before


def test_a_policy_can_keep_a_deployment_from_leading() -> None:
    world = Coloured()
    world.turn.colour = "none"
    report = world.lead("blue-1")
    assert (report.leads, str(report)) == (False, "leader: it is nobody's turn")


def test_a_worker_that_the_policy_keeps_away_doesnt_beat() -> None:
    world = Coloured()
    world.tick(3)
    assert str(world.work("plain-1")) == "worker plain-1: colourless, this one does nothing"
    assert world.rows.get("plain-1") is None


def test_the_sentence_of_a_workers_tick_holds_what_the_policy_says() -> None:
    world = Coloured()
    world.tick(3)
    assert ", tick 4 of its diary" in str(world.work("blue-1"))


def test_a_persons_command_asks_the_policy_before_it_holds_a_row() -> None:
    world = Coloured()
    world.tick(12)
    key = world.shard(0).shard_id
    person = Recovery(
        claim="shell-1/1",
        settings=world.settings,
        policy=world.policy,
        leases=world.leases,
        workers=world.rows,
        runs=world.runs,
        source=world.source,
        table=world.table,
        clock=world.clock,
    )
    world.turn.colour = "green"
    assert isinstance(found := person.hold(key), Busy)
    assert "is on its way out" in found.why
    world.turn.colour = "blue"
    assert isinstance(person.hold(key), Held)


@pytest.mark.parametrize("room", ["core", "duties"])
def test_neither_core_nor_duties_ask_for_a_mode(room: str) -> None:
    """They must not name the settings that choose a mode. `policy_of` turns these into parts of a policy."""
    flags = ("is_shared", "kcl.failover", "allow_foreign", "kcl.mode", "kcl.heartbeat")
    modules = {
        path.name: path.read_text(encoding="utf-8") for path in (ROOT / "pipeline" / room).rglob("*.py")
    }
    assert [(name, flag) for name, text in sorted(modules.items()) for flag in flags if flag in text] == []
