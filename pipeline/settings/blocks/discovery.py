"""The block `discovery` of the settings: which streams Headrace reads beside those that `streams` names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from headrace.pipeline.settings.choices import InitialPosition, OnDataLoss, Retrieval
from headrace.pipeline.settings.knob import knob


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverySettings:
    prefix: str | None = knob(
        doc="Headrace reads all streams of this account and region whose names begin with this text."
    )
    tags: Mapping[str, str] = knob(
        factory=dict,
        doc="Headrace reads all streams that have all of these tags. With `prefix` too, a stream must match both.",
    )
    tracker: str | None = knob(
        doc="A function of yours that lists streams, as package.module:function; its module is beside this file, or "
        "installed. It returns names or ARNs, or mappings with name, initial_position and timestamp. It is asked once a "
        "minute, beside `prefix` and `tags`, and has 5 s to answer.",
        kcl="streamTracker",
    )
    initial_position: InitialPosition = knob(
        InitialPosition.TRIM_HORIZON, doc="Where Headrace starts in a found stream that it has never read."
    )
    timestamp: datetime | None = knob(
        doc="With `initial_position: AT_TIMESTAMP`: the moment, with a time zone."
    )
    on_data_loss: OnDataLoss = knob(
        OnDataLoss.STOP, doc="As in `streams`, for all streams that `streams` doesn't name: stop or continue."
    )
    retrieval: Retrieval = knob(
        Retrieval.POLLING,
        doc="As in `streams`, for all streams that `streams` doesn't name: polling or fanout.",
    )
    consumer: str | None = knob(doc="As in `streams`, for all streams that `streams` doesn't name.")

    @property
    def is_asked_for(self) -> bool:
        return self.searches or self.tracker is not None

    @property
    def searches(self) -> bool:
        """Whether Kinesis is asked for streams, by their names or tags."""
        return self.prefix is not None or bool(self.tags)
