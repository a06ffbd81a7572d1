"""The port of Dagster's runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headrace.pipeline.core.leases.due import RunVerdict


@dataclass(frozen=True, slots=True)
class RunOutcome:
    failed: tuple[str, ...] = ()
    """Lease keys of the shards that failed in the run."""
    left_alone: tuple[str, ...] = ()
    """Lease keys of the shards that the run was asked not to read, because they failed lately."""
    transient: bool = False
    """A transient error ended the run as a whole: its shards may be healthy."""
    began: bool = True
    """Whether the run's code could be loaded. False after a mistake in the settings or in code of the project."""
    why_not_begun: str = ""
    """The mistake, as far as Dagster knows it."""


class Runs(Protocol):
    def verdict(self, run_id: str) -> RunVerdict: ...

    def open_runs(self, worker_id: str) -> tuple[str, ...]:
        """The ids of this worker's runs that Dagster doesn't count as over."""
        ...

    def latest(self, worker_id: str) -> str | None:
        """Id of the newest run of this worker, over or not."""
        ...

    def outcome(self, run_id: str) -> RunOutcome:
        """What a tick has to remember of a run that is over."""
        ...
