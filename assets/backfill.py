"""The assets of the setting `dagster.backfill`: they parse or copy landed records once more, by the hour or day
at which the records arrived.

    <application>/<namespace>/<table>_again    parses the records of its partitions again, and replaces their rows
    <application>/copies                       copies the records of its partitions into a table of their own

A run makes the window of its partitions itself, or goes on with the window that an earlier run has begun. Records
that the present code has parsed already are left as they are, so that asking for too many partitions does no
harm.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Any

import dagster as dg

from headrace.assets.changes import redone_metadata
from headrace.assets.failure import RunFailed
from headrace.assets.names import again_key, copies_key, records_key, replay_pool, resource_key, slug
from headrace.assets.redoing import first_run, redo
from headrace.assets.shown import Layer, code_version, shown_metadata, table_name
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.choices import Period
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.windows.backfill import Chosen, HoursOfPartition

_PATIENCE = 20
"""How often in a row other runs may overtake a wave. Each time another run has done a wave of the same shards."""

_CONFIG = {
    "again": dg.Field(
        bool,
        default_value=False,
        description="Also records that the present code has parsed, or that were copied, already.",
    ),
    "incomplete": dg.Field(
        bool,
        default_value=False,
        description="Also hours or days into which more records may come: what has landed of them so far.",
    ),
}


def build_backfills(wiring: Wiring) -> list[dg.AssetsDefinition]:
    settings = wiring.settings
    partitions = _partitions(settings)
    if partitions is None:
        return []
    # Which row of an event stayed was decided by rows of other hours, too, so that such a target can't be replaced by
    # the hour.
    targets = [target for target in settings.parse if not (target.unique.by or target.is_latest)]
    assets = [_build(wiring, partitions, target) for target in targets]
    return [*assets, _build(wiring, partitions, None)] if settings.dagster.backfill.copies else assets


def _partitions(settings: Settings) -> dg.TimeWindowPartitionsDefinition | None:
    backfill = settings.dagster.backfill
    if backfill.by is None or backfill.since is None:
        return None
    since = backfill.since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    if backfill.by is Period.HOUR:
        return dg.HourlyPartitionsDefinition(start_date=since)
    return dg.DailyPartitionsDefinition(start_date=since.replace(hour=0))


def _build(
    wiring: Wiring, partitions: dg.TimeWindowPartitionsDefinition, target: ParseSettings | None
) -> dg.AssetsDefinition:
    settings = wiring.settings

    @dg.asset(
        key=copies_key(settings) if target is None else again_key(settings, target),
        partitions_def=partitions,
        # "Materialize all" takes all shards, and what depends on them: no partition of this asset does. By default Dagster
        # would look for a shard with the name of the hour, and call it missing.
        deps=[
            dg.AssetDep(records_key(settings), partition_mapping=dg.SpecificPartitionsPartitionMapping([]))
        ],
        description=_copies(settings) if target is None else _again(settings, target),
        kinds={"pyspark", "iceberg"},
        code_version=code_version() if target is None else f"{code_version()}/{target.version}",
        metadata={} if target is None else table_name(target.table),
        **shown_metadata(settings, Layer.BACKFILL),
        # Partitions are materialized by events: those into which more records may come aren't.
        output_required=False,
        required_resource_keys={resource_key(settings, "spark")},
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=replay_pool(settings),
        config_schema=_CONFIG,
    )
    def backfill(context: dg.AssetExecutionContext) -> Iterator[Any]:
        _Run(wiring, context, target).run(_spans(partitions, context.partition_keys))
        # A function that returns has an output, and Dagster would materialize all partitions once more.
        yield from ()

    return backfill


def _again(settings: Settings, target: ParseSettings) -> str:
    return (
        f"Parses records of `{settings.landing.table}` again, by the present code: one partition is one "
        f"{settings.dagster.backfill.by} (UTC) of arrival. The rows of `{target.table}` and `{target.quarantine}` that "
        "were made of these records before are replaced, and no other row. Records that this version and this code "
        f"have parsed already stay as they are. A range of partitions is one run. `{slug(settings.application)}_replay` "
        "takes any time, and single shards."
    )


def _copies(settings: Settings) -> str:
    return (
        f"Copies records of `{settings.landing.table}`: one partition is one {settings.dagster.backfill.by} (UTC) of "
        f"arrival. Each run makes a table `{settings.landing.table}_window_<id>` with the records of its partitions; "
        "its name is in the metadata. Partitions that were copied together stay as they are."
    )


def _spans(
    partitions: dg.TimeWindowPartitionsDefinition, keys: Sequence[str]
) -> tuple[HoursOfPartition, ...]:
    windows = ((key, partitions.time_window_for_partition_key(key)) for key in sorted(keys))
    word = "the hour" if isinstance(partitions, dg.HourlyPartitionsDefinition) else "the day"
    return tuple(HoursOfPartition(f"{word} {key}", key, window.start, window.end) for key, window in windows)


class _Run:
    """One run of an asset."""

    def __init__(
        self, wiring: Wiring, context: dg.AssetExecutionContext, target: ParseSettings | None
    ) -> None:
        self._wiring, self._context, self._target = wiring, context, target

    def run(self, spans: Sequence[HoursOfPartition]) -> None:
        try:
            chosen = self._choose(spans)
        except HeadraceError as error:
            raise RunFailed(str(error), {}) from error
        self._context.log.info(chosen.sentence)
        metadata: dict[str, Any] = {"in short": dg.MetadataValue.text(chosen.sentence)}
        if (window := chosen.window) is not None:
            table = self._wiring.windows.table_of(window)
            waves = redo(self._context, self._wiring, window, table, patience=_PATIENCE)
            metadata |= redone_metadata(window, table, waves)
        if len(chosen.done) > 1:
            metadata["counted over"] = dg.MetadataValue.text(counted(len(chosen.done), "partition"))
        for span in chosen.done:
            self._context.log_event(
                dg.AssetMaterialization(self._context.asset_key, partition=span.key, metadata=metadata)
            )
        if chosen.late:
            raise RunFailed(_left_out(chosen), metadata)

    def _choose(self, spans: Sequence[HoursOfPartition]) -> Chosen:
        windows, config = self._wiring.windows, self._context.op_execution_context.op_config
        target = self._target
        return windows.backfilling(first_run(self._context)).choose(
            spans,
            target=target,
            ports=None if target is None else self._wiring.ports.parsing(target, self._context.run.run_id),
            anew=config["again"],
            take_late=config["incomplete"],
        )


def _left_out(chosen: Chosen) -> str:
    late = counted(len(chosen.late), "partition")
    return (
        f"more records may come into {late} ({chosen.late[0].name} and later), which the run has left out; "
        f"{counted(len(chosen.done), 'partition')} before are done. Materialize the others when the lake table is "
        "complete up to their end"
    )
