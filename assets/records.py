"""`<application>/records`: the landed records. One partition is one shard.

    list mode        a worker's sensor asks for all that is due; shards come and go from wave to wave
    partition mode   a person or a backfill asks for shards by name: catch up to the tip as of now

Both go the same way, through the claim on the lease row, so that neither can hurt the other.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from assets.consumption import Parts
from assets.names import partitions_name, records_key, require_known
from assets.reporter import Reporter
from assets.waves import Run
from pipeline.clock import SystemClock
from pipeline.core.words import counted
from pipeline.duties.wave import Arrow, OnArrow, WaveReport
from pipeline.errors import BadSetting, HeadraceError, Transient
from pipeline.settings import Settings
from resources.lake import LakeResource
from resources.lease_tables import LeaseTablesResource
from resources.runs import FAILED_TAG, PASSING_TAG, DagsterRuns
from resources.spark import SparkResource
from resources.stream import StreamResource

_FAILED_KEYS_TOLD = 200


class RecordsConfig(dg.Config):
    """What a run is asked to read."""

    worker: str | None = Field(default=None, description="The worker that reads. Needed without partitions.")
    shards: list[str] = Field(default=[], description="Lease keys. Empty: everything that the worker owns.")
    over: list[str] = Field(default=[], description="Claims of runs that the worker's sensor judged dead.")
    later: list[str] = Field(default=[], description="Lease keys that failed lately and are left alone.")
    due: list[str] = Field(
        default=[],
        description="Lease keys that have something to read: read at once, and told to Dagster at once.",
    )
    recovering: list[str] = Field(default=[], description="Lease keys that failed in the run before.")


def build_records(settings: Settings, on_arrow: OnArrow | None = None) -> dg.AssetsDefinition:
    """`on_arrow` hears each step of each wave, after Dagster was told: tests cut runs there."""

    @dg.asset(
        key=records_key(settings),
        partitions_def=dg.DynamicPartitionsDefinition(name=partitions_name(settings)),
        deps=[asset.key for asset in streams_outside(settings)],
        description=__doc__,
        kinds={"kinesis", "pyspark", "iceberg"},
        output_required=False,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def records(
        context: dg.AssetExecutionContext,
        config: RecordsConfig,
        lease_tables: LeaseTablesResource,
        stream: StreamResource,
        lake: LakeResource,
        spark: SparkResource,
    ) -> Iterator[Any]:
        parts = Parts(
            settings=settings,
            lease_tables=lease_tables,
            stream=stream,
            lake=lake,
            spark=spark,
            runs=DagsterRuns(context.instance),
        )
        _Execution(context, config, parts, on_arrow).run()
        yield from ()  # a generator that yields no output: its events say what happened

    return records


def streams_outside(settings: Settings) -> list[dg.AssetSpec]:
    """The streams that Headrace reads: shown in the graph, never materialized here."""
    named = [
        dg.AssetSpec(
            ["kinesis", s.name.rpartition("/")[2]],
            description=f"The Kinesis stream {s.name}, read from {s.initial_position.value}.",
            kinds={"kinesis"},
        )
        for s in settings.streams
    ]
    how = settings.discovery
    if not how.is_asked_for:
        return named
    wanted = [f"names begin with {how.prefix}"] if how.prefix else []
    wanted += [f"tag {name} is {value}" for name, value in sorted(how.tags.items())]
    found = dg.AssetSpec(
        ["kinesis", "found"],
        description=f"The Kinesis streams whose {' and whose '.join(wanted)}, read from {how.initial_position.value}.",
        kinds={"kinesis"},
    )
    return [*named, found]


class _Execution:
    """One run of the asset."""

    def __init__(
        self, context: dg.AssetExecutionContext, config: RecordsConfig, parts: Parts, on_arrow: OnArrow | None
    ) -> None:
        self._context = context
        self._config = config
        self._parts = parts
        self._heard_by = on_arrow
        is_asked = context.has_partition_key or context.has_partition_key_range
        self._partitions = tuple(context.partition_keys) if is_asked else ()
        self._unread = set(self._asked)
        """Asked for by name, and no worker has begun with them."""
        self._failed: dict[str, str] = {}
        self._last_claimed: tuple[str, ...] = ()
        self._run: Run | None = None
        self._reporter = Reporter(
            context=context,
            partitions=partitions_name(parts.settings),
            throttle=parts.settings.times.materialize,
            clock=SystemClock(),
            announced_by_dagster=frozenset(self._partitions),
            recovering=frozenset(config.recovering),
        )

    def run(self) -> None:
        try:
            self._read()
        except HeadraceError as error:
            at_work = self._run.waiting if self._run else ()
            open_keys = (*self._unread, *at_work, *self._last_claimed)
            self._failed.update(dict.fromkeys(open_keys, str(error)))
            if isinstance(error, Transient):
                self._context.instance.add_run_tags(self._context.run.run_id, {PASSING_TAG: "true"})
            self._fail(str(error))
        if self._failed:
            first = min(self._failed)
            self._fail(f"{counted(len(self._failed), 'shard')} failed; {first}: {self._failed[first]}")
        self._reporter.finish(())

    @property
    def _asked(self) -> tuple[str, ...]:
        return self._partitions or tuple(self._config.shards)

    def _read(self) -> None:
        if not self._asked:
            if self._config.worker is None:
                raise BadSetting(
                    "a run without partitions needs `worker` in its config: materialize shards by their partition, or "
                    "leave it to the worker's sensor; nothing was read"
                )
            self._as_worker(self._config.worker, None)
            return
        require_known(self._asked, self._parts.lease_tables.leases())
        for worker, keys in self._parts.workers_of(self._asked).items():
            self._as_worker(worker, keys)

    def _as_worker(self, worker_id: str, keys: tuple[str, ...] | None) -> None:
        with self._parts.reading(
            worker_id,
            self._context.run.run_id,
            on_wave=self._on_wave,
            on_arrow=self._on_arrow,
            over=frozenset(self._config.over),
            later=frozenset(self._config.later),
            due=frozenset(self._config.due),
        ) as run:
            self._run = run
            self._unread -= set(keys or ())
            self._drive(run, keys)

    def _drive(self, run: Run, keys: tuple[str, ...] | None) -> None:
        try:
            if keys is None:
                run.all_that_is_due()
            else:
                self._failed |= run.catch_up(keys)
        finally:
            self._failed |= run.consumption.failed

    def _on_arrow(self, arrow: Arrow, keys: tuple[str, ...]) -> None:
        if arrow is Arrow.CLAIMED:
            self._last_claimed = keys
            # A shard that only may have news is announced once it has: quiet ones cost Dagster nothing.
            expected = {*self._config.due, *(self._run.consumption.expected() if self._run else ())}
            self._reporter.claimed(key for key in keys if key in expected)
        if self._heard_by is not None:
            self._heard_by(arrow, keys)

    def _on_wave(self, report: WaveReport) -> None:
        self._last_claimed = ()  # an error before the next wave's claims is no failure of these shards
        self._context.log.info(str(report))
        for note in report.notes:
            self._context.log.warning(note)
        for problem in report.problems:
            self._context.log.info("%s: %s", problem.lease_key, problem.why)
        self._reporter.heard(report)

    def _fail(self, sentence: str) -> None:
        self._reporter.finish(self._failed)
        told = sorted(self._failed)[:_FAILED_KEYS_TOLD]
        self._context.instance.add_run_tags(self._context.run.run_id, {FAILED_TAG: ",".join(told)})
        metadata = {key: dg.MetadataValue.text(self._failed[key]) for key in told}
        raise dg.Failure(description=sentence, metadata=metadata, allow_retries=False)
