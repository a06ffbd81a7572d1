"""dbt models with a partition for each day, which wait until the lake table has all records of the day."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
from dagster_dbt import DagsterDbtTranslator, DbtCliResource, DbtProject, dbt_assets

from headrace import build_definitions

HERE = Path(__file__).parent
# For profiles.yml: dbt runs in other folders, too.
os.environ.setdefault("SHOP_HOME", str(HERE / "headrace-data"))
os.environ.setdefault("SHOP_DUCKDB", str(HERE / "shop.duckdb"))
SHOP = DbtProject(project_dir=HERE / "shop", profiles_dir=HERE / "shop")
SHOP.prepare_if_dev()


class Translator(DagsterDbtTranslator):
    def get_automation_condition(self, _: Any) -> dg.AutomationCondition[Any]:
        # `eager` alone looks at the newest day only, and would pass over a day that is complete more than a day later.
        return dg.AutomationCondition.eager().without(dg.AutomationCondition.in_latest_time_window())


@dbt_assets(
    manifest=SHOP.manifest_path,
    partitions_def=dg.DailyPartitionsDefinition(start_date="2026-01-31"),
    dagster_dbt_translator=Translator(),
    backfill_policy=dg.BackfillPolicy.single_run(),
    # Two runs can't write into one file of DuckDB at once.
    pool="shop.duckdb",
)
def shop_models(context: dg.AssetExecutionContext, dbt: DbtCliResource) -> Iterator[Any]:
    window = context.partition_time_window
    asked = {"since": window.start.isoformat(), "before": window.end.isoformat()}
    yield from dbt.cli(["build", "--vars", json.dumps(asked)], context=context).stream()


defs = dg.Definitions.merge(
    dg.Definitions(
        assets=[shop_models],
        sensors=[
            dg.AutomationConditionSensorDefinition(
                "automation", target=[shop_models], default_status=dg.DefaultSensorStatus.RUNNING
            )
        ],
        resources={"dbt": DbtCliResource(project_dir=SHOP)},
    ),
    build_definitions(HERE / "headrace.yaml"),
)
