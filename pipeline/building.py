"""Dagster's definitions of one application, made from its settings.

Each name in them contains the application's name, because one code location may have several applications, beside
a project's own assets, resources, sensors and executor.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import dagster as dg

from headrace.assets.applications import application_job, build_application
from headrace.assets.backfill import build_backfills
from headrace.assets.checks import build_checks
from headrace.assets.follow import build_follow
from headrace.assets.lineage import build_lineage
from headrace.assets.names import resource_key, slug
from headrace.assets.outside import outside
from headrace.assets.parsed import build_parsed
from headrace.assets.processors import build_processor, process_job
from headrace.assets.prove import build_prove
from headrace.assets.records import build_records
from headrace.assets.redrive import build_redrive
from headrace.assets.replay import build_replay
from headrace.assets.schedules import build_schedules
from headrace.assets.upkeep import build_upkeep
from headrace.pipeline.app.application_wiring import wire_application
from headrace.pipeline.app.ports import Ports
from headrace.pipeline.app.wiring import Wiring, wire
from headrace.pipeline.duties.waves.report import OnStep
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.file import read_settings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.targets import landed_processors, processor_applications
from headrace.resources.ended_runs import end_cancelled_runs
from headrace.resources.instance import KeptInstance
from headrace.resources.kept_spark import keep_spark
from headrace.resources.lake import LakeResource
from headrace.resources.lease_tables import LeaseTablesResource
from headrace.resources.spark import SparkResource
from headrace.resources.stream import StreamResource
from headrace.sensors.leader import build_leader
from headrace.sensors.parsed import build_parse_sensor
from headrace.sensors.processors import build_processor_sensor
from headrace.sensors.watch import build_watch
from headrace.sensors.worker import build_worker


def build_definitions(
    settings: Settings | str | PathLike[str], on_step: OnStep | None = None, *, ports: Ports | None = None
) -> dg.Definitions:
    """Assets, sensors, jobs, schedules and the resources of one application, to be merged with those of a project.

    `settings`: the path of a settings file (environment variables HEADRACE_... aren't used), or settings that
    were read already. No request goes to AWS before the first tick.

    For tests: `on_step` is called between the steps of a wave and may end the run there; `ports` are used instead
    of AWS.
    """
    with warnings.catch_warnings():
        # Dagster warns of each of its parameters that may change. Headrace chose them, for the versions of Dagster that it asks for.
        warnings.simplefilter("ignore", dg.BetaWarning)
        return _definitions(settings, on_step, ports)


def _definitions(
    settings: Settings | str | PathLike[str], on_step: OnStep | None, ports: Ports | None
) -> dg.Definitions:
    if not isinstance(settings, Settings):
        settings = read_settings(Path(settings), {}).settings
    if ports is None:
        keep_spark(settings)
        end_cancelled_runs()
    wiring = wire(settings) if ports is None else Wiring(settings, ports)
    instance = KeptInstance()
    records = build_records(wiring, on_step)
    processors = [build_processor(wiring, processor) for processor in landed_processors(settings)]
    jobs = _jobs(wiring, records, processors)
    definitions = dg.Definitions(
        assets=_assets(wiring, records, processors),
        asset_checks=[build_checks(wiring)],
        jobs=list(jobs),
        schedules=list(build_schedules(settings, upkeep=jobs.upkeep, proof=jobs.prove)),
        sensors=_sensors(wiring, instance, jobs),
        resources=_resources(wiring),
    )
    applications = (
        _application(settings, processor, instance, on_step) for processor in processor_applications(settings)
    )
    return dg.Definitions.merge(definitions, *applications)


@dataclass(frozen=True, slots=True)
class _Jobs:
    """The jobs of an application that lands records."""

    consume: Any
    upkeep: Any
    prove: Any
    replay: Any
    follow: Any | None
    """None without typed tables."""
    process: Any | None
    """None without processors."""
    redrives: tuple[Any, ...]

    def __iter__(self) -> Iterator[Any]:
        optional = (job for job in (self.follow, self.process) if job is not None)
        return iter((self.consume, self.upkeep, self.prove, self.replay, *optional, *self.redrives))


def _jobs(wiring: Wiring, records: dg.AssetsDefinition, processors: Sequence[dg.AssetsDefinition]) -> _Jobs:
    settings = wiring.settings
    return _Jobs(
        consume=dg.define_asset_job(
            f"{slug(settings.application)}_consume",
            # Without the checks on the asset, which a sensor evaluates.
            selection=dg.AssetSelection.assets(records).without_checks(),
            description="Land what is new of the shards that are its partitions. The workers' sensors ask for its runs.",
            executor_def=dg.in_process_executor,
        ),
        upkeep=build_upkeep(wiring),
        prove=build_prove(wiring),
        replay=build_replay(wiring),
        follow=build_follow(wiring) if settings.parse else None,
        process=_process_job(settings, processors) if processors else None,
        # A table of the latest rows doesn't remember deleted keys: a redrive could bring them back, and is refused.
        redrives=(
            *(build_redrive(wiring, target) for target in settings.parse if not target.is_latest),
            *(build_redrive(wiring, processor) for processor in landed_processors(settings)),
        ),
    )


def _assets(
    wiring: Wiring, records: dg.AssetsDefinition, processors: Sequence[dg.AssetsDefinition]
) -> list[Any]:
    settings = wiring.settings
    return [
        records,
        build_lineage(settings),
        *(build_parsed(wiring, target) for target in settings.parse),
        *processors,
        *build_backfills(wiring),
        *outside(settings),
    ]


def _sensors(wiring: Wiring, instance: KeptInstance, jobs: _Jobs) -> list[dg.SensorDefinition]:
    others = [
        *(build_worker(wiring, instance, worker.id, jobs.consume) for worker in wiring.settings.workers),
        build_watch(wiring, instance),
        *([build_parse_sensor(wiring, instance, jobs.follow)] if jobs.follow else []),
        *([build_processor_sensor(wiring, instance, jobs.process)] if jobs.process else []),
    ]
    leader = build_leader(wiring, instance, [job.name for job in jobs], [sensor.name for sensor in others])
    return [leader, *others]


def _resources(wiring: Wiring) -> dict[str, Any]:
    settings = wiring.settings
    shared = dg.ResourceDefinition.hardcoded_resource(
        wiring, "the objects that the sensors and assets of this process use"
    )
    return {
        resource_key(settings, "lease_tables"): LeaseTablesResource.of(settings, shared),
        resource_key(settings, "stream"): StreamResource.of(settings, shared),
        resource_key(settings, "lake"): LakeResource.of(settings, shared),
        resource_key(settings, "spark"): SparkResource.of(settings, shared),
    }


def _application(
    settings: Settings, processor: ProcessorSettings, instance: KeptInstance, on_step: OnStep | None
) -> dg.Definitions:
    """The definitions of a processor that is an application of its own: as those of the records, without a lake."""
    wiring = wire_application(settings, processor)
    own, asset = wiring.settings, build_application(wiring, processor, on_step)
    job = application_job(wiring, asset)
    workers = [build_worker(wiring, instance, worker.id, job) for worker in own.workers]
    shared = dg.ResourceDefinition.hardcoded_resource(
        wiring, f"the objects that the sensors and runs of the processor {processor.name} use"
    )
    return dg.Definitions(
        assets=[asset],
        jobs=[job],
        sensors=[
            build_leader(wiring, instance, [job.name], [sensor.name for sensor in workers]),
            *workers,
        ],
        resources={resource_key(own, "spark"): SparkResource.of(own, shared)},
    )


def _process_job(settings: Settings, processors: Sequence[dg.AssetsDefinition]) -> Any:
    return dg.define_asset_job(
        process_job(settings),
        selection=dg.AssetSelection.assets(*processors).without_checks(),
        description="Let the record processors work on what is new. A sensor asks for its runs.",
        executor_def=dg.in_process_executor,
    )
