"""What people ask a window for, whether by a command or by the config of a run."""

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
    """The hours between two moments, as a window asks for them. Raises BadSetting where no time lies between them."""
    if since is not None and until is not None and since >= until:
        raise BadSetting(
            f"the time ends at {until.isoformat()}; allowed: an end after the beginning, {since.isoformat()}. Nothing was made"
        )
    return Window(since, until)


def by_time(hours: Window, stream: str | None) -> str:
    """What a window of these hours has, for people."""
    of = f" of the stream {stream}" if stream else ""
    bounds = [
        f"{word} {when.isoformat()}" for word, when in (("from", hours.since), ("to", hours.until)) if when
    ]
    return f"ranges{of} with records that arrived {' '.join(bounds)}"


def stream_of_target(settings: Settings, target: str, stream: str | None) -> str | None:
    """The stream of a window that replaces rows of this target. Raises BadSetting or Unknown where it can't."""
    (named,) = targets_of(settings, target, nothing="Nothing was made")
    check_replaceable(named)
    if named.stream and stream not in (None, named.stream):
        raise BadSetting(
            f"the stream is {stream}, and the target {named.name} takes records of {named.stream} only. Nothing was made"
        )
    return stream or named.stream


def processor_named(settings: Settings, name: str) -> ProcessorSettings:
    """The processor of this name, through which a window can go. Raises BadSetting or Unknown."""
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
    settings: Settings, processor: ProcessorSettings, into: str, kept: Iterable[KeptWindow] = ()
) -> None:
    """Raise BadSetting for a table that can't be a window's own. `kept`: the windows that there are."""
    if not is_table_name(into):
        raise BadSetting(
            f"the table is {into!r}; allowed: a namespace and a name (lake.totals_again). Nothing was made"
        )
    if into == processor.table:
        raise BadSetting(
            f"{into} is the own table of the processor {processor.name}: its rows and its states belong together, and "
            "records that have counted there would count twice. Nothing was changed; leave --into out, or name a table of "
            "the window's own, and compare the two or read that one. To have the processor's own table anew, name another "
            "`table` in its settings, and all records that the lake table has are processed again"
        )
    own = {f"{table}{end}" for table in (into, f"{into}_quarantine") for end in ("", "_lineage")}
    windows = {kept_window.window.into for kept_window in kept if kept_window.window.into}
    taken = own & (
        tables_of(settings) | {f"{table}{end}" for table in windows for end in ("", "_quarantine")}
    )
    if taken:
        raise BadSetting(
            f"the table is {into!r}, and {min(taken)} is a table of these settings or of another window. Nothing was "
            "changed; name a table that is the window's alone"
        )
