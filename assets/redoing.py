"""The common part of the runs that copy, replace, process or unpack the records of a window."""

import dagster as dg

from headrace.assets.changes import by_redoing, redone_metadata
from headrace.assets.failure import RunFailed
from headrace.assets.made_table import note_waves
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.typed.done_wave import Wave
from headrace.pipeline.windows.window import ReplayWindow

_FIRST_RUN_TAG = "dagster/root_run_id"
"""Dagster's tag of a run that is executed again: the id of the first run."""


def first_run(context: dg.AssetExecutionContext | dg.OpExecutionContext) -> str:
    """The id of the first run, where this run is a repetition of it by a person or by Dagster. Windows are made
    under this id, so that the repetition finds the window of the first run.
    """
    return f"run {context.run.tags.get(_FIRST_RUN_TAG, context.run.run_id)}"


def redo(
    context: dg.AssetExecutionContext | dg.OpExecutionContext,
    wiring: Wiring,
    window: ReplayWindow,
    table: str,
    *,
    patience: int = 1,
) -> list[Wave]:
    """Copy, replace, process or unpack the records of the window. For changes in a table with an asset, an event
    is written on that asset.
    """
    for sentence in window.missing:
        context.log.warning("out of reach: %s", sentence)
    waves: list[Wave] = []
    try:
        redoing = wiring.windows.redoing(window, context.run.run_id, patience=patience)
        note_waves(context, redoing.waves(), waves)
    except HeadraceError as error:
        raise RunFailed(str(error), redone_metadata(window, table, waves)) from error
    finally:
        # Also where a wave has failed: the waves before it have changed the table.
        for event in by_redoing(wiring.settings, window, table, waves):
            context.log_event(event)
    return waves
