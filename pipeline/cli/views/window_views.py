"""The windows as `headrace window` shows them, as text and as JSON."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from headrace.pipeline.typed.done_wave import Wave
    from headrace.pipeline.windows.copy import Replaying
    from headrace.pipeline.windows.process import WindowProcessing
    from headrace.pipeline.windows.replace import Replacing
    from headrace.pipeline.windows.unpack import Unpacking
    from headrace.pipeline.windows.window import KeptWindow, ReplayWindow, WindowRange
    from headrace.pipeline.windows.wiring import WindowWiring


def listed(windows_kept: "Sequence[KeptWindow]", windows: "WindowWiring") -> "Iterator[str]":
    for kept_window in windows_kept:
        tail = f", replaces rows of {kept_window.window.target}" if kept_window.window.target else ""
        tail += f", for the processor {kept_window.window.processor}" if kept_window.window.processor else ""
        tail += ", takes aggregates apart" if kept_window.window.unpack else ""
        tail += f", {kept_window.outcome or 'not done yet'}"
        tail += (
            f"; upkeep.retention leaves days from {_first(kept_window)} on for it"
            if _keeps_days(kept_window, windows)
            else ""
        )
        yield (
            f"{kept_window.window.id}  {kept_window.window.made:%Y-%m-%d %H:%M:%S}Z  "
            f"{kept_window.window.cost()}{tail}  ({kept_window.window.how})"
        )
    if not windows_kept:
        yield "there is no window"


def shown(kept_window: "KeptWindow", windows: "WindowWiring") -> "Iterator[str]":
    from headrace.pipeline.core.words.words import counted

    window = kept_window.window
    yield f"window {window.id}: {window.how}"
    since = f", and {kept_window.outcome.removesuffix(' since')} since" if kept_window.outcome else ""
    yield f"made at {window.made:%Y-%m-%d %H:%M:%S}Z by {window.by}{since}"
    if _keeps_days(kept_window, windows):
        yield (
            f"upkeep.retention removes no day from {_first(kept_window)} on until this window is done (`headrace "
            f"window run {window.id}`) or cancelled (`headrace window cancel {window.id}`)"
        )
    for planned_range in window.ranges:
        after = "the start" if planned_range.after is None else planned_range.after
        yield (
            f"  {planned_range.key} after {after} up to {planned_range.upto}: "
            f"{'' if planned_range.is_whole else 'at most '}{counted(planned_range.rows, 'row')}"
        )
        for stretch in planned_range.stretches:
            begins = "the start" if stretch.after is None else stretch.after
            yield f"    after {begins} up to {stretch.upto}: from the stream"
    yield from costs(window, windows)
    if window.unpack:
        yield f"{counted(rows_done(window, windows), 'aggregate')} taken apart in {windows.table_of(window)}"
    elif window.target:
        redoing = windows.redoing(window, "headrace window show")
        yield f"{counted(redoing.rows_done(), 'row')} parsed again for {windows.table_of(window)}"
        yield from (f"out of reach: {sentence}" for sentence in redoing.out_of_reach(window))
    elif window.processor:
        processing = windows.processed(window)
        yield f"{processing.so_far()} in {windows.table_of(window)}"
        yield from (f"stopped: {sentence}" for sentence in processing.stops())
    else:
        replaying = windows.replaying(window.id, "headrace window show")
        yield f"{counted(replaying.rows_done(), 'row')} copied into {windows.table_of(window)}"
        if any(planned.stretches for planned in window.ranges):
            yield f"{counted(replaying.read_from_stream(), 'row')} read from the stream into {windows.table_of(window)}"
            yield from replaying.losses()


def _keeps_days(kept_window: "KeptWindow", windows: "WindowWiring") -> bool:
    """Whether the window may keep days from being removed by a retention, now or later."""
    from datetime import date

    return windows.settings.upkeep.retention is not None and kept_window.keeps_days(date.max)


def _first(kept_window: "KeptWindow") -> str:
    from datetime import date

    day = kept_window.window.oldest_day
    return "the first" if day in (None, date.min) else str(day)


def costs(window: "ReplayWindow", windows: "WindowWiring") -> "Iterator[str]":
    from headrace.pipeline.core.landing.pace import window_share

    yield window.cost()
    if stream_cost := window.stream_cost(window_share(windows.settings.wave.shard_share)):
        yield stream_cost
    for gap in window.missing:
        yield f"out of reach: {gap}"


def window_json(kept_window: "KeptWindow", windows: "WindowWiring") -> "dict[str, Any]":
    """The window for scripts, without how much of it is done, because only the ledgers of its table tell that."""
    window = kept_window.window
    return {
        "id": window.id,
        "made": window.made.isoformat(),
        "by": window.by,
        "how": window.how,
        "does": _does(window),
        "target": window.target or None,
        "processor": window.processor or None,
        "table": windows.table_of(window),
        "is_done": kept_window.is_done,
        "is_cancelled": kept_window.is_cancelled,
        "rows": window.rows,
        "bytes": window.bytes,
        "is_upper_bound": not window.is_whole,
        "ranges": [_range_json(planned) for planned in window.ranges],
        "out_of_reach": list(window.missing),
    }


def run_json(window: "ReplayWindow", windows: "WindowWiring", waves: "Sequence[Wave]") -> "dict[str, Any]":
    """The result of one `headrace window run` for scripts, also where an error has ended it."""
    has_quarantine = bool(window.target or window.processor)
    return {
        "id": window.id,
        "does": _does(window),
        "table": windows.table_of(window),
        "waves": sum(wave.snapshot is not None for wave in waves),
        "rows": sum(wave.rows for wave in waves),
        "set_aside": sum(wave.aside for wave in waves) if has_quarantine else None,
        "made": sum(wave.made for wave in waves) if window.processor else None,
        "is_done": bool(waves) and waves[-1].is_last,
        "notes": [note for wave in waves for note in wave.notes],
    }


def _does(window: "ReplayWindow") -> str:
    if window.unpack:
        return "unpack"
    if window.target:
        return "replace"
    return "process" if window.processor else "copy"


def _range_json(planned: "WindowRange") -> "dict[str, Any]":
    return {
        "stream": planned.key.stream.name,
        "stream_epoch": planned.key.stream.epoch,
        "shard": planned.key.shard_id,
        "after": None if planned.after is None else str(planned.after),
        "upto": str(planned.upto),
        "rows": planned.rows,
        "from_stream": len(planned.stretches),
    }


def rows_done(window: "ReplayWindow", windows: "WindowWiring") -> int:
    return _redoing(window, windows).rows_done()


def _redoing(
    window: "ReplayWindow", windows: "WindowWiring"
) -> "Replaying | Replacing | Unpacking | WindowProcessing":
    return windows.processed(window) if window.processor else windows.redoing(window, "headrace window show")


def shown_json(kept_window: "KeptWindow", windows: "WindowWiring") -> "dict[str, Any]":
    """The window for scripts, with how much of it is done, and what is out of reach by now."""
    window = kept_window.window
    redoing = _redoing(window, windows)
    out_of_reach = [*window.missing, *redoing.out_of_reach(window)]
    return {
        **window_json(kept_window, windows),
        "out_of_reach": out_of_reach,
        "done": redoing.rows_done(),
        "stopped": list(redoing.stops()),
    }
