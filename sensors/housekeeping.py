"""What each deployment's leader sensor does for its own Dagster, whether it leads or not: remove partitions that name no shard, and old runs."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

import dagster as dg
from sqlalchemy.exc import SQLAlchemyError

from headrace.assets.names import lineage_key, parsed_key, partitions_name, records_key
from headrace.pipeline.core.words import counted
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.wiring import Wiring
from headrace.resources.old_runs import ApplicationRuns, OldRuns
from headrace.resources.strange_partitions import StrangePartitions


class Housekeeping:
    """What each deployment's sensor does for its own Dagster, whether it leads or not."""

    def __init__(self, wiring: Wiring, jobs: Sequence[str]) -> None:
        settings = wiring.settings
        shards = records_key(settings)
        own = ApplicationRuns(
            application=settings.application,
            jobs=jobs,
            workers=[worker.id for worker in settings.workers],
            shards=shards,
            assets=[lineage_key(settings), *(parsed_key(settings, target) for target in settings.parse)],
        )
        self._runs = OldRuns(own=own, keep_for=settings.upkeep.keep_runs, clock=wiring.ports.clock)
        self._partitions = StrangePartitions(name=partitions_name(settings), asset=shards, ports=wiring.ports)

    def of(self, context: dg.SensorEvaluationContext, instance: dg.DagsterInstance) -> Iterator[str]:
        """Sentences about what was done."""
        with suppress(HeadraceError):  # where the lease table can't be read, the leader's own tick tells it
            if gone := self._partitions.remove(instance):
                yield f"removed from Dagster's partitions, because no shard has the name: {', '.join(gone)}"
        try:
            if deleted := self._runs.delete_some(instance):
                yield f"{counted(deleted, 'old run')} deleted from Dagster"
        except (OSError, SQLAlchemyError) as error:
            context.log.error(  # noqa: TRY400 - a sentence, no stack
                "old runs couldn't be deleted from Dagster's storage; the next look is in ten minutes: %s",
                error,
            )
