"""`<application>/replay`: copies a window of landed records from the lake table into a table of its own, or parses it again.

The job `<application>_replay` materializes it, with the window's id in its config. `headrace window create` makes windows. A run that was
killed is gone on with by the next one, and a window that was done as a whole gives nothing more. A window that was made with `--replace`
replaces rows of a typed table by what today's parser makes of the same records. Both only read the lake table. A window that was made with
`--unpack` takes aggregates apart in the lake table itself.
"""

from collections.abc import Sequence

import dagster as dg

from headrace.assets.failure import RunFailed
from headrace.assets.names import records_key, replay_key, resource_key
from headrace.pipeline.duties.replacing import ReplacedWave
from headrace.pipeline.duties.replaying import ReplayedWave
from headrace.pipeline.duties.unpacking import UnpackedWave
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.wiring import Wiring

REPLAY_TAG = "headrace/replay"
"""On each run of the job, with the application as its value: by this tag Dagster can limit how many windows are copied at once."""


def build_replay(wiring: Wiring) -> dg.AssetsDefinition:
    settings = wiring.settings

    @dg.asset(
        key=replay_key(settings),
        deps=[records_key(settings)],
        description=__doc__,
        kinds={"pyspark", "iceberg"},
        required_resource_keys={resource_key(settings, "spark")},  # it ends the Spark session with the run
        config_schema={
            "window": dg.Field(str, description="The id of a window, from `headrace window list`.")
        },
    )
    def replay(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        window = context.op_execution_context.op_config["window"]
        waves: list[ReplayedWave | ReplacedWave | UnpackedWave] = []
        table = ""
        try:
            found = wiring.windows.windowing(f"run {context.run.run_id}").find(window).window
            context.log.info("window %s: %s; %s", window, found.how, found.cost())
            for each in found.missing:
                context.log.warning("out of reach: %s", each)
            table = wiring.windows.table_of(found)
            for wave in wiring.windows.redoing(found, context.run.run_id).waves():
                context.log.info(str(wave))
                for note in wave.notes:
                    context.log.warning(note)
                waves.append(wave)
        except HeadraceError as error:
            raise RunFailed(str(error), _metadata(window, table, waves)) from error
        return dg.MaterializeResult(metadata=_metadata(window, table, waves))

    return replay


def _metadata(
    window: str, table: str, waves: Sequence[ReplayedWave | ReplacedWave | UnpackedWave]
) -> dict[str, dg.MetadataValue]:
    return {
        "window": dg.MetadataValue.text(window),
        "table": dg.MetadataValue.text(table),
        "rows": dg.MetadataValue.int(sum(wave.rows for wave in waves)),
        "waves": dg.MetadataValue.int(len(waves)),
        "notes": dg.MetadataValue.text("; ".join(note for wave in waves for note in wave.notes) or "none"),
    }
