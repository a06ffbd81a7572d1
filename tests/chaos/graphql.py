"""What a person does in Dagster's UI, by the UI's own requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

LOCATION, REPOSITORY = "headrace", "__repository__"
_WITHIN = 60.0


@dataclass(frozen=True, slots=True)
class DagsterUi:
    port: int

    def backfill(self, asset: Sequence[str], partitions: Sequence[str]) -> str:
        """Materialize these partitions, as the backfill page does."""
        answer = self._ask(
            "mutation ($of: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $of) "
            "{ __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }",
            of={"assetSelection": [{"path": list(asset)}], "partitionNames": list(partitions)},
        )["launchPartitionBackfill"]
        return _wanted(answer, "LaunchBackfillSuccess")["backfillId"]  # type: ignore[no-any-return]

    def launch(self, job: str, config: Mapping[str, Any]) -> str:
        answer = self._ask(
            "mutation ($of: ExecutionParams!) { launchRun(executionParams: $of) "
            "{ __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } "
            "... on RunConfigValidationInvalid { errors { message } } } }",
            of={"selector": {**_REPOSITORY, "pipelineName": job}, "runConfigData": json.dumps(config)},
        )["launchRun"]
        return _wanted(answer, "LaunchRunSuccess")["run"]["runId"]  # type: ignore[no-any-return]

    def cancel(self, run: str) -> str:
        """Cancel a run. The answer's kind: a run may have ended by now."""
        answer = self._ask("mutation ($run: String!) { terminateRun(runId: $run) { __typename } }", run=run)
        return str(answer["terminateRun"]["__typename"])

    def runs_at_work(self) -> list[str]:
        answer = self._ask(
            "{ runsOrError(filter: {statuses: [STARTED]}) { ... on Runs { results { runId } } } }"
        )
        return [run["runId"] for run in answer["runsOrError"]["results"]]

    def reload(self) -> str:
        answer = self._ask(
            "mutation ($of: String!) { reloadRepositoryLocation(repositoryLocationName: $of) { __typename } }",
            of=LOCATION,
        )
        return str(answer["reloadRepositoryLocation"]["__typename"])

    def _ask(self, query: str, **variables: Any) -> Any:
        request = Request(
            f"http://127.0.0.1:{self.port}/graphql",
            data=json.dumps({"query": query, "variables": variables}).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urlopen(request, timeout=_WITHIN) as answer:
                document = json.load(answer)
        except HTTPError as refused:
            # Dagster gives its reason in the answer, such as a code server that isn't there.
            raise AssertionError(f"{refused}: {refused.read(2_000).decode(errors='replace')}") from refused
        assert "errors" not in document, document["errors"]
        return document["data"]


_REPOSITORY = {"repositoryLocationName": LOCATION, "repositoryName": REPOSITORY}


def _wanted(answer: Any, kind: str) -> Any:
    assert answer["__typename"] == kind, answer
    return answer
