"""A processor that is a KCL application of its own, put together as every application is.

settings, processor ──► settings of its application ──► ApplicationWiring ──► ticks and runs of the engine
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from headrace.pipeline.app.application_adapters import ApplicationAdapters
from headrace.pipeline.app.ports import Ports
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.metrics.wiring import metering_of
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.processor_application import application_settings
from headrace.pipeline.settings.processors_block import ProcessorSettings


@dataclass(frozen=True, slots=True)
class ApplicationWiring(Wiring):
    """The engine alone: a processor has no table of its own, so that typed tables, windows, upkeep and proofs have nothing
    to work with."""

    def expiring(self, user: str) -> Expiring | None:
        return None


def wire_application(settings: Settings, processor: ProcessorSettings) -> ApplicationWiring:
    """`settings`: those of the application beside which the processor works. No connection is opened yet."""
    own = application_settings(settings, processor)
    adapters = ApplicationAdapters(own, processor)
    metering = metering_of(own, adapters.clock, adapters.cloudwatch, adapters.meter)
    # Of the ports, it has those that the engine asks for.
    return ApplicationWiring(own, cast("Ports", adapters), metering=metering)
