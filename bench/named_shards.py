"""How long does a person wait for two named shards? Seconds from the launch of a run over two partitions, by Dagster's GraphQL as the UI
does it, to its end, in a deployment at rest: the daemon ticks, Spark's server is at work, and no run is.

Each of the two shards has new records, and eight others have some that the run leaves alone. The exit code is 1 if the median is above 20 s.
Measure it on a quiet machine: most of it is the start of a process. A backfill adds up to 30 s before that, because Dagster's daemon looks
for new backfills each 30 s.

    python bench/named_shards.py            seven runs
    python bench/named_shards.py --quick    three runs, about two minutes
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from bench.idle import Deployment, deployment
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.resources.runs import AllRuns, all_runs_in

MOST = 20.0
"""Seconds."""
SHARDS = 10
NAME = "named"
REST = 5.0
"""Seconds without a run before the next one is launched."""
PATIENCE = 600.0
"""Seconds, on a machine with much other work."""
# The worker's sensor would read the new records before the person does.
_SETTINGS = """
application: named
streams: [{{name: named}}]
workers: [{{id: w1}}]
landing: {{home: lake}}
times: {{idle: 1s, linger: 1s, probe: 1h}}
aws: {{region: {region}, endpoint: '{endpoint}'}}
"""
_LAUNCH = """
mutation($params: ExecutionParams!) {
  launchPipelineExecution(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}
"""
_STATUS = "query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
_PARTITIONS = """
query { assetNodes(assetKeys: [{path: ["named", "records"]}]) { partitionKeys repository { name location { name } } } }
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="three runs")
    tries = 3 if parser.parse_args().quick else 7
    with tempfile.TemporaryDirectory(prefix="headrace-named-") as name, local_aws("--transition", "0") as aws:
        aws.client("kinesis").create_stream(StreamName=NAME, ShardCount=SHARDS)
        settings = _SETTINGS.format(region=aws.region, endpoint=aws.endpoint)
        with deployment(Path(name) / "home", aws, settings) as started, all_runs_in(started.home) as runs:
            seconds = [_one(started, runs, aws) for _ in range(tries)]
    median = statistics.median(seconds)
    print(f"median {median:.1f} s from the launch to the end of a run over two shards; allowed: {MOST:.0f}")
    return int(median > MOST)


def _one(started: Deployment, runs: AllRuns, aws: LocalAws) -> float:
    keys, repository, location = _wait_for_rest(started, runs)
    _put(aws)
    tags = {"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[1]}
    params = {
        "selector": {
            "repositoryName": repository,
            "repositoryLocationName": location,
            "jobName": f"{NAME}_consume",
        },
        "mode": "default",
        "runConfigData": {},
        "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
    }
    began = time.monotonic()
    answer = _ask(started, _LAUNCH, {"params": params})["launchPipelineExecution"]
    if answer["__typename"] != "LaunchRunSuccess":
        sys.exit(f"Dagster didn't launch the run: {answer}")
    run = answer["run"]["runId"]
    while (status := _ask(started, _STATUS, {"id": run})["runOrError"]["status"]) not in (
        "SUCCESS",
        "FAILURE",
    ):
        time.sleep(0.1)
    took = time.monotonic() - began
    print(f"{took:5.1f} s, {status}", flush=True)
    if status == "FAILURE":
        sys.exit("\n".join(entry.user_message for entry in runs.instance.all_logs(run)))
    return took


def _wait_for_rest(started: Deployment, runs: AllRuns) -> tuple[list[str], str, str]:
    """Wait until Dagster knows all partitions and no run is at work. Returns partitions, repository and location."""
    until, quiet_since = time.monotonic() + PATIENCE, None
    while time.monotonic() < until:
        (asset,) = _ask(started, _PARTITIONS, {})["assetNodes"] or [{"partitionKeys": []}]
        if len(asset["partitionKeys"]) < SHARDS or not runs.instance.get_runs_count() or runs.at_work():
            quiet_since = None
        else:
            quiet_since = quiet_since or time.monotonic()
            if time.monotonic() - quiet_since >= REST:
                return (
                    asset["partitionKeys"],
                    asset["repository"]["name"],
                    asset["repository"]["location"]["name"],
                )
        time.sleep(0.5)
    sys.exit(f"no rest within {PATIENCE:.0f} s; Dagster's log: {started.dagster.log}")


def _put(aws: LocalAws) -> None:
    width = 2**128 // SHARDS
    records = [
        {"Data": b"x" * 200, "PartitionKey": f"customer-{n}", "ExplicitHashKey": str(n % SHARDS * width)}
        for n in range(100)
    ]
    aws.client("kinesis").put_records(StreamName=NAME, Records=records)


def _ask(started: Deployment, query: str, variables: Mapping[str, object]) -> dict[str, Any]:
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = Request(f"http://127.0.0.1:{started.port}/graphql", body, {"Content-Type": "application/json"})
    with urlopen(request) as answer:
        content = json.loads(answer.read())
    if content.get("errors"):
        sys.exit(f"Dagster refuses the query: {content['errors']}")
    data: dict[str, Any] = content["data"]
    return data


if __name__ == "__main__":
    sys.exit(main())
