"""Reads the records of one shard on a Spark executor by enhanced fan-out: the events of a subscription, in order.

                      +--- five minutes are over, or trouble: again, after the last continuation number ---+
                      v                                                                                    |
    the consumer ──> SubscribeToShard ──> event ──> page ──> event ──> page ... ──> an event with child shards: the end

A subscription belongs to one wave, and ends with it. Kinesis refuses a second subscription to the same shard by
the same consumer for five seconds, so that a shard is read every five seconds at most. ResourceNotFound is never
taken for the end of a shard: a consumer can be gone while its shards have records that nobody has read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.clients.error_codes import code_of
from headrace.pipeline.aws.reading.asking import MISSING, Asking, Host, check_is_own, given_up
from headrace.pipeline.aws.reading.event_frames import Frame
from headrace.pipeline.aws.reading.known_consumers import CONSUMERS
from headrace.pipeline.aws.reading.pages_check import Absurd, check_after
from headrace.pipeline.aws.reading.pages_decode import PageAnswer, decode_event
from headrace.pipeline.aws.reading.subscribing import Messages, forget_subscribers, subscriber_client
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.errors import (
    BadAnswer,
    BadSetting,
    HeadraceError,
    Throttled,
    Transient,
    Unreachable,
)
from headrace.pipeline.ports.pages import Pages, RecordPage

_HOLDS: Final = 5.0
"""Seconds for which Kinesis refuses a second subscription of the same consumer and shard."""
_PROMPT: Final = 2.0
"""Seconds within which Kinesis answers a subscription as a rule."""
_FIRST_WAIT: Final = 1.0
"""Seconds. Kinesis allows one SubscribeToShard a second for each consumer and shard."""
_LONGEST_WAIT: Final = 5.0
_MOST_REMEMBERED: Final = 10_000
_INVALID: Final = "InvalidArgumentException"
_IN_USE: Final = "ResourceInUseException"
_RIGHTS: Final = (
    "kinesis:DescribeStreamSummary and kinesis:GetShardIterator on the stream, kinesis:DescribeStreamConsumer and "
    "kinesis:SubscribeToShard on its consumer, and kms:Decrypt on its key"
)
_subscribed: dict[tuple[str, str], float] = {}
"""When this process last subscribed, by the consumer's ARN and the shard."""


@dataclass(frozen=True, slots=True)
class ConsumerNames:
    """Which streams are read by enhanced fan-out, and the name of the consumer that reads each."""

    named: Mapping[str, str | None] = field(default_factory=dict)
    """For each stream of the settings its consumer; None where it is polled."""
    others: str | None = None
    """The consumer of each other stream; None where they are polled."""

    def of(self, stream: str) -> str | None:
        return self.named.get(stream, self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesByStream:
    """Reads each stream as its settings say: by GetRecords, or by enhanced fan-out where it names a consumer."""

    polling: Pages
    fan_out: FanOutPages

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        name = self.fan_out.consumers.of(batch.key.stream.name)
        return (self.polling if name is None else self.fan_out).pages(batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOutPages:
    access: KinesisAccess
    consumers: ConsumerNames
    patience: float = 20.0
    """Seconds for which a subscription is tried again without an event: far less than the time after which a run
    counts as hung (2 min or more)."""
    host: Host = Host(connect=subscriber_client)  # noqa: RUF009 (it is frozen)

    def pages(self, batch: Batch) -> Generator[RecordPage]:
        reading = _Reading(self, batch)
        try:
            while not reading.ended:
                yield reading.next_page()
        finally:
            reading.close()


@dataclass(frozen=True, slots=True)
class _Subscription:
    messages: Messages
    date: datetime
    """When it began, by Kinesis's clock."""
    asked: float
    """When it was asked for, by this host's monotonic clock."""


class _Reading:
    """The reading of one batch."""

    def __init__(self, source: FanOutPages, batch: Batch) -> None:
        name = source.consumers.of(batch.key.stream.name)
        if name is None:
            raise BadSetting(f"the settings don't name a consumer for {batch.key.stream}; nothing was read")
        self._name = name
        self._source = source
        self._host = source.host
        self._key = batch.key
        self._batch = batch
        self._asking = Asking(
            batch.key, source.access, source.host.connect, rights=_RIGHTS, forget=forget_subscribers
        )
        after = batch.after
        self._again = after.sequence if after is not None and after.reads_again else None
        """The record at the position, where user records of it may be left."""
        self._last = after.sequence if after is not None else None
        """Each record that is still to come has a higher sequence number."""
        if self._again is not None:
            self._last = self._again - 1
        # An iterator of polling is never a number.
        self._continuation = batch.iterator if (batch.iterator or "").isdecimal() else None
        """The number after which the next subscription begins. It is past the last record only where nothing lies
        between."""
        self._is_kept = self._continuation is not None
        """Whether the number is one that an earlier wave left, and no subscription has begun there yet."""
        self._open: _Subscription | None = None
        self.ended = False

    def next_page(self) -> RecordPage:
        event: tuple[PageAnswer, datetime, datetime] = self._with_patience(self._next_event)
        answer, answered, looked = event
        self._continuation = answer.next_iterator
        self._last = answer.last_sequence if answer.last_sequence is not None else self._last
        self.ended = bool(answer.children)
        return answer.page(answered, ended=self.ended, looked=looked)

    def close(self) -> None:
        if self._open is not None:
            self._open.messages.close()
            self._open = None

    def _next_event(self) -> tuple[PageAnswer, datetime, datetime]:
        try:
            while True:
                if self._open is None:
                    self._open = self._subscribe()
                frame = self._open.messages.next()
                if frame is None:
                    # The five minutes of a subscription are over.
                    self.close()
                elif frame.kind != "event":
                    raise self._told(frame)
                elif frame.name == "SubscribeToShardEvent":
                    return self._decoded(frame, self._open)
        except HeadraceError:
            self.close()
            raise

    def _decoded(self, frame: Frame, within: _Subscription) -> tuple[PageAnswer, datetime, datetime]:
        request_id = within.messages.request_id
        # From the moment of the question, so that it is no earlier than Kinesis's clock when it sent the event.
        answered = within.date + timedelta(seconds=self._host.monotonic() - within.asked)
        try:
            answer = decode_event(frame.payload, self._key, answered)
            check_after(answer.first_sequence, self._last)
        except (msgspec.DecodeError, Absurd) as error:
            raise BadAnswer(
                f"an event of {self._key} can't be right and wasn't used: {error} (AWS's request id: {request_id}). "
                "Records read before it are safe, and the shard is subscribed to again"
            ) from None
        check_is_own(answer, self._batch, access=self._source.access, request_id=request_id)
        if (answer.next_iterator is None) != bool(answer.children):
            # An END is never taken back once it is committed. So it counts only if both signs of it are there.
            raise Unreachable(
                f"an event of {self._key} has {'no' if answer.next_iterator is None else 'a'} continuation number and "
                f"{'child shards' if answer.children else 'no child shards'}, which is neither the end of the shard nor a "
                "part of it. The event wasn't used, and the shard is subscribed to again"
            )
        return answer, answered, within.date

    def _subscribe(self) -> _Subscription:
        self._asking.prove(self._host.monotonic)
        arn = CONSUMERS.arn(self._key.stream, self._name, self._source.access, self._look_consumer_up)
        asked, messages = self._begun(arn)
        if self._host.monotonic() - asked > _PROMPT:
            # The process stood still, or the way was slow, before the Date or after it. By the later time a gap would reach further
            # than it does, and by the earlier one records could be lost unseen. Where it is as slow again, the gap may be too long.
            messages.close()
            asked, messages = self._begun(arn)
        if messages.date is None:
            messages.close()
            raise Unreachable(
                f"a subscription to {self._key} has no Date header, which is needed to tell whether records "
                "were lost. Nothing of it was used. Look for a proxy that drops the header"
            )
        self._is_kept = False
        return _Subscription(messages, messages.date, asked)

    def _begun(self, arn: str) -> tuple[float, Messages]:
        """When a subscription was asked for, and its messages."""
        self._keep_apart(arn)
        asked = self._host.monotonic()
        messages: Messages = self._ask(arn)
        _remember(arn, self._key.shard_id, self._host.monotonic())
        return asked, messages

    def _look_consumer_up(self) -> Any:
        return self._asking.call(
            "describe_stream_consumer", StreamARN=self._key.stream.arn, ConsumerName=self._name
        )

    def _keep_apart(self, arn: str) -> None:
        """Wait until Kinesis allows another subscription, as far as this process knows."""
        former = _subscribed.get((arn, self._key.shard_id))
        wait = 0.0 if former is None else former + _HOLDS - self._host.monotonic()
        if wait > 0:
            self._host.sleep(wait)

    def _ask(self, arn: str) -> Any:
        try:
            return self._asking.call(
                "subscribe_to_shard",
                ConsumerARN=arn,
                ShardId=self._key.shard_id,
                StartingPosition=self._starting_position(),
            )
        except HeadraceError as error:
            code = code_of(error.__cause__)
            if code == MISSING:
                self._find_what_is_missing(arn)
            if code == _IN_USE:
                raise self._in_use() from error.__cause__
            if code == _INVALID and self._is_kept:
                # For example, the stream was deleted and created again since. The record's number shows what is wrong.
                self._continuation, self._is_kept = None, False
                return self._ask(arn)
            raise

    def _find_what_is_missing(self, arn: str) -> None:
        """Find out which of stream, consumer and shard Kinesis doesn't know: its answer doesn't say. Only a shard that
        is gone has lost records."""
        self._asking.prove_again(self._host.monotonic)
        CONSUMERS.forget(self._key.stream, self._name, self._source.access)
        now = CONSUMERS.arn(self._key.stream, self._name, self._source.access, self._look_consumer_up)
        if now == arn:
            self._asking.call(
                "get_shard_iterator",
                StreamARN=self._key.stream.arn,
                ShardId=self._key.shard_id,
                ShardIteratorType="TRIM_HORIZON",
            )
        raise Unreachable(
            f"Kinesis didn't find the consumer {self._name} of {self._key}, which is there. Nothing was lost, no "
            "shard counts as ended, and the shard is subscribed to again"
        )

    def _starting_position(self) -> dict[str, Any]:
        start = self._batch.start
        if self._continuation is not None:
            return {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": self._continuation}
        if self._again is not None and self._last == self._again - 1:
            return {"Type": "AT_SEQUENCE_NUMBER", "SequenceNumber": str(self._again)}
        if self._last is not None:
            return {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": str(self._last)}
        if start.at is None:
            return {"Type": "TRIM_HORIZON"}
        return {"Type": "AT_TIMESTAMP", "Timestamp": start.at}

    def _told(self, frame: Frame) -> HeadraceError:
        """What an exception in the stream means."""
        if frame.name == _IN_USE:
            return self._in_use()
        if frame.name == "KMSThrottlingException":
            return Throttled(f"KMS throttles the reading of {self._key}. Nothing was lost")
        if frame.name.startswith("KMS"):
            return BadSetting(
                f"the key of {self._key.stream} can't be used ({frame.name}), so Kinesis doesn't give records of "
                f"{self._key}. Landed records are safe; the worker's role needs kms:Decrypt on the key, and the key has to "
                "be enabled"
            )
        # Where the consumer or the shard is gone, the next subscription is refused, and then it is looked up.
        return Unreachable(
            f"Kinesis ended the subscription to {self._key} ({frame.name or frame.kind}). Nothing was lost, and the shard is "
            "subscribed to again"
        )

    def _in_use(self) -> Throttled:
        return Throttled(
            f"another subscription to {self._key} uses the consumer {self._name}, or began less than five seconds ago. "
            "Nothing was lost. Where that happens again and again, another program reads by the same consumer: give this "
            "application a consumer of its own by `consumer` in the stream's settings"
        )

    def _with_patience(self, ask: Callable[[], Any]) -> Any:
        deadline = self._host.monotonic() + self._source.patience
        wait = _FIRST_WAIT
        while True:
            try:
                return ask()
            except Transient as trouble:
                # Half of the pause is random, so that readers that were refused together don't all try again together.
                pause = wait * (1 + 0.5 * self._host.dice())
                if self._host.monotonic() + pause > deadline:
                    raise given_up(trouble, self._source.patience) from trouble
                self._host.sleep(pause)
                if not _is_in_use(trouble):
                    wait = min(wait * 2, _LONGEST_WAIT)


def _is_in_use(trouble: Transient) -> bool:
    """Whether the trouble is over in five seconds at most."""
    return isinstance(trouble, Throttled) and code_of(trouble.__cause__) == _IN_USE


def _remember(arn: str, shard_id: str, moment: float) -> None:
    if len(_subscribed) >= _MOST_REMEMBERED:
        # Those of more than five seconds ago mean nothing any more.
        _subscribed.clear()
    _subscribed[arn, shard_id] = moment
