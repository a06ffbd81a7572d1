"""The settings for a processor of `mode: application`, which is a KCL application of its own: those of the
landing application, with names and tables of its own.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.settings.blocks.discovery import DiscoverySettings
from headrace.pipeline.settings.blocks.kcl import KclSettings
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.choices import Beat, Heartbeat, Mode, StreamsMode
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.stream_names import name_in
from headrace.pipeline.settings.targets import processor_applications


def application_settings(settings: Settings, processor: ProcessorSettings) -> Settings:
    """The settings by which the engine's ticks and runs work for this processor."""
    # Not by the consumers of the application that lands records: Kinesis gives a consumer's records to one reader.
    streams = tuple(replace(stream, consumer=processor.consumer) for stream in settings.streams)
    mode, discovery = settings.streams_mode, replace(settings.discovery, consumer=processor.consumer)
    if processor.stream is not None:
        # One stream: lease keys are shard ids, as those of an amazon_kclpy application are.
        streams = tuple(stream for stream in streams if name_in(stream.name) == processor.stream)
        mode, discovery = StreamsMode.SINGLE, DiscoverySettings()
    return replace(
        settings,
        application=processor.application or "",
        streams=streams,
        streams_mode=mode,
        discovery=discovery,
        coordination=replace(settings.coordination, lease_table=None, worker_table=None, state_table=None),
        kcl=_kcl(processor),
        parse=(),
        processors=(replace(processor, beside=settings.application),),
    )


def applications_of(settings: Settings) -> tuple[Settings, ...]:
    """The settings of the application that lands records, and those of each processor that is an application of its own."""
    own = (application_settings(settings, processor) for processor in processor_applications(settings))
    return (settings, *own)


def beaten_applications(settings: Settings) -> tuple[Settings, ...]:
    """The settings of the applications for which `headrace beat` is to beat."""
    return tuple(own for own in applications_of(settings) if own.kcl.beat is Beat.PROCESS)


def _kcl(processor: ProcessorSettings) -> KclSettings:
    is_shared = processor.failover is not None
    # Beside KCL each lease has a beat. Checkpoints of others need no setting: the rows are the only authority.
    heartbeat = Heartbeat.LEASE if is_shared or processor.leases is not Mode.OWN else Heartbeat.WORKER
    return KclSettings(
        mode=processor.leases, failover=processor.failover, beat=processor.beat, heartbeat=heartbeat
    )


def table_names(settings: Settings) -> frozenset[str]:
    """The names of an application's tables in DynamoDB."""
    return frozenset({settings.lease_table, settings.worker_table, settings.state_table})
