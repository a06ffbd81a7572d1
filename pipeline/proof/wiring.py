"""The duties that prove and compare tables, put together from settings and ports.

    Wiring.proofs ──► proving      for `headrace prove`, its job and the demo
                  ├─► accepting    for `headrace prove --accept-foreign`
                  └─► shadowing    for `headrace shadow`

Importing this module imports neither Dagster nor boto3, pyiceberg or Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.proof.accept import Accepting
from headrace.pipeline.proof.other_side import ConsumerRows, OtherColumns
from headrace.pipeline.proof.ports import ProofPorts
from headrace.pipeline.proof.prove import Proving
from headrace.pipeline.proof.shadow.compare import Shadowing
from headrace.pipeline.settings.model import Settings


@dataclass(frozen=True, slots=True)
class ProofWiring:
    """Puts proofs and comparisons together, from settings and ports."""

    settings: Settings
    ports: ProofPorts

    def proving(self) -> Proving:
        """The duty that compares the lake table, and the tables made of it, with their ledgers."""
        ports = self.ports
        return Proving(
            table=ports.proof(),
            lineage=ports.lineage("prove"),
            source=lambda: ports.source("prove"),
            settings=self.settings.upkeep,
            clock=ports.clock,
            target_ports=ports.proved_tables,
        )

    def accepting(self, by: str) -> Accepting:
        """The duty that stores which rows of other engines a person accepts. `by`: that person."""
        return Accepting(table=self.ports.proof(), lineage=self.ports.lineage("prove"), by=by)

    def shadowing(
        self, columns: OtherColumns, *, stream: str | None, files: str | None, table: str | None
    ) -> Shadowing:
        """The duty that compares the lake table with another consumer's output, which is in `files` or in `table`."""
        ports = self.ports
        return Shadowing(
            table=ports.proof(),
            lineage=ports.lineage("shadow"),
            other_side=lambda life: ports.other_side(ConsumerRows(life, columns), files=files, table=table),
            stream=stream,
        )
