"""The proof of a reading process that it has found the driver's stream: one question to Kinesis for each
stream and process.

    the driver: ARN and creation time, of its own question ──> the task asks the same, where it reads ──>
    equal: it reads
                                                                                                  └──> else an
                                                                                                  error with
                                                                                                  both, and
                                                                                                  nothing is
                                                                                                  read

A stream of that name can be there too where the task looks, in another account or behind another endpoint,
and the answers of GetRecords name no stream.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from threading import Lock
from typing import Any, Final

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.errors import Throttled, Transient, Unreachable, WrongStream

# Seconds without a question after Kinesis refused one or didn't answer. An account may ask
# DescribeStreamSummary 20 times a second, with all its processes; and threads that waited for ten seconds
# of silence each, one after the other, would make a run look hung.
_REST: Final = 1.0
# Streams that are remembered. A test run makes streams without end.
_MOST: Final = 10_000


class StreamProofs:
    def __init__(self) -> None:
        self._asking: dict[tuple[StreamId, Hashable], Lock] = {}
        self._proved: set[tuple[StreamId, Hashable]] = set()
        self._rests: dict[Hashable, tuple[float, type[Transient]]] = {}
        """For each access, until when nobody asks, and because of which trouble."""

    def require(
        self,
        stream: StreamId,
        access: Hashable,
        ask: Callable[[], Mapping[str, Any]],
        *,
        now: Callable[[], float],
    ) -> None:
        """Return if the stream is the one that the driver means, and raise an error if not. `ask`: calls
        DescribeStreamSummary with that access. `now`: seconds of a clock that never goes back.
        """
        if (stream, access) in self._proved:
            return
        # All threads of a task begin at the same time: of those with the same stream, one asks.
        with self._asking.setdefault((stream, access), Lock()):
            if (stream, access) in self._proved:
                return
            until, trouble = self._rests.get(access, (float("-inf"), Transient))
            if now() < until:
                raise trouble(_resting(stream, trouble))
            try:
                answer = ask()
            except (Throttled, Unreachable) as error:
                self._rests[access] = now() + _REST, type(error)
                raise
            _compare(stream, answer["StreamDescriptionSummary"])
            if len(self._proved) >= _MOST:
                self._proved.clear()
                self._asking.clear()
            self._proved.add((stream, access))

    def forget(self, access: Hashable, stream: StreamId | None = None) -> None:
        """Let the next reading prove anew: of this stream, or of all streams that are read by that access. That
        also holds for a thread that is asking just now, and whose question Kinesis has refused.
        """
        if stream is not None:
            self._proved.discard((stream, access))
        else:
            self._proved = {proof for proof in tuple(self._proved) if proof[1] != access}


PROOFS: Final = StreamProofs()
"""The proofs of this process: what one task has proved, the others needn't ask."""


def _resting(stream: StreamId, trouble: type[Transient]) -> str:
    what = "throttles" if trouble is Throttled else "doesn't answer the request for"
    return f"Kinesis {what} the description of {stream}. Nothing was lost"


def not_found(stream: StreamId, access: KinesisAccess) -> str:
    return (
        f"the Spark task doesn't find the stream {stream} ({stream.arn}) in {access}, "
        "where Headrace itself has found it: the stream was deleted since, or something answers the task "
        "that isn't Headrace's Kinesis. Nothing was read or staged; if the stream exists, "
        "look at aws.endpoint and at the proxies of the task's host"
    )


def _compare(stream: StreamId, summary: Mapping[str, Any]) -> None:
    answered = StreamId(summary["StreamARN"], int(summary["StreamCreationTimestamp"].timestamp() // 1))
    if answered != stream:
        raise WrongStream(
            "the Spark task finds another stream than Headrace itself: "
            f"{answered} with the ARN {answered.arn} instead of {stream} with the ARN {stream.arn}. "
            "Nothing was read or staged. If the stream was deleted and created again just now, "
            "the next wave goes on; else something answers the task that isn't Headrace's Kinesis: "
            "look at aws.endpoint and at the proxies of the task's host"
        )
