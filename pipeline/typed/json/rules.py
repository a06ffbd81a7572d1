"""Whether payloads are JSON: one value each, in UTF-8. Spark's from_json reads a value and drops what follows it. Finding that here takes less
CPU than a second look by Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from headrace.pipeline.typed.formats.value_limit import too_many
from headrace.pipeline.typed.json.decimals import TOO_LONG, JsonDecimals
from headrace.pipeline.typed.json.fit import Judge
from headrace.pipeline.typed.json.times import NO_DATE, JsonTimes
from headrace.pipeline.typed.json.values import JsonValues

NO_TEXT = "the payload isn't text in UTF-8"
NO_OBJECT = "the payload isn't one JSON object that fits the schema"
_FEW = 1000
"""Payloads that are copied out of Arrow at once."""
_whole = msgspec.json.Decoder(msgspec.Raw)
"""Walks through a value, and makes no Python object of its parts."""


class PayloadRules(Protocol):
    """What payloads are judged by. It can be pickled."""

    def why_not(self, payload: Any) -> str | None: ...


@dataclass(frozen=True, slots=True)
class OnlyJson(PayloadRules):
    """For formats whose filter looks for JSON: whether a payload is JSON at all."""

    def why_not(self, payload: Any) -> str | None:
        return why_no_json(payload)


@dataclass(frozen=True, slots=True)
class JsonRules(PayloadRules):
    """What JSON payloads are judged by. It can be pickled."""

    values: JsonValues
    judge: Judge | None = None
    """By the table's columns, where payloads make them."""
    _decimals: JsonDecimals = field(init=False, repr=False)
    _times: JsonTimes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_decimals", JsonDecimals(self.values.columns))
        object.__setattr__(self, "_times", JsonTimes(self.values.columns))

    def why_not(self, payload: Any) -> str | None:
        """Why a payload isn't JSON, or may not become a row."""
        if why := why_no_json(payload):
            return why
        if self.values.are_too_many(payload):
            return too_many(self.values.most)
        if self._decimals.have_too_long(payload):
            return TOO_LONG
        if self._times.have_no_date(payload):
            return NO_DATE
        if self.judge is None:
            return None
        content = object_in(payload)
        return NO_OBJECT if content is None else self.judge.why_not(content)


def with_json_errors(rows: pa.Table, rules: PayloadRules) -> pa.Table:
    """The rows with a column that tells why `data` isn't JSON, or why it may not become a row; null where nothing is wrong."""
    reasons = [
        rules.why_not(payload)
        for start in range(0, rows.num_rows, _FEW)
        for payload in rows["data"].slice(start, _FEW).to_pylist()
    ]
    return rows.append_column("json_error", pa.array(reasons, pa.string()))


def why_no_json(payload: Any) -> str | None:
    if payload is None:
        return NO_OBJECT
    try:
        # Spark keeps bytes that aren't UTF-8 in a string, and a Python worker that gets such a string fails.
        payload.decode()
        _whole.decode(payload)
    except UnicodeDecodeError:
        return NO_TEXT
    except (msgspec.DecodeError, RecursionError):
        return NO_OBJECT
    return None


def object_in(payload: Any) -> dict[str, Any] | None:
    """The JSON object that the payload is. None where it is none."""
    try:
        payload.decode()
        content = msgspec.json.decode(payload)
    except (AttributeError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
