"""All ports of an application: what the duties need from outside, as one Protocol.

An adapter on AWS, Spark, Iceberg or Dagster implements each port, and most ports have one in memory as well. The tests in
`tests/contract` hold both to the same promises, so that a duty works on either in the same way.

`pipeline/ports` has the ports of the engine. Each room of the lake table has its own: `headrace.pipeline.typed.ports`,
`headrace.pipeline.windows.ports`, `headrace.pipeline.proof.ports` and `headrace.pipeline.upkeep.ports`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from headrace.pipeline.ports.base import Timer
from headrace.pipeline.ports.consumers import Consumers
from headrace.pipeline.ports.described_table import TableDescription
from headrace.pipeline.ports.landing import LakeTable
from headrace.pipeline.ports.leases import LeaderLock, LeaseStore, Tables, WorkerStore
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.ports.staging import Stage
from headrace.pipeline.ports.usage import ProcessUsage
from headrace.pipeline.proof.ports import ProofPorts
from headrace.pipeline.upkeep.ports import LiveTable, Rewriter, TableFiles


class Ports(ProofPorts, Protocol):
    """The ports of one application, each made when it is first needed. `headrace.pipeline.app.wiring` hands them to the duties."""

    @property
    def timer(self) -> Timer: ...

    def leases(self) -> LeaseStore: ...

    def workers(self) -> WorkerStore: ...

    def lock(self) -> LeaderLock: ...

    def tables(self) -> Tables: ...

    def pages(self) -> Pages: ...

    def consumers(self, stream: str) -> Consumers:
        """The port to the consumers of enhanced fan-out, with the client that reads this stream."""
        ...

    def table(self, writer: str) -> LakeTable:
        """The lake table, for commits.

        `writer`: the name of the duty or run that commits, for the table's history.
        """
        # Before each commit the table compares this host's clock with the newest Date that `source(writer)` got from Kinesis. So a
        # duty has to ask for both by the same name.
        ...

    def table_facts(self, name: str) -> TableDescription | None:
        """The facts of the lake table, or of another table in its catalog; None where there is no such table."""
        ...

    def files(self, user: str) -> TableFiles: ...

    def lineage_files(self, user: str) -> TableFiles: ...

    def live(self, writer: str) -> LiveTable: ...

    def rewriter(self) -> Rewriter: ...

    def stage(self, worker_id: str) -> Stage:
        """The stage that runs on this worker's Spark."""
        ...

    def session(self, worker_id: str) -> Any:
        """This worker's SparkSession, for a user's own code."""
        ...

    def spending(self) -> Callable[[], ProcessUsage]:
        """A function that returns what this process has used of AWS and CPU since this call."""
        ...

    def close(self) -> None:
        """Stop everything that stages have started in Spark. Nothing can be staged after this."""
        ...
