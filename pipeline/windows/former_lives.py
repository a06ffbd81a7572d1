"""Ranges of a window whose stream was created again since, and of which the lake table doesn't know the former
life any more: `headrace repair` rebuilds positions from rows and snapshots, and leaves out a former life of which
neither says anything. The rows stay in the lake table. Pure functions on values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from headrace.pipeline.core.shards.position import Position, Positions, reaches
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.windows.window import ReplayWindow, WindowRange


def is_left_out(stream: StreamId, lake: Positions) -> bool:
    """Whether nothing lands of this life of a stream any more, and the lake table has forgotten its positions."""
    # Without a later life the table may have been rolled back to before the stream's first commit, and lands it again.
    return stream not in lake.origins and lake.has_later_life(stream)


def left_unparsed(window: ReplayWindow, lake: Positions, typed: Positions) -> tuple[WindowRange, ...]:
    """The ranges of the window that the typed table hasn't parsed, and that no wave will parse."""
    # Of a life that the typed table knows, waves still parse what is in the lake table.
    over = {stream for stream in window.streams if is_left_out(stream, lake)} - typed.streams()
    return tuple(
        planned
        for planned in window.ranges
        if planned.key.stream in over and not _is_parsed(planned, typed.of(planned.key))
    )


def without(window: ReplayWindow, ranges: Collection[WindowRange]) -> ReplayWindow:
    return replace(window, ranges=tuple(planned for planned in window.ranges if planned not in ranges))


def sentences_of(ranges: Collection[WindowRange], table: str) -> Iterator[str]:
    """Sentences for people about these ranges. `table`: the typed table."""
    for planned in ranges:
        after = "the start" if planned.after is None else planned.after
        yield (
            f"{planned.key} after {after} up to {planned.upto}: {table} has no row of these records and gets none, because "
            f"`headrace repair` has left out the life of the stream {planned.key.stream.name} that began at "
            f"{planned.key.stream.created_text}. Nothing of this range is replaced; its records stay in the lake table, and "
            "a window without --replace copies them"
        )


def _is_parsed(planned: WindowRange, position: Position | None) -> bool:
    return position is not None and reaches(position, planned.upto)
