"""How the parts of an application are put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.pipeline.app.wiring import NoDagster, Wiring
from headrace.pipeline.beside_kcl.choose_policy import PolicyPorts, policy_of
from headrace.pipeline.duties.policy.policy import Policy
from headrace.pipeline.settings.model import Settings
from tests.duties.reading import PortsOf
from tests.duties.world import TICK, World


class NamedPorts(PortsOf):
    """Records by which names sources and tables were asked for."""

    def __init__(self, place: World) -> None:
        super().__init__(place)
        object.__setattr__(self, "sources", set[str]())
        object.__setattr__(self, "tables_", set[str]())

    def source(self, user: str) -> Any:
        self.sources.add(user)  # type: ignore[attr-defined]
        return super().source(user)

    def table(self, writer: str) -> Any:
        self.tables_.add(writer)  # type: ignore[attr-defined]
        return super().table(writer)


class TimedPorts(PortsOf):
    """Ports whose timer starts no thread for the beats of a tick or a run."""

    @property
    def timer(self) -> Any:
        return self._beating

    @contextmanager
    def _beating(self, *_: object) -> Iterator[None]:
        yield


MAKES: dict[str, Callable[[Wiring], object]] = {
    "the leader": lambda wiring: wiring.leader(),
    "a run": lambda wiring: wiring.attempt("w1", "run", NoDagster(), on_waiting=print),
    "a person's decision": lambda wiring: wiring.decisions.recovery("shell-1", NoDagster()),
    "a repair": lambda wiring: wiring.decisions.repairing("shell-1"),
    "an adoption": lambda wiring: wiring.decisions.adopting(),
}


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES.keys())
def test_a_duty_asks_for_its_table_and_its_source_by_the_same_name(
    make: Callable[[Wiring], object],
):
    """With another name the table would take Kinesis's time from a source that hasn't asked Kinesis yet, and would
    commit without it."""
    world = World()
    ports: Any = NamedPorts(world)

    make(Wiring(world.settings, ports))

    assert ports.tables_
    assert ports.tables_ == ports.sources


def test_the_tables_of_a_process_take_kinesis_time_from_the_source_of_the_same_name(tmp_path: Any):
    from headrace.pipeline.app.adapters import Adapters
    from headrace.pipeline.settings.blocks.aws import AwsSettings
    from headrace.pipeline.settings.model import LandingSettings

    adapters = Adapters(
        Settings(
            application="app",
            aws=AwsSettings(region="eu-west-1", endpoint="http://127.0.0.1:1"),
            landing=LandingSettings(home=str(tmp_path / "lake")),
        )
    )
    source = adapters.source("w1")
    source.aws_now = lambda: "Kinesis's clock"  # type: ignore[method-assign,assignment,return-value]

    assert adapters.table("w1")._date_of_aws() == "Kinesis's clock"
    assert adapters.table("w2")._date_of_aws() is None


def test_each_tick_and_each_run_makes_one_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(workers=("w1", "w2"))
    wired = Wiring(world.settings, TimedPorts(world))  # type: ignore[arg-type]
    made: list[object] = []
    waves: list[object] = []

    def counting(settings: Settings, ports: PolicyPorts) -> Policy:
        made.append(policy_of(settings, ports))
        return made[-1]  # type: ignore[return-value]

    monkeypatch.setattr("headrace.pipeline.app.wiring.policy_of", counting)

    def since(work: Callable[[], object]) -> int:
        before = len(made)
        work()
        return len(made) - before

    for _ in range(3):
        assert since(lambda: wired.leader_turn(None)) == 1
        assert since(lambda: wired.worker_turn("w1", None, instance="dagster", runs=world.runs)) == 1
        assert since(lambda: wired.worker_turn("w2", None, instance="dagster", runs=world.runs)) == 1
        world.clock.advance(TICK)
    world.produce(0)
    reading = wired.reading("run", NoDagster(), on_wave=waves.append, on_waiting=print)
    assert since(lambda: reading.everything_due("w1")) == 1
    assert len(waves) > 1
