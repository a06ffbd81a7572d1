"""Makes windows from the ledgers, stores, finds and cancels them. `headrace.pipeline.windows.copy` copies them, and
`headrace.pipeline.windows.replace` parses them again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from datetime import date

from headrace.pipeline.core.ledger.arrivals import first_kept_day
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.story import story_of
from headrace.pipeline.core.shards.partition import read_name
from headrace.pipeline.errors import Unknown, WrongShape
from headrace.pipeline.ports.base import Clock, Ids
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.windows.make import Asked, Made, Numbers, make_window, origins_of
from headrace.pipeline.windows.ports import WindowStore
from headrace.pipeline.windows.read_stream import reaches_of
from headrace.pipeline.windows.window import KeptWindow, ReplayWindow, Word

_ID_LENGTH = 8


class NothingLanded(Unknown):
    """The lake table has no record of those that were asked for."""


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """A person's request for a window."""

    records: Asked
    _: KW_ONLY
    how: str
    """The records that are asked for, as a sentence without its point."""
    stream: str | None = None
    """Only shards of streams with this name."""
    target: str = ""
    """The target whose rows are to be replaced."""
    processor: str = ""
    """The processor that is to get the records."""
    into: str = ""
    """The table for what the processor gives."""
    unpack: bool = False
    """Whether aggregates are to be taken apart in the lake table."""
    from_stream: bool = False
    """Whether the window reads from the stream what the lake table lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windowing:
    """Makes windows from the ledgers, finds them, and stores what a person says about them."""

    settings: Settings
    windows: WindowStore
    lineage: LineageTable
    clock: Clock
    ids: Ids
    by: str
    """Who asks, for people."""
    source: Callable[[], ShardSource]
    """Called for windows that read from the stream."""
    kept_from: Callable[[], date | None]
    """The first day (UTC) that the retention has left in the lake table, where the table states it."""

    def create(self, request: WindowRequest) -> ReplayWindow:
        """Make a window and store it. Raises the errors of `plan`."""
        window = self.plan(request)
        self.windows.keep(window)
        return window

    def plan(self, request: WindowRequest) -> ReplayWindow:
        """Make a window without storing it. Raises NothingLanded where the lake table has no record for it."""
        choice, stream = request.records, request.stream
        # A window by numbers is of one shard id, so that the ledgers of the others needn't be read.
        shards = name = None
        if isinstance(choice, Numbers):
            name = read_name(choice.shard_id)  # a person may have named the stream as well: `orders/1`
            choice = replace(choice, shard_id=name.shard_id)
            shards = frozenset({name.shard_id})
        of = RangeFilter(stream=stream, shards=shards)
        now, entries = self.clock.now(), tuple(self.lineage.entries(of))
        story = story_of(entries)
        keys = [
            key
            for key in story.keys
            if stream in (None, key.stream.name) and (name is None or name.fits(key))
        ]
        selection = make_window(
            story,
            choice,
            takes=keys.__contains__,
            # The table is asked after its ledgers: a day that goes in between is told to be gone.
            kept_from=first_kept_day(now, self.settings.upkeep.retention, self.kept_from()),
            reaches=reaches_of(keys, origins_of(entries), self.source()) if request.from_stream else None,
        )
        _check_makeable(selection, request)
        return ReplayWindow(
            id=self.ids.fresh().replace("-", "")[:_ID_LENGTH].lower(),
            application=self.settings.application,
            made=now,
            by=self.by,
            how=request.how,
            ranges=selection.ranges,
            missing=selection.missing,
            oldest_day=selection.oldest_day,
            target=request.target,
            processor=request.processor,
            into=request.into,
            unpack=request.unpack,
        )

    def find(self, window: str) -> KeptWindow:
        return find_window(self.windows, window)

    def say(self, window: str, word: Word) -> None:
        """Store a statement about a window, unless it is the last one already."""
        if self.find(window).is_cancelled != (word is Word.CANCELLED):
            self.windows.say(window, word, by=self.by)


def _check_makeable(selection: Made, request: WindowRequest) -> None:
    if not selection.ranges:
        raise NothingLanded(
            f"the ledgers of the lake table have no range of records for this: {request.how}. No window was made; "
            "`headrace lineage` shows all ranges"
        )
    if selection.twice and (request.unpack or request.target or request.processor):
        why = (
            "which of the two rows of an aggregate is to be taken apart can't be told"
            if request.unpack
            else f"the rows of {request.target} would be there twice, too"
            if request.target
            else f"the records would count twice for {request.processor}, too"
        )
        raise WrongShape(
            f"the lake table has records of {selection.twice[0]} twice in this window, because a person moved the "
            f"position of the shard back. Nothing was made: {why}. Choose records that landed once"
        )


def find_window(windows: WindowStore, window: str, *, nothing: str = "") -> KeptWindow:
    """The window with this id. Raises Unknown where there is none.

    `nothing`: the part of the error's text that says that nothing was changed.
    """
    for kept_window in windows.all():
        if kept_window.window.id == window:
            return kept_window
    raise Unknown(f"there is no window {window!r}{nothing}; `headrace window list` names all windows")
