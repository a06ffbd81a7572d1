"""A person executes a run of a backfill again in Dagster's UI, by the UI's own request: the run had failed, or somebody had cancelled it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.errors import DagsterExecutionInterruptedError

from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.errors import Unreachable
from tests.dagster.backfills import WARNINGS_OF_DAGSTER, Backfills, backfills_of
from tests.dagster.world import DagsterWorld, keys

pytestmark = [pytest.mark.slow, *(pytest.mark.filterwarnings(warning) for warning in WARNINGS_OF_DAGSTER)]

FAILED, CANCELLED = Unreachable("Spark is gone"), DagsterExecutionInterruptedError()


@dataclass
class Cut:
    """Ends one run at a step."""

    step: WaveStep | None = None
    by: BaseException = FAILED
    instance: dg.DagsterInstance | None = None

    def __call__(self, step: WaveStep, keys: tuple[str, ...]) -> None:
        if keys and step == self.step:
            self.step = None
            if self.by is CANCELLED:
                self._ask_to_cancel()
            raise self.by

    def _ask_to_cancel(self) -> None:
        """As a person does in Dagster's UI, which then interrupts the run."""
        assert self.instance is not None
        (run,) = self.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        self.instance.report_run_canceling(run)


@pytest.fixture
def cut() -> Cut:
    return Cut()


@pytest.fixture
def served(tmp_path: Path, cut: Cut) -> Iterator[tuple[DagsterWorld, Backfills]]:
    with dg.DagsterInstance.ephemeral() as unused:
        world = DagsterWorld(instance=unused, on_step=cut)
        with backfills_of(world.defs, tmp_path) as backfills:
            world.instance = cut.instance = backfills.instance
            world.settle()
            yield world, backfills


@pytest.mark.parametrize(
    ("by", "status", "step", "strategy"),
    [
        (FAILED, dg.DagsterRunStatus.FAILURE, WaveStep.COMMITTED, "ALL_STEPS"),
        (FAILED, dg.DagsterRunStatus.FAILURE, WaveStep.STAGED, "FROM_FAILURE"),
        (CANCELLED, dg.DagsterRunStatus.CANCELED, WaveStep.COMMITTED, "FROM_FAILURE"),
        (CANCELLED, dg.DagsterRunStatus.CANCELED, WaveStep.CLAIMED, "ALL_STEPS"),
    ],
)
def test_a_run_of_shards_that_is_executed_again_reads_them_and_lands_each_record_once(
    served: tuple[DagsterWorld, Backfills],
    cut: Cut,
    by: BaseException,
    status: dg.DagsterRunStatus,
    step: WaveStep,
    strategy: str,
):
    world, backfills = served
    for shard in (0, 1):
        world.world.produce(shard, 5)
    cut.step, cut.by = step, by
    backfill = backfills.done([world.records], partitionNames=keys(0, 1))
    (first,) = backfills.runs(backfill)
    assert first.status == status
    world.world.produce(0, 5)
    again = backfills.executed_again(first.run_id, strategy)
    assert again.status == dg.DagsterRunStatus.SUCCESS
    assert again.tags["dagster/parent_run_id"] == first.run_id
    assert world.statuses() == {"MATERIALIZED": keys(0, 1)}
    third = backfills.executed_again(again.run_id, "ALL_STEPS")
    assert third.status == dg.DagsterRunStatus.SUCCESS, "there is nothing left to read, which is no mistake"
    world.world.check()
