"""Checks that a made table belongs to the target, processor or window that is about to write to it."""

from __future__ import annotations

from headrace.pipeline.errors import WrongShape
from headrace.pipeline.ports.landing import LandingTable, TableState
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.blocks.processors import ProcessorSettings


def check_own_table(
    table: LandingTable, settings: ParseSettings | ProcessorSettings, *, of_window: str, past: str
) -> None:
    """Call `check_own` for a table that may not exist yet, before anything is written to it."""
    if table.exists() and (state := table.load()).snapshot is not None:
        check_own(state, settings, of_window=of_window, past=past)


def check_own(
    state: TableState, settings: ParseSettings | ProcessorSettings, *, of_window: str, past: str
) -> None:
    """Raise WrongShape where the table belongs to another target, processor or window: whoever went on from its
    positions would leave out records that only the other one has read.

    `of_window`: the id of the window that claims the table; empty for none. `past`: what messages say wasn't done
    with records, as a participle.
    """
    if state.window == of_window:
        return
    if not of_window:
        raise WrongShape(
            f"the table {settings.table} is that of the window {state.window}, and has the records of this window only. "
            f"Nothing was {past}, and nothing was changed; name another `table` for {settings.name}, which then gets "
            "all records that the lake table has, and read the window's table beside it"
        )
    raise WrongShape(
        f"the table {settings.table} isn't that of the window {of_window}: "
        f"{f'it is that of the window {state.window}' if state.window else 'something else has made it or written to it'}. "
        f"Nothing was {past}, and nothing was changed; cancel this window, and make a new one of the same records, "
        "into another table"
    )
