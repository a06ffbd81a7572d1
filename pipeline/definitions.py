"""The composition root: settings in, Dagster's definitions out."""

import os

import dagster as dg

from assets.names import slug
from assets.records import build_records, streams_outside
from pipeline.duties.wave import OnArrow
from pipeline.settings import Settings
from pipeline.settings_file import read_settings
from resources.lake import LakeResource
from resources.lease_tables import LeaseTablesResource
from resources.spark import SparkResource
from resources.stream import StreamResource
from sensors.leader import build_leader
from sensors.worker import build_worker


def build_definitions(settings: Settings, on_arrow: OnArrow | None = None) -> dg.Definitions:
    """Everything of one application. `on_arrow` is for tests that cut runs between two arrows."""
    records = build_records(settings, on_arrow)
    job = dg.define_asset_job(f"{slug(settings.application)}_consume", selection=[records])
    return dg.Definitions(
        assets=[records, *_outside(settings)],
        jobs=[job],
        sensors=[build_leader(settings), *(build_worker(settings, w.id, job) for w in settings.workers)],
        resources={
            "lease_tables": LeaseTablesResource.of(settings),
            "stream": StreamResource.of(settings),
            "lake": LakeResource.of(settings),
            "spark": SparkResource.of(settings),
        },
        executor=dg.in_process_executor,
    )


def _outside(settings: Settings) -> list[dg.AssetSpec]:
    """What Headrace reads and keeps outside the lake: shown in the graph, never materialized here."""
    tables = [
        dg.AssetSpec(
            ["dynamodb", slug(name)], description=f"The {what} in DynamoDB table {name}.", kinds={"dynamodb"}
        )
        for name, what in (
            (settings.lease_table, "lease rows"),
            (settings.worker_table, "workers' beats"),
            (settings.state_table, "leader's lock"),
        )
    ]
    return [*streams_outside(settings), *tables]


defs = build_definitions(read_settings(None, os.environ).settings)
