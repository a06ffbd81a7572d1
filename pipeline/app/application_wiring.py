"""Puts a processor of `mode: application`, which is a KCL application of its own, together as every application is.

settings, processor ──► settings of its application ──► ApplicationWiring ──► ticks and runs of the engine
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from headrace.pipeline.app.application_adapters import ApplicationAdapters
from headrace.pipeline.app.aws_adapters import AwsAdapters
from headrace.pipeline.app.ports import Ports
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.duties.policy.own_form import OwnForm
from headrace.pipeline.duties.policy.policy import Policy
from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.metrics.wiring import metering_of
from headrace.pipeline.ports.leases import LeaseStore
from headrace.pipeline.processors.application.standing import ApplicationStanding
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.processor_application import application_settings


@dataclass(frozen=True, slots=True)
class ApplicationWiring(Wiring):
    """The wiring of a processor's application: the engine alone. Such a processor has no table of its own, so
    that there are no typed tables, windows, upkeep or proofs.
    """

    def expiring(self, user: str) -> Expiring | None:
        return None

    def policy(self, leases: LeaseStore | None = None) -> Policy:
        # Not super(): a dataclass with slots is made anew, and the old class is what super() would look for.
        policy = Wiring.policy(self, leases)
        # Also beside KCL's workers: no row is behind what the processor has checkpointed, and its instance lives as long as
        # the claim.
        return replace(policy, may_keep=lambda _: True)


def application_standing(settings: Settings, processor: ProcessorSettings) -> ApplicationStanding:
    """How far the processor has come. Only the lease table is read. Raises HeadraceError."""
    own = application_settings(settings, processor)
    # The rows as they are: `ClaimedRows` has them as the engine decides by them, without the trace of other programs.
    rows = OwnForm(AwsAdapters(own).leases(), own.multi)
    return ApplicationStanding.of(processor, rows.scan().leases)


def wire_application(settings: Settings, processor: ProcessorSettings) -> ApplicationWiring:
    """Wire a processor's application.

    `settings`: those of the application beside which the processor works. No connection is opened yet.
    """
    own = application_settings(settings, processor)
    adapters = ApplicationAdapters(own, processor)
    metering = metering_of(own, adapters.clock, adapters.cloudwatch, adapters.meter)
    # Of the ports, it has those that the engine asks for.
    return ApplicationWiring(own, cast("Ports", adapters), metering=metering)
