"""`<application>/records`: the landed records. One partition is one shard.

    list mode        a worker's sensor asks for a run over all shards that have something to read
    partition mode   a person or a backfill names shards, which are read up to their newest record

In both modes a run claims each shard in its lease row before it reads the shard, so that no two runs read one shard.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import dagster as dg

from headrace.assets.failure import RunFailed
from headrace.assets.names import leases_key, partitions_name, records_key, resource_key
from headrace.assets.outside import streams_outside
from headrace.assets.progress import Progress
from headrace.assets.record_columns import RECORD_COLUMNS
from headrace.assets.records_config import CONFIG_SCHEMA, RecordsConfig, read_config
from headrace.assets.reporter import Reporter
from headrace.assets.shown import (
    Layer,
    code_version,
    freshness,
    list_of,
    schema_of,
    shown_metadata,
    source_kind,
    table_name,
    totals,
)
from headrace.pipeline.app.wiring import Hints, Wiring
from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.shards.partition import lease_key_of, partition_of
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.cost.prices import prices_of
from headrace.pipeline.duties.waves.report import OnStep, WaveReport, WaveStep
from headrace.pipeline.duties.waves.run import RunEnding
from headrace.pipeline.errors import BadSetting, HeadraceError, Unknown
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.stream_names import name_in
from headrace.resources.lease_tables import LeaseTablesResource
from headrace.resources.runs import FAILED_TAG, PASSING_TAG, DagsterRuns

# Failed shards that a run's tag and metadata name: Dagster copies both into several of its tables.
_MOST_FAILED_KEYS = 200

_RESOURCES = ("lease_tables", "stream", "lake", "spark")


def build_records(wiring: Wiring, on_step: OnStep | None = None) -> dg.AssetsDefinition:
    """The asset of landed records, with a partition for each shard.

    `on_step` is called at each step of each wave, after the step was reported to Dagster: tests end runs there.
    """
    settings = wiring.settings

    @dg.asset(
        key=records_key(settings),
        partitions_def=dg.DynamicPartitionsDefinition(name=partitions_name(settings)),
        deps=[*(stream.key for stream in streams_outside(settings)), leases_key(settings)],
        description=_description(settings),
        kinds={source_kind(settings), "pyspark", "iceberg"},
        code_version=code_version(),
        metadata={**table_name(settings.landing.table), "dagster/column_schema": schema_of(RECORD_COLUMNS)},
        freshness_policy=freshness(settings),
        **shown_metadata(settings, Layer.LANDING),
        # Shards are materialized by events, and not by the return of the function.
        output_required=False,
        required_resource_keys={resource_key(settings, name) for name in _RESOURCES},
        # One run for all shards of a backfill: Dagster's default is a run for each.
        backfill_policy=dg.BackfillPolicy.single_run(),
        config_schema=CONFIG_SCHEMA,
        pool=settings.dagster.pools.get("records"),
    )
    def records(
        context: dg.AssetExecutionContext,
    ) -> Iterator[Any]:
        lease_tables: LeaseTablesResource = getattr(context.resources, resource_key(settings, "lease_tables"))
        config = read_config(context.op_execution_context.op_config)
        RunOfShards(context, config, lease_tables.wiring, on_step).run()
        # The run's own events say what happened, so that it yields no output. But Dagster skips the assets
        # after it that a person has selected for the same run, unless there is one.
        if (context.run.asset_selection or frozenset()) - {context.asset_key}:
            yield dg.MaterializeResult()

    return records


def _description(settings: Settings) -> str:
    streams = [name_in(stream.name) for stream in settings.streams]
    found = ["the streams that it finds by `discovery`"] if settings.discovery.is_asked_for else []
    read = " and ".join([*([list_of(streams)] if streams else []), *found])
    return (
        f"Iceberg table `{settings.landing.table}`: each record of {read}, once and in the order of its shard, with its "
        "payload untouched. One partition is one shard. The workers' sensors keep it up to date by themselves; "
        "materializing partitions reads these shards up to their newest record."
    )


class RunOfShards:
    """One run of an asset whose partitions are shards: it reads the shards, and reports them to Dagster."""

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        config: RecordsConfig,
        wiring: Wiring,
        on_step: OnStep | None,
    ) -> None:
        self._context = context
        self._config = config
        self._on_reported_step = on_step
        is_asked = context.has_partition_key or context.has_partition_key_range
        partitions = tuple(context.partition_keys) if is_asked else ()
        self._asked = tuple(map(lease_key_of, partitions or config.shards))
        self._ports, self._settings, hints = wiring.ports, wiring.settings, config.hints
        self._reading = wiring.reading(
            context.run.run_id,
            DagsterRuns(context.instance, wiring.settings.application),
            on_wave=self._on_wave,
            on_waiting=context.log.info,
            on_step=self._on_step,
            hints=Hints(
                dead_claims=frozenset(hints.dead_claims),
                left_alone=frozenset(hints.left_alone),
                due=frozenset(hints.due),
                failing=frozenset((*hints.recovering, *hints.left_alone)),
                retry_after=hints.retry_after,
            ),
        )
        self._progress = Progress(SystemClock())
        self._reporter = Reporter(
            context=context,
            partitions=partitions_name(wiring.settings),
            throttle=wiring.settings.times.materialize,
            clock=SystemClock(),
            totals=lambda: totals(wiring.ports, wiring.settings.landing.table),
            prices=prices_of(wiring.settings.prices),
            spent=wiring.ports.spending(),
            is_by_fan_out=lambda stream: wiring.settings.is_by_fan_out(stream.name),
            announced_by_dagster=frozenset(map(lease_key_of, partitions)),
            recovering=frozenset(hints.recovering),
        )

    def run(self) -> None:
        try:
            ending = self._read()
        except BaseException:
            # Dagster's own exception for a run that is terminated is no Exception.
            self._reporter.settle()
            raise
        if (line := self._progress.ended()) is not None:
            self._context.log.info(line)
        self._reporter.tell_run(self._progress.metadata())
        if ending.error is not None:
            if ending.is_passing:
                self._context.instance.add_run_tags(self._context.run.run_id, {PASSING_TAG: "true"})
            self._fail(ending.failed, str(ending.error))
        if ending.failed:
            first = min(ending.failed)
            shards = counted(len(ending.failed), "shard")
            self._fail(ending.failed, f"{shards} failed; {partition_of(first)}: {ending.failed[first]}")
        self._observe(())
        self._reporter.finish(())

    def _read(self) -> RunEnding:
        if self._asked:
            return self._reading.shards(self._asked)
        if (worker := self._config.worker) is not None:
            configured = [configured_worker.id for configured_worker in self._settings.workers]
            if worker in configured:
                return self._reading.everything_due(worker)
            unknown = (
                f"no worker {worker!r} is configured (there are: {', '.join(configured)}); nothing was read"
            )
            return RunEnding({}, Unknown(unknown))
        why = BadSetting(
            "a run without partitions needs `worker` in its config: materialize shards by their partitions, or "
            "let the worker's sensor start runs; nothing was read"
        )
        return RunEnding({}, why)

    def _on_step(self, step: WaveStep, keys: tuple[str, ...]) -> None:
        if step is WaveStep.CLAIMED:
            # A shard that may have no new record is announced once it has one: an announcement costs Dagster 7-11 ms.
            expected = {*self._config.hints.due, *self._reading.expected()}
            self._reporter.claimed(key for key in keys if key in expected)
        if self._on_reported_step is not None:
            self._on_reported_step(step, keys)

    def _on_wave(self, report: WaveReport) -> None:
        if (line := self._progress.waved(report)) is not None:
            self._context.log.info(line)
        for note in report.notes:
            self._context.log.warning(note)
        for problem in report.problems:
            log = self._context.log.warning if problem.fatal else self._context.log.info
            log("%s: %s", partition_of(problem.lease_key), problem.why)
        self._reporter.waved(report)

    def _observe(self, failed: Iterable[str]) -> None:
        """Tell of the shards that fail as their lease rows do, also of those that this run has left alone."""
        keys = sorted({*failed, *self._config.hints.left_alone})[:_MOST_FAILED_KEYS]
        if not keys:
            return
        try:
            rows = self._ports.leases().get_many(keys).leases
        except HeadraceError as error:
            self._context.log.warning("the lease rows of the failing shards couldn't be read: %s", error)
        else:
            failing = [row for row in rows if row.failure is not None]
            self._reporter.observe(failing, self._ports.clock.now())

    def _fail(self, failed: dict[str, str], sentence: str) -> None:
        self._observe(failed)
        self._reporter.finish(failed)
        named = sorted(failed)[:_MOST_FAILED_KEYS]
        tags = {FAILED_TAG: ",".join(map(partition_of, named))}
        self._context.instance.add_run_tags(self._context.run.run_id, tags)
        metadata = {partition_of(key): dg.MetadataValue.text(failed[key]) for key in named}
        raise RunFailed(sentence, metadata)
