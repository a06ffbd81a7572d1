"""The judge of releases (I51): a run that ends by itself has asked for the release of each row that it asked to claim, also where no answer to the claim
came (D7). Judged by the requests that the run has sent, so that no fault excuses a row that the run has forgotten."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from headrace.pipeline.core.leases.change import Change
from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World


class ReleaseWatch:
    def __init__(self, world: World) -> None:
        self._world = world
        self._unasked: set[tuple[str, str]] = set()
        """By claim and lease key: the claims for which a request was sent, and none for their release since."""

    def note_sent(self, process: Process, changes: Iterable[Change]) -> None:
        claim = process.claim
        if not claim:
            return
        for change in changes:
            if change.put.get("run_claim") == claim:
                self._unasked.add((claim, change.key))
            elif "run_claim" in change.remove:
                self._unasked.discard((claim, change.key))

    def judge_end(self, process: Process, claims: Collection[str]) -> None:
        """The run of the process is over. `claims`: all that it had."""
        world = self._world
        if world.tables_missing:
            return
        for row in world.leases.rows.values():
            if row.run_claim in claims and (row.run_claim, row.key) in self._unasked:
                raise Violation(
                    "I51",
                    f"{process} is over, has asked to claim {row.key}, and never for the release of its claim {row.run_claim}",
                    row.key,
                )
