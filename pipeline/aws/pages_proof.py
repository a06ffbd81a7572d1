"""The proof of a reading process that it has found the driver's stream: one question to Kinesis for each stream and process.

    the driver: ARN and creation time, of its own question ──> the task asks the same, where it reads ──> equal: it reads
                                                                                                  └──> else an error with both, and nothing is read

A stream of that name can be there too where the task looks, in another account or behind another endpoint, and the answers of GetRecords name
no stream.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from threading import Lock
from typing import Any, Final

from headrace.pipeline.aws.pages_client import KinesisAccess
from headrace.pipeline.core.stream import StreamId
from headrace.pipeline.errors import Throttled, WrongStream

_REST: Final = 1.0
"""Seconds without a question after Kinesis refused one: an account may ask DescribeStreamSummary 20 times a second, with all its processes."""
_MOST: Final = 10_000
"""Streams that are remembered. A test run makes streams without end."""


class StreamProofs:
    def __init__(self) -> None:
        self._lock = Lock()
        self._proved: set[tuple[StreamId, Hashable]] = set()
        self._rests_until: dict[Hashable, float] = {}
        """When the next question may be asked, by access."""

    def require(
        self,
        stream: StreamId,
        access: Hashable,
        ask: Callable[[], Mapping[str, Any]],
        *,
        now: Callable[[], float],
    ) -> None:
        """Return if the stream is the one that the driver means. `ask`: DescribeStreamSummary, by that access. `now`: seconds of a clock that
        never goes back."""
        if (stream, access) in self._proved:
            return
        # All threads of a task begin at the same time: one of them asks.
        with self._lock:
            if (stream, access) in self._proved:
                return
            if now() < self._rests_until.get(access, float("-inf")):
                raise Throttled(f"Kinesis throttles the description of {stream}. Nothing was lost")
            try:
                answer = ask()
            except Throttled:
                self._rests_until[access] = now() + _REST
                raise
            _compare(stream, answer["StreamDescriptionSummary"])
            if len(self._proved) >= _MOST:
                self._proved.clear()
            self._proved.add((stream, access))

    def forget(self) -> None:
        """Also for a thread that is asking just now, and whose question Kinesis has refused."""
        self._proved.clear()


PROOFS: Final = StreamProofs()
"""Of this process."""


def not_found(stream: StreamId, access: KinesisAccess) -> str:
    return (
        f"the Spark task doesn't find the stream {stream} ({stream.arn}) in {access}, where Headrace itself has found it: the stream was deleted "
        "since, or something answers the task that isn't Headrace's Kinesis. Nothing was read or staged; if the stream exists, look at aws.endpoint and "
        "at the proxies of the task's host"
    )


def _compare(stream: StreamId, summary: Mapping[str, Any]) -> None:
    there = StreamId(summary["StreamARN"], int(summary["StreamCreationTimestamp"].timestamp() // 1))
    if there != stream:
        raise WrongStream(
            f"the Spark task finds another stream than Headrace itself: {there} with the ARN {there.arn} instead of {stream} with the ARN "
            f"{stream.arn}. Nothing was read or staged. If the stream was deleted and created again just now, the next wave goes on; else something "
            "answers the task that isn't Headrace's Kinesis: look at aws.endpoint and at the proxies of the task's host"
        )
