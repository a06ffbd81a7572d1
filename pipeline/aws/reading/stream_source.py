"""The common part of the sources of Kinesis's streams and of DynamoDB tables' streams: AWS's clock, shards that
are gone, and probes of idle shards.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import chain
from threading import Event
from typing import Any, ClassVar, Final

from botocore.exceptions import ClientError

from headrace.pipeline.aws.clients.clients import asking_aws, place_of_client
from headrace.pipeline.aws.reading.pages_client import date_of
from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.shard import NumberRange
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import HeadraceError, Unreachable, WrongShape
from headrace.pipeline.ports.reading import StreamFacts

MISSING: Final = "ResourceNotFoundException"
# Seconds for which a stream that was found to exist isn't looked up again.
_EXISTS_HOLDS: Final = 60.0
AT_ONCE: Final = 8
"""Requests at the same time. A hundred idle shards then take a second or two of a tick."""


class StreamSource(ABC):
    ITERATOR_LIVES: ClassVar[float]
    """Seconds for which AWS accepts a shard iterator."""

    def __init__(self) -> None:
        self._newest_date: tuple[datetime, float] | None = None
        """The newest Date header of an answer, and this host's monotonic time when it came."""
        self._exists: dict[str, float] = {}
        """ARN of a stream -> monotonic time when it was last found to exist."""
        self._gone: set[ShardKey] = set()
        self._iterators: dict[ShardKey, tuple[Start | int, str, float]] = {}
        """Idle shard -> its position, the iterator for the next look, and the monotonic time when the
        iterator was given."""

    @abstractmethod
    def describe(self, name: str) -> StreamFacts: ...

    @abstractmethod
    def _iterator(self, key: ShardKey, position: Start | int) -> str: ...

    @abstractmethod
    def _oldest_iterator(self, key: ShardKey) -> object:
        """Ask for the iterator of a shard's oldest record. AWS's error is raised as it is."""

    @abstractmethod
    def _first_record(self, key: ShardKey, iterator: str) -> Any: ...

    def _kept_look(self, key: ShardKey, iterator: str, position: Start | int) -> Any:
        """The answer to an iterator that an earlier look kept."""
        return self._first_record(key, iterator)

    def aws_now(self) -> datetime | None:
        if self._newest_date is None:
            return None
        date, looked = self._newest_date
        return date + timedelta(seconds=time.monotonic() - looked)

    def is_gone(self, key: ShardKey) -> bool:
        if key in self._gone:
            # A stream never uses a shard id again, so this answer stays true.
            return True
        try:
            with asking_aws(str(key), passing={MISSING}):
                self._oldest_iterator(key)
        except ClientError:
            # AWS gives the same error where the whole stream is missing, which says nothing about a
            # single shard. So the stream is looked up, which raises if it is missing.
            self._require_stream(key.stream)
            self._gone.add(key)
            return True
        return False

    def has_news(self, keys: Mapping[ShardKey, Start | int]) -> frozenset[ShardKey]:
        # Only expired iterators are dropped: many idle shards are looked at in turns, and each of them comes again.
        oldest = time.monotonic() - self.ITERATOR_LIVES
        self._iterators = {key: lookup for key, lookup in self._iterators.items() if lookup[2] > oldest}
        if not keys:
            return frozenset()
        silent = Event()

        def look(shards: Iterable[tuple[ShardKey, Start | int]]) -> list[ShardKey]:
            return [key for key, position in shards if self._has_news(key, position, silent)]

        threads = min(AT_ONCE, len(keys))
        with ThreadPoolExecutor(threads) as pool:
            # One task for each thread: handing over each shard by itself costs a third of its look.
            lists_with_news = pool.map(look, [tuple(keys.items())[n::threads] for n in range(threads)])
            return frozenset(chain.from_iterable(lists_with_news))

    def _has_news(self, key: ShardKey, position: Start | int, silent: Event) -> bool:
        """Whether the shard has new records. After an error: yes, so that a run reads the shard and reports
        what is wrong."""
        if silent.is_set():
            return True
        try:
            return self._look(key, position)
        except (HeadraceError, ClientError) as error:
            self._iterators.pop(key, None)
            if isinstance(error, Unreachable):
                # The other shards then don't wait for the same timeout.
                silent.set()
            return True

    def _look(self, key: ShardKey, position: Start | int) -> bool:
        lookup = self._iterators.pop(key, None)
        if lookup is not None and lookup[0] == position:
            answer = self._kept_look(key, lookup[1], position)
        else:
            answer = self._first_record(key, self._iterator(key, position))
        following = answer.get("NextShardIterator")
        if answer["Records"] or answer.get("MillisBehindLatest", 0) > 0 or not following:
            return True
        self._iterators[key] = (position, following, time.monotonic())
        return False

    def _require_stream(self, stream: StreamId) -> None:
        """Raise Unknown if the stream doesn't exist. Looked up at most once a minute: a lookup for each of
        hundreds of deleted parent shards would be throttled.
        """
        looked = self._exists.get(stream.arn)
        if looked is None or time.monotonic() - looked > _EXISTS_HOLDS:
            self.describe(stream.arn)
            self._exists[stream.arn] = time.monotonic()

    def _note_date(self, answer: Mapping[str, Any], client: Any) -> datetime:
        """The time of AWS's clock. Origins and data loss are judged by it, never by this host's clock,
        which may be wrong."""
        date = date_of(answer)
        if date is None:
            raise WrongShape(
                f"the answer of {place_of_client(client)} has no Date header, by which a stream's start is "
                "chosen. Nothing was changed; if there is a proxy before AWS, let it pass the header on"
            )
        moment = date.astimezone(UTC)
        self._newest_date = (moment, time.monotonic())
        return moment


def numbers_told(number_range: Mapping[str, str]) -> NumberRange | None:
    """The sequence numbers of a shard, from its description by Kinesis. Stand-ins of Kinesis give texts that
    aren't numbers, or an end before the start: such a bound counts as unknown.
    """
    first, last = number_range.get("StartingSequenceNumber", ""), number_range.get("EndingSequenceNumber", "")
    if not (first.isascii() and first.isdigit()):
        return None
    is_known = last.isascii() and last.isdigit() and int(last) >= int(first)
    return NumberRange(int(first), int(last) if is_known else None)
