"""The duties for a person's decisions about a shard, a table or an application, put together: they are made by a
command or by the lease resource.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.pipeline.app.ports import Ports
from headrace.pipeline.beside_kcl.adoption import Adopting
from headrace.pipeline.beside_kcl.kcl_workers import why_not_handed_over, why_not_rekey
from headrace.pipeline.duties.fleet.handing_over import HandingOver
from headrace.pipeline.duties.fleet.rekey import Rekeying
from headrace.pipeline.duties.policy.own_form import OwnForm
from headrace.pipeline.duties.policy.policy import Policy
from headrace.pipeline.ports.runs import Runs
from headrace.pipeline.repair.decide import Recovery
from headrace.pipeline.repair.repair import Repairing
from headrace.pipeline.settings.model import Settings


@dataclass(frozen=True, slots=True)
class DecisionWiring:
    settings: Settings
    ports: Ports
    leases: OwnForm
    policy: Callable[[], Policy]

    def recovery(self, run_id: str, runs: Runs) -> Recovery:
        ports = self.ports
        return Recovery(
            # As a run claims: what a person decides about a shard excludes a run on it by the same
            # condition.
            claim=f"{run_id}/{ports.ids.fresh()}",
            settings=self.settings,
            policy=self.policy(),
            leases=self.leases,
            workers=ports.workers(),
            runs=runs,
            source=ports.source(run_id),
            table=ports.table(run_id),
            clock=ports.clock,
        )

    def repairing(self, run_id: str) -> Repairing:
        ports = self.ports
        return Repairing(
            settings=self.settings,
            leases=self.leases,
            source=ports.source(run_id),
            table=ports.table(run_id),
            run=run_id,
        )

    def handing_over(self) -> HandingOver:
        ports = self.ports
        return HandingOver(
            why_not=why_not_handed_over(self.settings),
            leases=self.leases,
            workers=ports.workers(),
            clock=ports.clock,
        )

    def adopting(self) -> Adopting:
        ports = self.ports
        return Adopting(
            multi=self.settings.multi,
            leases=self.leases,
            source=ports.source("adopt"),
            table=ports.table("adopt"),
            beside_kcl=self.settings.is_shared,
        )

    def rekeying(self) -> Rekeying:
        ports = self.ports
        return Rekeying(
            settings=self.settings,
            # The bare store, where all others get the one that keeps to the settings' form of keys:
            # a rekeying has to see the rows of the other form.
            leases=ports.leases(),
            workers=ports.workers(),
            lock=ports.lock(),
            table=ports.table("rekey"),
            why_not=why_not_rekey(self.settings),
        )
