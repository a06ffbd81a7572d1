"""Find streams by name prefix and tags. Kinesis allows 5 such requests a second for a whole account."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from headrace.pipeline.aws.clients.clients import asking_aws
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.errors import Throttled, Unreachable

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

# Streams whose tags are read again in one look: four seconds of a tick, at 5 requests a second. The tags of
# new streams are all read, before these.
_AT_ONCE: Final = 20
_READABLE: Final = frozenset({"ACTIVE", "UPDATING"})
_STALE_PAGE: Final = "ExpiredNextTokenException"
_MISSING: Final = "ResourceNotFoundException"


class Finder:
    """Finds streams. Tags that were read are kept, so that the next search can use them if Kinesis throttles this
    one half-way.
    """

    def __init__(self, client: KinesisClient) -> None:
        self._client = client
        self._tags: dict[StreamId, tuple[float, Mapping[str, str]]] = {}

    def find(self, prefix: str | None, tags: Mapping[str, str]) -> tuple[StreamId, ...]:
        named = [stream for stream in self._listed() if stream.name.startswith(prefix or "")]
        if tags:
            self._ask_tags(named)
            named = [stream for stream in named if tags.items() <= self._tags[stream][1].items()]
        return tuple(named)

    def _listed(self) -> Iterator[StreamId]:
        request: dict[str, Any] = {}
        while True:
            try:
                with asking_aws("the list of streams", passing={_STALE_PAGE}):
                    answer = self._client.list_streams(**request)
            except ClientError as error:
                raise Unreachable(
                    f"the list of streams took longer than its page tokens are valid ({error}). "
                    "Nothing was changed; the next look tries again"
                ) from error
            for summary in answer["StreamSummaries"]:
                if summary["StreamStatus"] in _READABLE:
                    yield StreamId(
                        summary["StreamARN"], int(summary["StreamCreationTimestamp"].timestamp() // 1)
                    )
            if "NextToken" not in answer:
                return
            request = {"NextToken": answer["NextToken"]}

    def _ask_tags(self, streams: Sequence[StreamId]) -> None:
        """Read the tags of all new streams, and again those of the streams whose tags are oldest, until
        Kinesis throttles."""
        self._tags = {stream: self._tags[stream] for stream in streams if stream in self._tags}
        new = [stream for stream in streams if stream not in self._tags]
        oldest = sorted(self._tags, key=lambda stream: self._tags[stream][0])
        for stream in new:
            self._tags[stream] = (time.monotonic(), self._tags_of(stream))
        # Without an answer, the older tags are used until the next look.
        with suppress(Throttled):
            for stream in oldest[: max(0, _AT_ONCE - len(new))]:
                self._tags[stream] = (time.monotonic(), self._tags_of(stream))

    def _tags_of(self, stream: StreamId) -> dict[str, str]:
        tags: dict[str, str] = {}
        request: dict[str, Any] = {"StreamARN": stream.arn}
        while True:
            try:
                with asking_aws(f"the tags of {stream}", passing={_MISSING}):
                    answer = self._client.list_tags_for_stream(**request)
            except ClientError:
                # The stream was deleted after it was listed.
                return {}
            tags |= {tag["Key"]: tag.get("Value", "") for tag in answer["Tags"]}
            if not answer["HasMoreTags"] or not answer["Tags"]:
                return tags
            request["ExclusiveStartTagKey"] = answer["Tags"][-1]["Key"]
