"""The project's definitions and Headrace's, in one code location."""

from pathlib import Path

import dagster as dg

from headrace import build_definitions
from mill.assets import landed, sales, sales_by_day
from mill.resources import Lake

HERE = Path(__file__).parent

defs = dg.Definitions.merge(
    dg.Definitions(
        assets=[landed, sales, sales_by_day],
        # Dagster makes such a sensor by itself, and has it stopped at first.
        sensors=[
            dg.AutomationConditionSensorDefinition(
                "automation",
                target=[landed, sales, sales_by_day],
                default_status=dg.DefaultSensorStatus.RUNNING,
            )
        ],
        resources={"lake": Lake(home=str(HERE.parent / "headrace-data"))},
        executor=dg.in_process_executor,
    ),
    build_definitions(HERE / "shop.yaml"),
)
