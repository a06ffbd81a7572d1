"""The ports of the migrations."""

from __future__ import annotations

from typing import Protocol

from headrace.pipeline.migrate.facts import MigrationFacts
from headrace.pipeline.migrate.steps import Step


class MigrationTables(Protocol):
    def look(self) -> MigrationFacts:
        """Read the rows consistently."""
        ...

    def apply(self, step: Step) -> bool:
        """Write one step. False where its condition doesn't hold any more; then nothing was written."""
        ...
