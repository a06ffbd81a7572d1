"""A client that subscribes to shards over HTTP/1.1, and the messages of a subscription as they come.

    subscribe_to_shard ──> botocore: sign, send ──> before-parse event: keep the connection aside ──> event_frames

botocore's model says that SubscribeToShard wants HTTP/2, but Kinesis answers over HTTP/1.1 as well, in chunks: that is
how boto3 does it. Each subscription has a connection of its own, which ends with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from threading import Lock
from typing import Any, Final

import urllib3.exceptions as urllib3

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.clients.task_client import client_of_service
from headrace.pipeline.aws.reading.event_frames import BadFrameError, Frame, FrameReader
from headrace.pipeline.aws.reading.pages_client import date_of, request_id_of
from headrace.pipeline.errors import BadAnswer, Unreachable

_STREAM: Final = "HeadraceStream"
_SILENCE: Final = 10.0
"""Seconds without a byte after which a subscription counts as lost. Kinesis sends an event every five seconds, also where
there are no records."""
_PIECE: Final = 32 * 1024 * 1024
"""More than the largest message: a chunk that is received whole needn't be joined, which would copy it."""
# The message with which an event stream begins: botocore's parser wants it, and gets this one instead.
_BEGINNING: Final = (
    b"\x00\x00\x00G\x00\x00\x005\xd9B\x9f\x13"
    b"\r:message-type\x07\x00\x05event\x0b:event-type\x07\x00\x10initial-response"
    b"{}\x8d\xe0\xc8\xa3"
)
_making = Lock()


class Subscriber:
    """A client of Kinesis whose SubscribeToShard returns raw messages, without botocore's parsing of each event."""

    def __init__(self, client: Any) -> None:
        """Take over a client of botocore."""
        client.meta.events.register("before-parse.kinesis.SubscribeToShard", _hold_stream)
        self._client = client

    def describe_stream_summary(self, **arguments: Any) -> Mapping[str, Any]:
        facts: Mapping[str, Any] = self._client.describe_stream_summary(**arguments)
        return facts

    def describe_stream_consumer(self, **arguments: Any) -> Mapping[str, Any]:
        facts: Mapping[str, Any] = self._client.describe_stream_consumer(**arguments)
        return facts

    def get_shard_iterator(self, **arguments: Any) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self._client.get_shard_iterator(**arguments)
        return answer

    def subscribe_to_shard(self, **arguments: Any) -> Messages:
        answer = self._client.subscribe_to_shard(**arguments)
        return Messages(answer[_STREAM], date_of(answer), request_id_of(answer))


class Messages:
    """The messages of one subscription to a shard, as they come from Kinesis."""

    def __init__(self, raw: Any, date: datetime | None, request_id: str) -> None:
        """Read from an answer of urllib3. `date`: the Date of the answer, when the subscription began."""
        self._raw = raw
        self._pieces: Iterator[bytes] = raw.stream(_PIECE)
        self._reader = FrameReader()
        self._waiting: deque[Frame] = deque()
        self.date = date
        self.request_id = request_id

    def next(self) -> Frame | None:
        """The next message; None where the subscription has ended in the regular way."""
        try:
            while not self._waiting:
                piece = next(self._pieces, None)
                if piece is None:
                    if not self._reader.is_between:
                        raise Unreachable("the subscription ended in the middle of an event")
                    return None
                self._waiting.extend(self._reader.feed(piece))
        except BadFrameError as error:
            raise BadAnswer(f"{error} (AWS's request id: {self.request_id})") from None
        except urllib3.ReadTimeoutError as error:
            raise Unreachable("the subscription was silent for too long") from error
        except (urllib3.HTTPError, OSError) as error:
            raise Unreachable(f"the subscription's connection was lost ({type(error).__name__})") from error
        return self._waiting.popleft()

    def close(self) -> None:
        """End the subscription by closing the connection, which Kinesis notices when it sends the next event."""
        # Closed and not given back: the connection still carries events, and another request on it
        # would take them for its answer.
        self._raw.close()


def subscriber_client(access: KinesisAccess, *, silence: float = _SILENCE) -> Subscriber:
    """The client of this process, by which a Spark task subscribes to shards. `silence`: seconds without a byte after which a subscription counts as lost."""
    with _making:
        return _client(access, silence)


@lru_cache(maxsize=8)
def _client(access: KinesisAccess, silence: float) -> Subscriber:
    # A subscription is silent for up to 5 s while all is well: `aws.client` says how long one answer may take.
    network = replace(access.network, read_timeout=None)
    client = client_of_service(replace(access, network=network), "kinesis", read_timeout=silence)
    return Subscriber(client)


forget_subscribers = _client.cache_clear
"""Forget credentials that Kinesis refused: the next request reads them anew."""


class _Begun:
    """Takes the place of the answer in botocore's parser."""

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield _BEGINNING


def _hold_stream(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object
) -> None:
    if response_dict["status_code"] == 200:
        # botocore's parser would decode each event into objects of Python. It gets a beginning
        # without events instead, and the connection is read by this module.
        customized_response_dict[_STREAM] = response_dict["body"]
        response_dict["body"] = _Begun()
