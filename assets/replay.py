"""`<application>/replay`: copies a window of landed records from the lake table into a table of its own.

The job `<application>_replay` materializes it, with the window's id in its config. `headrace window create` makes windows. A run that was
killed is gone on with by the next one, and a window that was copied as a whole gives nothing more. The lake table is only read.
"""

import dagster as dg

from assets.failure import RunFailed
from assets.names import records_key, replay_key
from pipeline.core.window import window_table
from pipeline.duties.replaying import ReplayedWave
from pipeline.errors import HeadraceError
from pipeline.wiring import Wiring
from resources.spark import SparkResource

REPLAY_TAG = "headrace/replay"
"""On each run of the job, with the application as its value: by this tag Dagster can limit how many windows are copied at once."""


def build_replay(wiring: Wiring) -> dg.AssetsDefinition:
    settings = wiring.settings

    @dg.asset(
        key=replay_key(settings),
        deps=[records_key(settings)],
        description=__doc__,
        kinds={"pyspark", "iceberg"},
        config_schema={
            "window": dg.Field(str, description="The id of a window, from `headrace window list`.")
        },
    )
    # The resource ends the Spark session with the run.
    def replay(context: dg.AssetExecutionContext, spark: SparkResource) -> dg.MaterializeResult[None]:
        window = context.op_execution_context.op_config["window"]
        waves: list[ReplayedWave] = []
        try:
            found = wiring.windowing(f"run {context.run.run_id}").find(window).window
            context.log.info("window %s: %s; %s", window, found.how, found.cost())
            for each in found.missing:
                context.log.warning("out of reach: %s", each)
            for wave in wiring.replaying(window, context.run.run_id).waves():
                context.log.info(str(wave))
                for note in wave.notes:
                    context.log.warning(note)
                waves.append(wave)
        except HeadraceError as error:
            raise RunFailed(str(error), _metadata(wiring, window, waves)) from error
        return dg.MaterializeResult(metadata=_metadata(wiring, window, waves))

    return replay


def _metadata(wiring: Wiring, window: str, waves: list[ReplayedWave]) -> dict[str, dg.MetadataValue]:
    return {
        "window": dg.MetadataValue.text(window),
        "table": dg.MetadataValue.text(window_table(wiring.settings.landing.table, window)),
        "rows": dg.MetadataValue.int(sum(wave.rows for wave in waves)),
        "waves": dg.MetadataValue.int(len(waves)),
        "notes": dg.MetadataValue.text("; ".join(note for wave in waves for note in wave.notes) or "none"),
    }
