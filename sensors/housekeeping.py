"""The chores of each deployment's leader sensor for its own Dagster, whether the deployment leads or not:
removing partitions that name no shard, old runs, and old ticks.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from headrace.assets.names import lineage_key, parsed_key, partitions_name, processor_key, records_key
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import HeadraceError
from headrace.resources.old_runs import ApplicationRuns, OldRuns
from headrace.resources.old_ticks import OldTicks
from headrace.resources.strange_partitions import StrangePartitions


class Housekeeping:
    """The chores of each deployment's leader sensor for its own Dagster, whether the deployment leads or not."""

    def __init__(self, wiring: Wiring, jobs: Sequence[str], sensors: Sequence[str]) -> None:
        settings = wiring.settings
        shards = records_key(settings)
        own = ApplicationRuns(
            application=settings.application,
            jobs=jobs,
            workers=[worker.id for worker in settings.workers],
            shards=shards,
            assets=[
                lineage_key(settings),
                *(parsed_key(settings, target) for target in settings.parse),
                *(processor_key(settings, processor) for processor in settings.processors),
            ],
        )
        self._runs = OldRuns(own=own, keep_for=settings.upkeep.keep_runs, clock=wiring.ports.clock)
        self._ticks = OldTicks(sensors=sensors, clock=wiring.ports.clock)
        self._partitions = StrangePartitions(name=partitions_name(settings), asset=shards, ports=wiring.ports)

    def of(self, context: dg.SensorEvaluationContext, instance: dg.DagsterInstance) -> Iterator[str]:
        """Do the chores that are due, and return sentences about what was done. No error leaves this method: the
        leader's turn is over by then, and Dagster keeps what the leader has seen only with the tick's result.
        Without that result, a leader would go on beating and never notice a death.
        """
        for what, work in (
            ("partitions that name no shard", self._remove_partitions),
            ("old runs", self._delete_runs),
            ("old ticks", self._delete_ticks),
            (
                "event files and logs of runs that are deleted already (they stay where they are)",
                self._delete_leavings,
            ),
        ):
            try:
                sentence = work(instance)
            except Exception as error:  # noqa: BLE001 - whatever Dagster's storage and its log manager raise
                context.log.error(  # noqa: TRY400 - a sentence, no stack
                    "%s couldn't be deleted from Dagster's storage (%s: %s). "
                    "The leader's own work isn't touched, and the deletion is tried again in ten minutes "
                    "at the latest",
                    what,
                    type(error).__name__,
                    error,
                )
            else:
                if sentence:
                    yield sentence

    def _remove_partitions(self, instance: dg.DagsterInstance) -> str:
        try:
            gone = self._partitions.remove(instance)
        # Where the lease table can't be read, the leader's own tick tells it.
        except HeadraceError:
            return ""
        return (
            f"removed from Dagster's partitions, because no shard has the name: {', '.join(gone)}"
            if gone
            else ""
        )

    def _delete_runs(self, instance: dg.DagsterInstance) -> str:
        deleted = self._runs.delete_some(instance)
        return f"{counted(deleted, 'old run')} deleted from Dagster" if deleted else ""

    def _delete_ticks(self, instance: dg.DagsterInstance) -> str:
        self._ticks.delete(instance)
        return ""

    def _delete_leavings(self, instance: dg.DagsterInstance) -> str:
        self._runs.delete_leavings(instance)
        return ""
