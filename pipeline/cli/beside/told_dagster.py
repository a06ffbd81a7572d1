"""Lets a command that has changed a table write an event to the project's Dagster: the table's asset shows the
change, and what depends on the asset is started.

That is the Dagster of DAGSTER_HOME, else the one that `headrace dev` keeps beside the settings file. Without one
nothing happens. The command's work is done by then, so that a failed write to Dagster becomes a note and no
failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from headrace.pipeline.cli.telling import tell_aside

if TYPE_CHECKING:
    from headrace.assets.changes import Event
    from headrace.pipeline.settings.model import Settings


def tell_dagster(config: Path, settings: Settings, events: Callable[[ModuleType], Iterable[Event]]) -> None:
    """Write events, each on its asset. `events` makes them with `headrace.assets.changes`, which is imported only
    where there is a Dagster, because importing Dagster takes a second.
    """
    from headrace.pipeline.cli.beside.services import dagster_home

    home = dagster_home(config)
    if not os.environ.get("DAGSTER_HOME") and not (home / "dagster.yaml").is_file():
        return
    from headrace.assets import changes

    asset_events = tuple(events(changes))
    if not asset_events:
        return
    try:
        changes.leave_events(home, settings, asset_events)
    except Exception as error:  # noqa: BLE001 -- see below
        # Dagster's storages have errors of their own, and the command has done its work.
        tell_aside(
            f"Dagster in {home} wasn't told of this change ({type(error).__name__}: {error}). "
            "The tables are as the command says; materialize the asset in Dagster, or let the next run do "
            "so, to start what depends on it"
        )
