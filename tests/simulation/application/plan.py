"""What is drawn of a processor that is an application of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationPlan:
    """A processor of mode `application` on the hosts of the fleet that lands. All times are means, in seconds; 0 is never."""

    is_on: bool = False
    retries: bool = False
    """Whether a call that failed is tried again (`on_error: retry`)."""
    call_records: int = 10_000
    """The most records of one call."""
    dies: float = 0.0
    """The share of its answers in the place of which the processor's process dies."""
    pauses: float = 0.0
    """The share of its answers before which the whole run is frozen."""
    cut: float = 0.0
    """The share of the steps at which a run is killed."""
    keeps: bool = False
    """Whether the processor's processes stay from wave to wave."""
    is_joined: bool = False
    """Whether the settings are those of a fleet beside workers of KCL."""
    kills: float = 0.0
    """Between two kills of a run."""
    steals: float = 0.0
    """Between two leases that a worker of KCL takes."""
