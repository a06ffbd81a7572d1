"""Turns what people ask of a window, by a command or by the config of a run, into values."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from headrace.pipeline.core.ledger.arrivals import Window
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.choices import ProcessorMode
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.rules.broken import is_table_name
from headrace.pipeline.settings.targets import processors_of, tables_of, targets_of
from headrace.pipeline.windows.replace import check_replaceable
from headrace.pipeline.windows.window import KeptWindow


def window_between(since: datetime | None, until: datetime | None) -> Window:
    """The time between two moments, as a window needs it. Raises BadSetting where the second one isn't after the
    first.
    """
    if since is not None and until is not None and since >= until:
        raise BadSetting(
            f"the time ends at {until.isoformat()}; allowed: an end after the beginning, {since.isoformat()}. Nothing was made"
        )
    return Window(since, until)


def by_time(hours: Window, stream: str | None) -> str:
    """A sentence part for people: which records a window of this time has."""
    of = f" of the stream {stream}" if stream else ""
    bounds = [
        f"{word} {when.isoformat()}" for word, when in (("from", hours.since), ("to", hours.until)) if when
    ]
    return f"ranges{of} with records that arrived {' '.join(bounds)}"


def stream_of_target(settings: Settings, target: str, stream: str | None) -> str | None:
    """The stream of a window that replaces rows of this target. Raises BadSetting or Unknown where no such window
    is possible.
    """
    (named,) = targets_of(settings, target, nothing="Nothing was made")
    check_replaceable(named)
    if named.stream and stream not in (None, named.stream):
        raise BadSetting(
            f"the stream is {stream}, and the target {named.name} takes records of {named.stream} only. Nothing was made"
        )
    return stream or named.stream


def processor_named(settings: Settings, name: str) -> ProcessorSettings:
    """The processor with this name, for a window whose records it gets. Raises BadSetting or Unknown."""
    (processor,) = processors_of(settings, name)
    if processor.mode is not ProcessorMode.LANDED:
        raise BadSetting(
            f"the processor {name} is a KCL application of its own (`mode: application`): it reads the stream, from the "
            "checkpoints in its lease table, and a window is of records in the lake table. Nothing was processed; to give it "
            "records again that Kinesis still has, set its checkpoints back, as for each KCL application, or let a processor "
            "with `mode: landed` and the same code take the window"
        )
    return processor


def check_into(
    settings: Settings,
    processor: ProcessorSettings,
    into: str,
    windows: Iterable[KeptWindow] = (),
    *,
    is_made: bool = False,
) -> None:
    """Raise BadSetting for a table that can't be a window's own table. `windows`: the existing windows.
    `is_made`: whether the window exists already, so that its table can't be changed any more.
    """
    way_out = (
        "give the processor, or whatever else of the settings names it, another table, or cancel the window and make a new "
        "one into another table"
    )
    choice = "leave --into out, or name a table that is the window's alone"
    if not is_table_name(into):
        raise BadSetting(
            f"the table is {into!r}; allowed: a namespace and a name (lake.totals_again). Nothing was made"
        )
    if into == processor.table:
        raise BadSetting(
            f"{into} is the own table of the processor {processor.name}: its rows and its states belong together, and "
            "records that have counted there would count twice. Nothing was changed; "
            f"{way_out if is_made else choice}. To have the processor's own table anew, name another "
            "`table` in its settings, and all records that the lake table has are processed again"
        )
    lake = settings.landing.table
    names = (kept_window.window.own_table(lake) for kept_window in windows)
    taken = _tables_of_one(into) & (
        tables_of(settings) | {own for name in names for own in _tables_of_one(name)}
    )
    if taken:
        raise BadSetting(
            f"the table {into} can't be the window's: {_name_taken(into, min(taken))} a table of these settings or of another "
            f"window. Nothing was changed; {way_out if is_made else choice}"
        )


def _name_taken(into: str, taken: str) -> str:
    # The tables that go with a window's table have names of their own, of which one may be taken.
    return "it is" if taken == into else f"with it goes {taken}, which is"


def _tables_of_one(table: str) -> set[str]:
    """The names of a made table, of its quarantine table, and of the lineage tables of both."""
    return {f"{name}{end}" for name in (table, f"{table}_quarantine") for end in ("", "_lineage")}
