"""Windows of an application: runs of its job `replay`, here or in processes that are killed, and what the tables then hold."""

from dataclasses import dataclass
from typing import Any

import dagster as dg

from headrace.assets.names import slug
from headrace.pipeline.app.wiring import Wiring, wire
from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.plain_read import rows
from headrace.pipeline.proof.verdict import Proof
from headrace.pipeline.windows.window import ReplayWindow
from headrace.pipeline.windows.windows import WindowRequest
from tests.e2e.app import App
from tests.eventually import eventually
from tests.killed import KILLED

Row = tuple[str, int, int, bytes]


@dataclass(frozen=True)
class Windows:
    app: App

    @property
    def _wiring(self) -> Wiring:
        return wire(self.app.settings)

    def make(self, **how: Any) -> ReplayWindow:
        """A window of all that has landed."""
        return self._wiring.windows.windowing("a test").create(WindowRequest(ALL, how="a test", **how))

    def land(self, count: int) -> None:
        """Read until the lake table has so many rows."""

        def landed() -> bool:
            self.app.tick("leader")
            if (request := self.app.asked()) is not None:
                assert self.app.execute(request).success
            return len(self.landed()) >= count

        eventually(landed, f"{count} rows have landed")
        assert len(self.landed()) == count

    # -- runs of the job --------------------------------------------------------------------------------------------

    @property
    def job(self) -> str:
        return f"{slug(self.app.name)}_replay"

    def _config(self, window: ReplayWindow) -> dict[str, Any]:
        return {"ops": {f"replay_{slug(self.app.settings.application)}": {"config": {"window": window.id}}}}

    def kill_run(self, window: ReplayWindow, place: str) -> None:
        """A run in a process of its own that dies by SIGKILL at this place."""
        self.app.cuts.kill(f"window {place}")
        with self.app.start_job(self.job, self._config(window), {}) as process:
            code = process.wait(120)
        assert code == KILLED, self.app.processes.logs()
        self.app.cuts.await_killed()

    def run(self, window: ReplayWindow) -> dg.ExecuteInProcessResult:
        job = self.app.defs.resolve_job_def(self.job)
        return job.execute_in_process(
            instance=self.app.instance, run_config=self._config(window), raise_on_error=False
        )

    # -- what the tables hold -----------------------------------------------------------------------------------------

    def is_done(self, window: ReplayWindow) -> bool:
        return self._wiring.windows.windowing("a test").find(window.id).is_done

    def copied(self, window: ReplayWindow) -> list[Row]:
        """The rows of the window's own table."""
        table = self._wiring.ports.replaying(window.id, "a test").table
        assert isinstance(table, IcebergTable)
        return rows_of(table) if table.exists() else []

    def landed(self) -> list[Row]:
        return rows_of(self.app.table)

    def positions(self) -> Positions:
        return self.app.table.load().positions

    def prove(self) -> Proof:
        return self._wiring.proofs.proving().run(ALL, anew=True)


def rows_of(table: IcebergTable) -> list[Row]:
    columns = ("shard_id", "sequence_number", "sub_sequence_number", "data")
    return sorted(
        (each["shard_id"], int(each["sequence_number"]), each["sub_sequence_number"], each["data"])
        for each in rows(table, columns).to_pylist()
    )
