"""The runs of one worker during one tick: which ones are open, and which of them live, by Dagster and by their
own beats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from headrace.pipeline.core.leases.due import LivenessTimes, RunState, run_lives
from headrace.pipeline.core.leases.lease import run_of_claim
from headrace.pipeline.core.leases.sighting import Sighting
from headrace.pipeline.ports.runs import Runs
from headrace.pipeline.settings.model import TimeSettings


@dataclass(frozen=True)
class OwnRuns:
    """The runs of one worker. Dagster is asked once, when its answer is first needed. `over`: a run that is known
    to be over; while it is the worker's latest run, no run is open. None: the worker had no run.
    """

    worker_id: str
    runs: Runs
    times: TimeSettings
    over: str | None = None

    @cached_property
    def latest(self) -> str | None:
        return self.runs.latest(self.worker_id)

    @cached_property
    def open(self) -> tuple[str, ...]:
        """This worker's runs that Dagster doesn't count as over."""
        # `latest` is asked first: a run that is launched between the two questions must not look as if it were over.
        return () if self.latest == self.over else self.runs.open_runs(self.worker_id)

    def judge(self, claims: Mapping[str, Sighting]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The open runs, in two parts: those that live, and those that Dagster shows as running though their
        beats have stood still.
        """
        alive: list[str] = []
        dead: list[str] = []
        for run_id in self.open:
            sightings = [sighting for claim, sighting in claims.items() if run_of_claim(claim) == run_id]
            lives = run_lives(self.runs.verdict(run_id), sightings, self._patience)
            (alive if lives else dead).append(run_id)
        return tuple(alive), tuple(dead)

    def living_claims(self, claims: Mapping[str, Sighting]) -> frozenset[str]:
        return frozenset(
            claim
            for claim, sighting in claims.items()
            if run_lives(self.runs.verdict(run_of_claim(claim)), [sighting], self._patience)
        )

    def is_over(self, claim: str) -> bool:
        """Whether Dagster says that the claim's run is over, or knows no such run."""
        return self.runs.verdict(run_of_claim(claim)).state in {RunState.OVER, RunState.UNKNOWN}

    @property
    def _patience(self) -> LivenessTimes:
        return LivenessTimes(self.times.lease_duration, self.times.launch_grace)
