"""The options of `spark.read.format("headrace")`: which records a data frame has. Pure functions on values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from headrace.pipeline.core.words.words import moment_of
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.choices import OnDataLoss

_MOST_DIGITS = 129
"""The most digits of a sequence number, by Kinesis's API."""


class ReadFrom(StrEnum):
    """The place from which records are read: the lake table or the stream."""

    LAKE = "lake"
    KINESIS = "kinesis"


class View(StrEnum):
    """What the rows of a data frame show: the records, or the losses."""

    RECORDS = "records"
    LOSSES = "losses"


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeOptions:
    """The records that a data frame has: those that meet all conditions. None: without this condition."""

    place: ReadFrom = ReadFrom.LAKE
    view: View = View.RECORDS
    on_data_loss: OnDataLoss = OnDataLoss.STOP
    since: datetime | None = None
    """Records that arrived at this time or later."""
    until: datetime | None = None
    """Records that arrived before this time."""
    stream: str | None = None
    shard: str | None = None
    after: int | None = None
    """Records of the shard after the one with this sequence number."""
    upto: int | None = None
    """Records of the shard up to the one with this sequence number."""
    window: str | None = None

    @property
    def by_numbers(self) -> bool:
        return self.after is not None or self.upto is not None


_FIELDS = {
    "source": "place",
    "view": "view",
    "on_data_loss": "on_data_loss",
    "from": "since",
    "to": "until",
    "stream": "stream",
    "shard": "shard",
    "after_sequence": "after",
    "upto_sequence": "upto",
    "window": "window",
}
"""Option -> field of `RangeOptions`."""


def range_options(options: Mapping[str, str], *, streaming: bool = False) -> RangeOptions:
    """The options of a query, parsed and checked. Raises BadSetting.

    `streaming`: whether they are for `spark.readStream`, which reads by times.
    """
    values = {name.lower(): text for name, text in options.items()}
    if unknown := sorted(values.keys() - _FIELDS.keys()):
        raise BadSetting(
            f"the Spark source has no option {unknown[0]!r}; it has {', '.join(_FIELDS)}. Nothing was read"
        )
    chosen = RangeOptions(**{_FIELDS[name]: _value(name, text) for name, text in values.items()})
    if mistake := _mistake(chosen, streaming=streaming):
        raise BadSetting(f"{mistake}. Nothing was read")
    return chosen


def _value(name: str, text: str) -> Any:
    try:
        match name:
            case "source":
                return ReadFrom(text)
            case "view":
                return View(text)
            case "on_data_loss":
                return OnDataLoss(text)
            case "from" | "to":
                return moment_of(text)
            case "after_sequence" | "upto_sequence":
                return _number(text)
            case _:
                return _text(text)
    except ValueError as error:
        raise BadSetting(
            f"the option {name} of the Spark source is {text!r}; allowed: {_allowed(name)}. Nothing was read"
        ) from error


def _allowed(name: str) -> str:
    kinds: dict[str, type[StrEnum]] = {"source": ReadFrom, "view": View, "on_data_loss": OnDataLoss}
    if name in kinds:
        return " or ".join(kinds[name])
    if name in {"from", "to"}:
        return "a time such as 2026-01-31 or 2026-01-31T12:00, in UTC where it names no zone"
    return "a sequence number" if name.endswith("sequence") else "a name"


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS:
        raise ValueError(text)
    return int(text)


def _text(text: str) -> str:
    if not text:
        raise ValueError(text)
    return text


def _mistake(options: RangeOptions, *, streaming: bool) -> str:
    """What is wrong with the options together, as a sentence without its point; empty where nothing is."""
    since, until = options.since, options.until
    if since is not None and until is not None and since >= until:
        return f"the option `to` is {until.isoformat()}; allowed: a time after `from`, {since.isoformat()}"
    if options.by_numbers and options.shard is None:
        return "sequence numbers are those of one shard: name it by the option shard"
    if options.by_numbers and (since is not None or until is not None):
        return "a range has either times (from, to) or sequence numbers (after_sequence, upto_sequence)"
    if options.after is not None and options.upto is not None and options.upto <= options.after:
        return "the option `upto_sequence` isn't after after_sequence, so that no record can lie between them"
    others = (since, until, options.stream, options.shard, options.after, options.upto)
    if options.window is not None and any(value is not None for value in others):
        return (
            "a window says by itself which records it has: leave out all options but window, view and source"
        )
    if options.window is not None and options.place is ReadFrom.KINESIS:
        return "a window is read from the lake table: leave out the option source"
    # An offset of a streaming query is a time: tasks can't tell the driver how far they came in
    # each shard.
    if streaming and (options.window is not None or options.by_numbers):
        return "spark.readStream goes by times: use from, to, stream and shard, or spark.read for this range"
    if streaming and options.view is View.LOSSES:
        return "losses are read by spark.read: they are told of a whole range"
    return ""
