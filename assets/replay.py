"""`<application>_replay`: the job that copies a window of landed records from the lake table into a table of
its own, or parses it again.

Its config has the window's id. `headrace window create` makes windows. A run that was killed is gone on with
by the next one, and a window that was done as a whole gives nothing more. A window that was made with
`--replace` replaces rows of a typed table by what today's parser makes of the same records. Both only read
the lake table. A window that was made with `--unpack` takes aggregates apart in the lake table itself. What
the run changes in a table with an asset is an event on that asset.
"""

import dagster as dg

from headrace.assets.changes import by_redoing, redone_metadata
from headrace.assets.failure import RunFailed
from headrace.assets.names import resource_key, slug
from headrace.assets.parsed import note_waves
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.typed.done_wave import Wave
from headrace.pipeline.windows.window import ReplayWindow

REPLAY_TAG = "headrace/replay"
"""Each run of the job has this tag, with the application as its value. By it Dagster can limit how many windows
are copied at once."""


def build_replay(wiring: Wiring) -> dg.JobDefinition:
    settings = wiring.settings

    @dg.op(
        name=f"replay_{slug(settings.application)}",
        # The resource `spark` ends the Spark session together with the run.
        required_resource_keys={resource_key(settings, "spark")},
        config_schema={
            "window": dg.Field(
                str,
                default_value="",
                description="The id of a window, from `headrace window list`. A run without it does nothing.",
            )
        },
        description="Do what a window was made for: copy its records, replace their rows in a typed table, "
        "or take aggregates apart.",
    )
    def replay(context: dg.OpExecutionContext) -> dg.Output[None]:
        try:
            window = wiring.windows.windowing(f"run {context.run_id}").find(_wanted(context)).window
            table = wiring.windows.table_of(window)
        except HeadraceError as error:
            raise RunFailed(str(error), {}) from error
        waves = _redo(context, wiring, window, table)
        return dg.Output(None, metadata=redone_metadata(window, table, waves))

    @dg.job(
        name=f"{slug(settings.application)}_replay",
        description=__doc__,
        tags={REPLAY_TAG: settings.application},
        executor_def=dg.in_process_executor,
    )
    def job() -> None:
        replay()

    return job


def _wanted(context: dg.OpExecutionContext) -> str:
    window = str(context.op_config["window"])
    if not window:
        raise RunFailed(
            f"name a window in the config of this job (ops.{context.op.name}.config.window): "
            "`headrace window create` makes one and prints its id, and `headrace window list` names all. "
            "Nothing was done",
            {},
        )
    return window


def _redo(context: dg.OpExecutionContext, wiring: Wiring, window: ReplayWindow, table: str) -> list[Wave]:
    context.log.info("window %s: %s; %s", window.id, window.how, window.cost())
    for sentence in window.missing:
        context.log.warning("out of reach: %s", sentence)
    waves: list[Wave] = []
    try:
        note_waves(context, wiring.windows.redoing(window, context.run_id).waves(), waves)
    except HeadraceError as error:
        raise RunFailed(str(error), redone_metadata(window, table, waves)) from error
    finally:
        for event in by_redoing(wiring.settings, window, table, waves):
            context.log_event(event)
    return waves
