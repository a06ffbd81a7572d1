"""The ports of a small world, and a run's attempt to read, put together as the product does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.pipeline.app.wiring import Hints, Wiring
from headrace.pipeline.duties.waves.attempt import Attempt
from headrace.pipeline.duties.waves.report import OnStep
from headrace.pipeline.ports.staging import OnWaiting
from headrace.pipeline.ports.usage import ProcessUsage
from tests.memory.consumers import MemoryConsumers

if TYPE_CHECKING:
    from tests.duties.life import Life
    from tests.duties.world import World


@dataclass(frozen=True)
class PortsOf:
    """`headrace.pipeline.app.ports.Ports` made of what the small world has."""

    place: Any

    @property
    def clock(self) -> Any:
        return self.place.clock

    def spending(self) -> Callable[[], ProcessUsage]:
        return ProcessUsage

    def consumers(self, _stream: str) -> MemoryConsumers:
        return MemoryConsumers()

    @property
    def ids(self) -> Any:
        return self.place.ids

    def leases(self) -> Any:
        return self.place.leases

    def workers(self) -> Any:
        return self.place.rows

    def lock(self) -> Any:
        return self.place.lock

    def tables(self) -> Any:
        return self.place.tables

    def source(self, _user: str) -> Any:
        return self.place.source

    def table(self, _writer: str) -> Any:
        return self.place.table

    def files(self, _user: str) -> Any:
        return self.place.files

    def lineage_files(self, _user: str) -> Any:
        return self.place.lineage_files

    def live(self, _writer: str) -> Any:
        return self.place.live

    def rewriter(self) -> Any:
        return self.place.rewriter

    def processing(self, _processor: Any, _run: str) -> Any:
        raise AssertionError("no processor works here")

    def parsing(self, _target: Any, _run: str) -> Any:
        raise AssertionError("no target is parsed here")

    def lineage(self, _writer: str) -> Any:
        return self.place.lineage

    def stage(self, _worker: str) -> Any:
        return self.place.stage


def wiring_of(place: Life | World) -> Wiring:
    return Wiring(place.settings, PortsOf(place))  # type: ignore[arg-type] # these tests beat on no timer


def an_attempt(
    place: Life | World,
    run: str,
    *,
    worker: str = "w1",
    hints: Hints = Hints(),  # noqa: B008 - Hints is frozen
    dead_claims: Iterable[str] = (),
    on_step: OnStep = lambda _arrow, _keys: None,
    on_waiting: OnWaiting = lambda _: None,
) -> Attempt:
    """An attempt of this run to read for the worker."""
    known = Hints(
        dead_claims=hints.dead_claims | frozenset(dead_claims), left_alone=hints.left_alone, due=hints.due
    )
    attempt = wiring_of(place).attempt(
        worker, run, place.runs, hints=known, on_step=on_step, on_waiting=on_waiting
    )
    attempt.policy = place.policy  # a test may have set a policy of its own
    return attempt
