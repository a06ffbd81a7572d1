"""The duties of an application over HTTP, each under the access key and the policy of its role.

The stand-in refuses a role what its policy lacks, and notes what each role asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.app.wiring import NoDagster, Wiring
from headrace.pipeline.cli import main
from headrace.pipeline.clock import SystemClock
from headrace.pipeline.iam.places import ApplicationArns, account_of
from headrace.pipeline.iam.policy import role_policy
from headrace.pipeline.iam.roles import Role
from headrace.pipeline.local.actions import ACCOUNT
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.metrics.metering import Metering
from headrace.pipeline.metrics.wiring import metering_of
from headrace.pipeline.settings.blocks.aws import AwsPlace
from headrace.pipeline.settings.file import read_settings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.task_identity import AwsKeys, TaskIdentity


class MovedClock(SystemClock):
    """The host's clock and some time more."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead.total_seconds()


class WithTasksOfTheirOwn(Adapters):
    """Spark's tasks have a role of their own, as on a cluster."""

    def identity(self) -> TaskIdentity:
        return TaskIdentity(keys=AwsKeys(Role.SPARK.value, "local"))

    def _reader(self, place: AwsPlace, region: str) -> TaskIdentity:
        # A stream may have a role of its own; the settings of these tests name none.
        assert place.role is None
        return self.identity()


@dataclass
class RolesAtWork:
    aws: LocalAws
    folder: Path
    patch: pytest.MonkeyPatch
    yaml: str
    clock: MovedClock = field(default_factory=MovedClock)
    cursors: dict[str, str | None] = field(default_factory=dict)
    wirings: dict[Role, Wiring] = field(default_factory=dict)

    def __post_init__(self) -> None:
        file = self.folder / "headrace.yaml"
        file.write_text(f"{self.yaml}\naws: {{region: {self.aws.region}, endpoint: '{self.aws.endpoint}'}}\n")
        self.settings: Settings = read_settings(str(file), {}).settings
        self.patch.setenv("HEADRACE_CONFIG", str(file))
        # Commands make their ports by themselves.
        self.patch.setattr(Adapters, "identity", WithTasksOfTheirOwn.identity)
        self.patch.setattr(Adapters, "_reader", WithTasksOfTheirOwn._reader)
        for role in Role:
            self.aws.limit(role, self.policy(role))
            self.wirings[role] = self._wiring()

    def _wiring(self) -> Wiring:
        ports = WithTasksOfTheirOwn(self.settings, self.clock)
        # Nothing is sent by a thread, which would ask as whatever role is at work at that moment.
        metrics = replace(self.settings.metrics, every=timedelta(days=1))
        metering = metering_of(
            replace(self.settings, metrics=metrics), self.clock, ports.cloudwatch, ports.meter
        )
        return Wiring(self.settings, ports, metering=metering)

    def policy(self, role: Role) -> dict[str, Any]:
        return role_policy([role], ApplicationArns(self.settings, account_of(self.settings, number=ACCOUNT)))

    @contextmanager
    def as_role(self, role: Role) -> Iterator[Wiring]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ACCESS_KEY_ID", role)
            yield self.wirings[role]
            if isinstance(metering := self.wirings[role].metering, Metering):
                metering.publishing.flush()

    def ticks(self, number: int) -> None:
        """Ticks of the leader's and of each worker's sensor."""
        for _ in range(number):
            with self.as_role(Role.LEADER) as wiring:
                self._tick("leader", wiring.leader_turn)
            with self.as_role(Role.WORKER) as wiring:
                for worker in self.settings.workers:
                    turn = partial(wiring.worker_turn, worker.id, instance="here", runs=NoDagster())
                    self._tick(worker.id, turn)
            self.advance(timedelta(seconds=5))

    def advance(self, period: timedelta) -> None:
        self.clock.ahead += period
        self.aws.advance(period.total_seconds())

    def command(self, role: Role, *words: str, code: int = 0) -> None:
        with self.as_role(role):
            assert main(words) == code, words

    def asked(self) -> Mapping[Role, set[tuple[str, str]]]:
        return {Role(who): every for who, every in self.aws.asked().items()}

    def close(self) -> None:
        for wiring in self.wirings.values():
            wiring.ports.close()
            if isinstance(wiring.metering, Metering):
                wiring.metering.publishing.close()

    def _tick(self, sensor: str, turn: Callable[[str | None], Any]) -> None:
        done = turn(self.cursors.get(sensor))
        assert "refuses" not in str(done.sentence), done.sentence
        self.cursors[sensor] = done.cursor
