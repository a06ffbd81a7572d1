"""What people ask a window for, whether by a command or by the config of a run."""

from __future__ import annotations

from datetime import datetime

from headrace.pipeline.core.ledger.arrivals import Window
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.targets import targets_of
from headrace.pipeline.windows.replace import check_replaceable


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
