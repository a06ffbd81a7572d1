"""Lists the streams by a function of the user's own, which the setting `discovery.tracker` names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Thread
from typing import Any

from headrace.pipeline.duties.streams.streams import unnamed
from headrace.pipeline.errors import BadSetting, HeadraceError, Unreachable
from headrace.pipeline.hooks.code import code_named
from headrace.pipeline.settings.choices import InitialPosition
from headrace.pipeline.settings.model import Settings, StreamSettings

PATIENCE = timedelta(seconds=5)
"""How long a tick waits for the function."""
_KEYS = {"name", "initial_position", "timestamp"}


@dataclass(slots=True)
class _Question:
    ask: Callable[[], Any]
    answer: tuple[StreamSettings, ...] = ()
    error: Exception | None = None

    def run(self) -> None:
        try:
            self.answer = self.ask()
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything; `streams` tells of it
            self.error = error


@dataclass(slots=True)
class StreamTracker:
    """Calls the user's function in a thread. If the function hangs, one tick waits for it a few seconds, and
    later ticks don't.
    """

    settings: Settings
    patience: timedelta = PATIENCE
    _asking: Thread | None = field(default=None, init=False)

    def streams(self) -> tuple[StreamSettings, ...]:
        """The streams that the function lists, each with its start. Raises an error where the function doesn't
        answer in time, or not with streams.
        """
        if self._asking is not None and self._asking.is_alive():
            raise Unreachable(
                f"{self._called} still doesn't answer an earlier question. No stream was added or removed"
            )
        question = _Question(self._ask)
        thread = self._asking = Thread(target=question.run, name="headrace-tracker", daemon=True)
        thread.start()
        # Python can't end a call that hangs, so the thread is left alone, and no second one is
        # started beside it.
        thread.join(self.patience.total_seconds())
        if thread.is_alive():
            seconds = self.patience.total_seconds()
            raise Unreachable(
                f"{self._called} didn't answer within {seconds:g} s. No stream was added or removed"
            )
        if isinstance(question.error, HeadraceError):
            raise question.error
        if question.error is not None:
            kind = type(question.error).__name__
            raise BadSetting(
                f"{self._called} raised {kind}: {question.error}. No stream was added or removed"
            ) from question.error
        return question.answer

    @property
    def _called(self) -> str:
        return f"discovery.tracker ({self.settings.discovery.tracker})"

    def _ask(self) -> tuple[StreamSettings, ...]:
        function = code_named(
            str(self.settings.discovery.tracker), self.settings.written.folder, setting="discovery.tracker"
        )
        answer: Iterable[Any] = function()
        # A text and a mapping can be iterated too, and would be read as streams of other names.
        if isinstance(answer, str | bytes | Mapping):
            raise BadSetting(
                f"{self._called} returns {answer!r}; allowed: a list of streams, also where it has one stream alone. "
                "No stream was added or removed"
            )
        return tuple(self._stream(entry) for entry in answer)

    def _stream(self, entry: Any) -> StreamSettings:
        """A name, or a mapping with a name and a start. What it leaves out is as `discovery` says."""
        values: Any = {"name": entry} if isinstance(entry, str) else entry
        if (
            not isinstance(values, Mapping)
            or not values.keys() <= _KEYS
            or not isinstance(values.get("name"), str)
        ):
            raise self._wrong(entry, "a name, or a mapping with name, initial_position and timestamp")
        usual = unnamed(self.settings, values["name"])
        if "initial_position" not in values:
            if values.get("timestamp") is not None:
                raise self._wrong(entry, "initial_position: AT_TIMESTAMP beside a timestamp")
            return usual
        try:
            position = InitialPosition(values["initial_position"])
        except ValueError:
            raise self._wrong(entry, "TRIM_HORIZON, LATEST or AT_TIMESTAMP as initial_position") from None
        timestamp = values.get("timestamp")
        is_moment = isinstance(timestamp, datetime) and timestamp.tzinfo is not None
        if is_moment != (position is InitialPosition.AT_TIMESTAMP) or (
            timestamp is not None and not is_moment
        ):
            raise self._wrong(
                entry, "a timestamp with a time zone with AT_TIMESTAMP, and with no other start"
            )
        return StreamSettings(
            name=usual.name,
            initial_position=position,
            timestamp=timestamp,
            on_data_loss=usual.on_data_loss,
            retrieval=usual.retrieval,
            consumer=usual.consumer,
        )

    def _wrong(self, entry: Any, allowed: str) -> BadSetting:
        return BadSetting(
            f"{self._called} lists {entry!r}; allowed: {allowed}. No stream was added or removed"
        )


def tracker_of(settings: Settings) -> Callable[[], tuple[StreamSettings, ...]] | None:
    return None if settings.discovery.tracker is None else StreamTracker(settings).streams
