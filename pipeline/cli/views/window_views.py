"""What `headrace window` shows of windows, as text and as JSON."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from headrace.pipeline.windows.window import KeptWindow, ReplayWindow, WindowRange
    from headrace.pipeline.windows.wiring import WindowWiring


def listed(kept: "Sequence[KeptWindow]", windows: "WindowWiring") -> "Iterator[str]":
    for each in kept:
        tail = f", replaces rows of {each.window.target}" if each.window.target else ""
        tail += ", takes aggregates apart" if each.window.unpack else ""
        tail += f", {each.told}" if each.told else ""
        tail += f", keeps days from {_first(each)} on" if _keeps_days(each, windows) else ""
        yield f"{each.window.id}  {each.window.made:%Y-%m-%d %H:%M:%S}Z  {each.window.cost()}{tail}  ({each.window.how})"
    if not kept:
        yield "there is no window"


def shown(found: "KeptWindow", windows: "WindowWiring") -> "Iterator[str]":
    from headrace.pipeline.core.words.words import counted

    window = found.window
    yield f"window {window.id}: {window.how}"
    since = f", and {found.told.removesuffix(' since')} since" if found.told else ""
    yield f"made at {window.made:%Y-%m-%d %H:%M:%S}Z by {window.by}{since}"
    if _keeps_days(found, windows):
        yield (
            f"upkeep.retention removes no day from {_first(found)} on until this window is done (`headrace window run {window.id}`) or cancelled "
            f"(`headrace window cancel {window.id}`)"
        )
    for each in window.ranges:
        after = "the start" if each.after is None else each.after
        yield f"  {each.key} after {after} up to {each.upto}: {'' if each.is_whole else 'at most '}{counted(each.rows, 'row')}"
        for stretch in each.stretches:
            begins = "the start" if stretch.after is None else stretch.after
            yield f"    after {begins} up to {stretch.upto}: from the stream"
    yield from costs(window, windows)
    if window.unpack:
        yield f"{counted(done_of(window, windows), 'aggregate')} taken apart in {windows.table_of(window)}"
    elif window.target:
        yield f"{counted(done_of(window, windows), 'row')} parsed again for {windows.table_of(window)}"
    else:
        replaying = windows.replaying(window.id, "headrace window show")
        yield f"{counted(replaying.copied(), 'row')} copied into {windows.table_of(window)}"
        if any(each.stretches for each in window.ranges):
            yield f"{counted(replaying.read_from_stream(), 'row')} read from the stream into {windows.table_of(window)}"
            yield from replaying.losses()


def _keeps_days(found: "KeptWindow", windows: "WindowWiring") -> bool:
    """Whether the window may keep days from being removed by a retention, now or later."""
    from datetime import date

    return windows.settings.upkeep.retention is not None and found.keeps_days(date.max)


def _first(found: "KeptWindow") -> str:
    from datetime import date

    day = found.window.oldest_day
    return "the first" if day in (None, date.min) else str(day)


def costs(window: "ReplayWindow", windows: "WindowWiring") -> "Iterator[str]":
    from headrace.pipeline.core.landing.pace import window_share

    yield window.cost()
    if told := window.stream_cost(window_share(windows.settings.wave.shard_share)):
        yield told
    for each in window.missing:
        yield f"out of reach: {each}"


def as_json(kept: "KeptWindow", windows: "WindowWiring") -> "dict[str, Any]":
    """The window for scripts. What of it was done isn't part of this, because only the ledgers of its table tell."""
    window = kept.window
    return {
        "id": window.id,
        "made": window.made.isoformat(),
        "by": window.by,
        "how": window.how,
        "does": "unpack" if window.unpack else "replace" if window.target else "copy",
        "target": window.target or None,
        "table": windows.table_of(window),
        "is_done": kept.is_done,
        "is_cancelled": kept.is_cancelled,
        "rows": window.rows,
        "bytes": window.bytes,
        "is_upper_bound": not window.is_whole,
        "ranges": [_range_json(each) for each in window.ranges],
        "out_of_reach": list(window.missing),
    }


def _range_json(each: "WindowRange") -> "dict[str, Any]":
    return {
        "stream": each.key.stream.name,
        "stream_epoch": each.key.stream.epoch,
        "shard": each.key.shard_id,
        "after": None if each.after is None else str(each.after),
        "upto": str(each.upto),
        "rows": each.rows,
        "from_stream": len(each.stretches),
    }


def done_of(window: "ReplayWindow", windows: "WindowWiring") -> int:
    """How many rows of the window were copied or parsed again so far, or how many of its aggregates were taken apart."""
    if window.unpack:
        return windows.unpacking(window.id, "headrace window show").unpacked()
    if window.target:
        return windows.replacing(window, "headrace window show").replaced()
    return windows.replaying(window.id, "headrace window show").copied()
