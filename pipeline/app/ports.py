"""The ports: what the duties need from outside, as Protocols.

An adapter on AWS, Spark, Iceberg or Dagster implements each port, and most ports have one in memory as well. The tests in
`tests/contract` hold both to the same promises, so that a duty works on either in the same way.

`headrace.pipeline.ports.landing` has the ports of the lake, `headrace.pipeline.typed.ports` those of typed tables and windows, `headrace.pipeline.proof.ports` those of proofs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from headrace.pipeline.ports.base import Clock, Ids, Timer
from headrace.pipeline.ports.landing import LakeTable
from headrace.pipeline.ports.leases import LeaderLock, LeaseStore, Tables, WorkerStore
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.ports.staging import Stage
from headrace.pipeline.proof.other_side import ConsumerRows
from headrace.pipeline.proof.ports import OtherSide, ProofTable, TargetPorts
from headrace.pipeline.settings.parse_block import ParseSettings
from headrace.pipeline.typed.ports import ParsePorts
from headrace.pipeline.upkeep.ports import LiveTable, Rewriter, TableFiles
from headrace.pipeline.windows.ports import ReplayPorts, UnpackPorts, WindowStore

# --- Kinesis, for ticks and runs --------------------------------------------------------------------------------


# --- coordination tables ------------------------------------------------------------------------------------


# --- Dagster's runs -----------------------------------------------------------------------------------------


# --- all ports of an application ----------------------------------------------------------------------------


class Ports(Protocol):
    """The ports of one application, each made when it is first needed. `headrace.pipeline.app.wiring` hands them to the duties."""

    @property
    def clock(self) -> Clock: ...

    @property
    def ids(self) -> Ids: ...

    @property
    def timer(self) -> Timer: ...

    def leases(self) -> LeaseStore: ...

    def workers(self) -> WorkerStore: ...

    def lock(self) -> LeaderLock: ...

    def tables(self) -> Tables: ...

    def source(self, user: str) -> ShardSource:
        """`user`: the duty that asks. Each user has a source of its own, with its own shard iterators."""
        ...

    def pages(self) -> Pages: ...

    def table(self, writer: str) -> LakeTable:
        """`writer`: the name of the duty or run that commits, for the table's history."""
        # Before each commit the table compares this host's clock with the newest Date that `source(writer)` got from Kinesis. So a
        # duty has to ask for both by the same name.
        ...

    def files(self, user: str) -> TableFiles: ...

    def lineage_files(self, user: str) -> TableFiles: ...

    def live(self, writer: str) -> LiveTable: ...

    def rewriter(self) -> Rewriter: ...

    def proof(self) -> ProofTable: ...

    def proved_tables(self) -> Iterable[TargetPorts]:
        """The typed tables, and the tables of all windows, as a proof reads them."""
        ...

    def parsing(self, target: ParseSettings, run: str) -> ParsePorts:
        """`run`: the id of the run that parses, for the tables' history."""
        ...

    def other_side(self, rows: ConsumerRows, *, files: str | None, table: str | None) -> OtherSide:
        """Another consumer's output: files at a path or an address, or a table of the lake table's catalog."""
        ...

    def windows(self) -> WindowStore: ...

    def replaying(self, window: str, run: str) -> ReplayPorts:
        """`window`: the id of a window. `run`: the id of the run that copies, for the history of the window's table."""
        ...

    def unpacking(self, window: str) -> UnpackPorts:
        """`window`: the id of a window whose aggregates are taken apart in the lake table."""
        ...

    def lineage(self, writer: str) -> LineageTable:
        """`writer`: the name of the duty or run that records, for the lineage table's history."""
        ...

    def stage(self, worker_id: str) -> Stage:
        """The stage that works on this worker's Spark."""
        ...

    def session(self, worker_id: str) -> Any:
        """This worker's SparkSession, for code of the user's."""
        ...

    def close(self) -> None:
        """Stop what stages started in Spark. Nothing is staged after this."""
        ...
