"""What Headrace passes to a user's parsing function beside the records: the target, the version and the run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchContext:
    target: str
    """The target's name in the settings."""
    version: str
    """The target's version in the settings."""
    run: str
    """The run's id."""
