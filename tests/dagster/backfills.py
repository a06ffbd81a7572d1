"""Backfills as a person launches them: by Dagster's GraphQL, and carried out by the daemon's own loop. Runs are executed in this process,
by a launcher of Dagster's."""

import itertools
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.storage.tags import BACKFILL_ID_TAG
from dagster._core.test_utils import instance_for_test
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster._daemon.backfill import execute_backfill_iteration

from tests.dagster import served

WARNINGS_OF_DAGSTER = (
    "ignore:.*deprecated and will be removed in 2.0:DeprecationWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
"""What Dagster's server and daemon do where they run within this process: they call what they call deprecated, and leave loops of asyncio open."""

_NUMBERS = itertools.count(1)
_LAUNCH = """
mutation($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PartitionKeysNotFoundError { message partitionKeys }
    ... on PythonError { message }
  }
}
"""
_CANCEL = "mutation($id: String!) { cancelPartitionBackfill(backfillId: $id) { __typename } }"
_AGAIN = """
mutation($params: ReexecutionParams!) {
  launchRunReexecution(reexecutionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}
"""
_SHOWN = """
query($id: String!) {
  partitionBackfillOrError(backfillId: $id) {
    ... on PartitionBackfill { status numPartitions error { message } }
  }
}
"""
_TICKS = 12
"""Iterations of the daemon's loop in which a backfill of a test ends."""


@dataclass
class Backfills:
    instance: dg.DagsterInstance
    process: WorkspaceProcessContext

    def launch(self, assets: Sequence[dg.AssetKey], **params: Any) -> dict[str, Any]:
        """The answer of `launchPartitionBackfill`. `params`: more fields of its parameters."""
        selection = [{"path": key.path} for key in assets]
        data = self._ask(_LAUNCH, {"params": {"assetSelection": selection, **params}})
        answer: dict[str, Any] = data["launchPartitionBackfill"]
        return answer

    def started(self, assets: Sequence[dg.AssetKey], **params: Any) -> str:
        """The id of a backfill that was launched."""
        answer = self.launch(assets, **params)
        assert answer["__typename"] == "LaunchBackfillSuccess", answer
        return str(answer["backfillId"])

    def done(self, assets: Sequence[dg.AssetKey], **params: Any) -> str:
        """The id of a backfill that was carried out."""
        backfill = self.started(assets, **params)
        for _ in range(_TICKS):
            self.tick()
            if self.shown(backfill)["status"] not in ("REQUESTED", "CANCELING"):
                return backfill
        raise AssertionError(f"the backfill doesn't end: {self.shown(backfill)}")

    def tick(self) -> None:
        """One iteration of the daemon's loop."""
        for error in execute_backfill_iteration(self.process, logging.getLogger("backfills")):
            assert error is None, error

    def cancel(self, backfill: str) -> None:
        answer = self._ask(_CANCEL, {"id": backfill})["cancelPartitionBackfill"]
        assert answer["__typename"] == "CancelBackfillSuccess", answer

    def executed_again(self, run: str, strategy: str) -> dg.DagsterRun:
        """The run that executes another one again, as a person asks for it on that one's page. `strategy`: ALL_STEPS or FROM_FAILURE."""
        answer = self._ask(_AGAIN, {"params": {"parentRunId": run, "strategy": strategy}})[
            "launchRunReexecution"
        ]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        again = self.instance.get_run_by_id(answer["run"]["runId"])
        assert again is not None
        return again

    def shown(self, backfill: str) -> dict[str, Any]:
        """What Dagster's page of the backfill shows."""
        shown: dict[str, Any] = self._ask(_SHOWN, {"id": backfill})["partitionBackfillOrError"]
        return shown

    def runs(self, backfill: str) -> list[dg.DagsterRun]:
        """The oldest first."""
        return list(self.instance.get_runs(dg.RunsFilter(tags={BACKFILL_ID_TAG: backfill})))[::-1]

    def why(self, run: dg.DagsterRun) -> str:
        """The sentence with which a run has failed."""
        (event,) = self.instance.get_records_for_run(
            run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE
        ).records
        data = event.event_log_entry.get_dagster_event().step_failure_data
        assert data.user_failure_data is not None, data.error
        return data.user_failure_data.description or ""

    def _ask(self, query: str, variables: dict[str, Any]) -> Any:
        # Here, because it takes more than a second of CPU, and each process of `make test` imports this module.
        from dagster_graphql.test.utils import execute_dagster_graphql

        result = execute_dagster_graphql(self.process.create_request_context(), query, variables)
        assert not result.errors, result.errors
        return result.data


@contextmanager
def backfills_of(definitions: dg.Definitions, folder: Path) -> Iterator[Backfills]:
    """A Dagster of its own, with its storage in the folder, that serves these definitions."""
    attribute = f"defs_{next(_NUMBERS)}"
    # Each asset's run in the run's own process, as `headrace.pipeline.definitions` has it.
    in_process = dg.Definitions(executor=dg.in_process_executor)
    setattr(served, attribute, dg.Definitions.merge(definitions, in_process))
    target = LoadableTargetOrigin(
        executable_path=sys.executable, module_name=served.__name__, attribute=attribute
    )
    parts = {
        "run_launcher": ("dagster._core.launcher.sync_in_memory_run_launcher", "SyncInMemoryRunLauncher"),
        # Without a queue: a run is executed where it is submitted.
        "run_coordinator": ("dagster._core.run_coordinator", "DefaultRunCoordinator"),
        # Dagster's own copies what a step prints by a `tail` for each run, for which it doesn't wait at the end.
        "compute_logs": ("dagster._core.storage.noop_compute_log_manager", "NoOpComputeLogManager"),
    }
    overrides = {part: {"module": module, "class": name} for part, (module, name) in parts.items()}
    with (
        instance_for_test(temp_dir=str(folder), overrides=overrides) as instance,
        WorkspaceProcessContext(
            instance,
            InProcessWorkspaceLoadTarget(InProcessCodeLocationOrigin(target, location_name="headrace")),
        ) as process,
    ):
        yield Backfills(instance, process)
