"""`headrace consume` as a job that Dagster has started elsewhere by Dagster Pipes: in Kubernetes, on EMR, by
spark-submit.

Dagster tells such a process by variables of its environment, and by a partition, where there is one, which shard
is meant. The process tells Dagster each wave as a line of the run's log, and at its end one materialization of
the asset. Claims, beats and releases don't involve Dagster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.pipeline.core.shards.partition import partition_of

if TYPE_CHECKING:
    from dagster_pipes import PipesContext

    from headrace.pipeline.duties.waves.report import Landed, WaveReport

CONTEXT = "DAGSTER_PIPES_CONTEXT"
"""The variable by which Dagster Pipes tells a process that it is a job of Dagster."""
_MOST_NAMED = 50
"""Shards in the materialization's table. Dagster keeps each event."""


@dataclass(frozen=True, slots=True)
class PipesJob:
    context: PipesContext | None
    """None where the process is no job of Dagster Pipes: then nothing is told."""

    @property
    def shards(self) -> tuple[str, ...]:
        """The shard that is the partition of the step; none where the step has no partition. Raises BadSetting."""
        from headrace.pipeline.errors import BadSetting

        if self.context is None or not self.context.is_partition_step:
            return ()
        keys = self.context.partition_key_range
        # Dynamic partitions have no order that a process outside of Dagster could know.
        if keys["start"] != keys["end"]:
            raise BadSetting(
                f"Dagster asks for the partitions from {keys['start']} to {keys['end']}, and a job of Dagster Pipes isn't told which lie between. "
                "Nothing was read; start a run for each partition (BackfillPolicy.multi_run), or leave the partitions out and name a worker"
            )
        return (keys["start"],)

    def waved(self, report: WaveReport) -> None:
        if self.context is not None:
            self.context.log.info(str(report))

    def ended(
        self, last: Mapping[str, Landed], counts: Mapping[str, tuple[int, int]], failed: Mapping[str, str]
    ) -> None:
        """Write a materialization of the asset with what has landed. `last`, `counts`: by lease key, as in
        `headrace consume`.
        """
        if self.context is None:
            return
        for key in sorted(failed):
            self.context.log.error("%s failed: %s", partition_of(key), failed[key])
        # An op's step has no asset to tell of, and of several assets nothing says which of them was
        # meant.
        if self.context.is_asset_step and len(self.context.asset_keys) == 1:
            self.context.report_asset_materialization(metadata=_metadata(last, counts, failed))


@contextmanager
def pipes_job() -> Iterator[PipesJob]:
    """The connection of this process to the Dagster that started it, during the `with` block. The package is
    imported only where Dagster has started the process.
    """
    if CONTEXT not in os.environ:
        yield PipesJob(None)
        return
    from dagster_pipes import open_dagster_pipes

    with open_dagster_pipes() as context:
        yield PipesJob(context)


def _metadata(
    last: Mapping[str, Landed], counts: Mapping[str, tuple[int, int]], failed: Mapping[str, str]
) -> dict[str, int | str]:
    named = sorted(last)[:_MOST_NAMED]
    return {
        "records": sum(records for records, _ in counts.values()),
        "dagster/row_count": sum(rows for _, rows in counts.values()),
        "shards": len(last),
        "shards at their ends": sum(landed.staged.upto.ended for landed in last.values()),
        "failed shards": len(failed),
        "positions": "\n".join(f"{partition_of(key)}: {last[key].staged.upto}" for key in named),
    }
