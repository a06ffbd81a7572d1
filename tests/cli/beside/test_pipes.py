"""What a process of `headrace consume` learns from the Dagster that has started it by Dagster Pipes, and tells it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

# Dagster's own client asks so.
pytestmark = pytest.mark.filterwarnings(
    "ignore:AssetExecutionContext.run_id is deprecated:DeprecationWarning"
)

_JOB = """
from headrace.pipeline.cli.beside.pipes import pipes_job

with pipes_job() as job:
    print(job.shards)
    job.ended({}, {"shardId-000000000007": (3, 5)}, {"shardId-000000000008": "AWS throttles"})
"""
_PARTITIONS = dg.StaticPartitionsDefinition(["shardId-000000000007", "shardId-000000000008"])


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def _materialized(
    instance: dg.DagsterInstance, folder: Path, partitions: dg.PartitionsDefinition | None, key: str | None
) -> dg.ExecuteInProcessResult:
    script = folder / "job.py"
    script.write_text(_JOB)

    @dg.asset(partitions_def=partitions)
    def landed(
        context: dg.AssetExecutionContext, pipes: dg.PipesSubprocessClient
    ) -> dg.MaterializeResult[None]:
        return pipes.run(command=[sys.executable, str(script)], context=context).get_materialize_result()

    return dg.materialize(
        [landed], resources={"pipes": dg.PipesSubprocessClient()}, instance=instance, partition_key=key
    )


def test_the_asset_that_started_the_job_is_materialized_with_what_has_landed(
    instance: dg.DagsterInstance, tmp_path: Path
):
    done = _materialized(instance, tmp_path, None, None)

    [event] = done.asset_materializations_for_node("landed")
    numbers = {name: event.metadata[name].value for name in ("records", "dagster/row_count", "failed shards")}
    assert numbers == {"records": 3, "dagster/row_count": 5, "failed shards": 1}
    said = [log.user_message for log in instance.all_logs(done.run_id)]
    assert "shardId-000000000008 failed: AWS throttles" in said


def test_the_partition_of_the_step_is_the_shard_to_read(
    instance: dg.DagsterInstance, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    _materialized(instance, tmp_path, _PARTITIONS, "shardId-000000000007")
    assert "('shardId-000000000007',)" in capfd.readouterr().out
