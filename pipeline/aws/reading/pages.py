"""Reads the records of one shard on a Spark executor: GetRecords answers ("pages") in order, from a batch's start.

                    +--- throttled, 5xx, connection lost: wait, same request again ---+
                    v                                                                 |
    GetShardIterator ──> GetRecords ──> page ──> NextShardIterator ──> GetRecords ──> page ... ──> no next
                    ^                                   |                                     iterator: the shard's end
                    +-- expired: after the last record -+

Before its first request, a reading proves that it has found the driver's stream
(`headrace.pipeline.aws.reading.pages_proof`).

Spark pickles this object and sends it to its workers with the task. So it says where Kinesis is and who asks
(`KinesisAccess`), and holds no connection: each reading process makes its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.clients.error_codes import code_of
from headrace.pipeline.aws.reading.asking import Asking, Host, check_is_own, given_up
from headrace.pipeline.aws.reading.pages_check import Absurd, check_after
from headrace.pipeline.aws.reading.pages_client import (
    date_of,
    held_body,
    request_id_of,
)
from headrace.pipeline.aws.reading.pages_decode import PageAnswer, decode_answer, decode_cbor_answer, size_of
from headrace.pipeline.aws.reading.pages_gate import GATE
from headrace.pipeline.aws.reading.pages_wire import WireChoice, is_cbor
from headrace.pipeline.aws.reading.quick_records import EXPIRED
from headrace.pipeline.core.landing.pace import MOST_RECORDS, Pace
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.encoding.cbor import NotCborError
from headrace.pipeline.errors import (
    BadAnswer,
    HeadraceError,
    Throttled,
    Transient,
    Unreachable,
)
from headrace.pipeline.ports.pages import RecordPage
from headrace.pipeline.settings.choices import WireFormat

# Seconds. Kinesis allows five calls a second to a shard.
_FIRST_WAIT = 0.2
# Seconds to wait after an error of Kinesis or of the network.
_LONGEST_WAIT = 5.0
# Seconds. A large page of another reader keeps this reader waiting for up to 5 s; a longer pause would
# leave part of this reader's share unused each time.
_LONGEST_THROTTLED = 0.5
_RIGHTS = (
    "kinesis:DescribeStreamSummary, kinesis:GetShardIterator and kinesis:GetRecords on the stream, "
    "and kms:Decrypt on its key"
)
_T = TypeVar("_T")


class _IteratorExpired(Exception):
    """The iterator is older than five minutes. A new one is asked for, after the last record that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KinesisPages:
    access: KinesisAccess
    patience: float = 20.0
    """Seconds for which one request is tried again: far less than the time after which a run counts as hung
    (2 min or more)."""
    share: float = 1.0
    """The setting wave.shard_share: how much of a shard's limits this reader uses at most
    (`headrace.pipeline.core.landing.pace`)."""
    first_page: int = MOST_RECORDS
    """Records in the first page of a batch at most, while the size of the records isn't known."""
    wire: WireFormat = WireFormat.AUTO
    """The format of requests and answers: the setting `wire`."""
    host: Host = Host()  # noqa: RUF009 (it is frozen)

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        reading = _Reading(self, batch)
        while not reading.ended:
            yield reading.next_page()


class _Reading:
    """The reading of one batch."""

    def __init__(self, source: KinesisPages, batch: Batch) -> None:
        self._source = source
        self._host = source.host
        self._key = batch.key
        self._batch = batch
        self._again = batch.after.sequence if batch.after is not None and batch.after.reads_again else None
        """The record at the position, where user records of it may be left."""
        self._last = batch.after.sequence if batch.after else None
        """Each record that is still to come has a higher sequence number."""
        if self._again is not None:
            self._last = self._again - 1
        self._iterator = batch.iterator
        self._is_kept = batch.iterator is not None
        """Whether the iterator is one that an earlier wave left, and hasn't been used yet."""
        self._pace = Pace(source.share, self._host.monotonic())
        self._at_most = source.first_page
        self._wire = WireChoice(source.wire)
        self._size: int | None = None
        """The number of bytes of the last answer."""
        self._asking = Asking(batch.key, source.access, source.host.connect, rights=_RIGHTS)
        self.ended = False

    def next_page(self) -> RecordPage:
        # Not by `_ask` alone: with a small share the pause after a full page is longer than the patience for
        # one request.
        self._keep_pace()
        answer, answered = self._with_patience(self._ask)
        # The bytes of partition keys count in a shard's limit as those of data do.
        size = answer.bytes + (0 if answer.records is None else size_of(answer.records["partition_key"]))
        self._pace.note_page(size)
        if answer.rows:
            self._at_most = self._pace.page(size / answer.rows)
        self._iterator = answer.next_iterator
        # Kinesis may answer with an empty page in the middle of a shard: the last record stays the one before it.
        self._last = answer.last_sequence if answer.last_sequence is not None else self._last
        self.ended = answer.next_iterator is None
        return answer.page(answered, ended=self.ended)

    def _ask(self) -> tuple[PageAnswer, datetime]:
        self._asking.prove(self._host.monotonic)
        if self._iterator is None:
            self._iterator = self._new_iterator()
        # Before a retry too: a shard's limits hold over all its readers (I28).
        self._keep_pace()
        # Only now, because a reading that waits for its pace needs no memory.
        with GATE.room(self._size):
            # Within, because a request may have waited for its room.
            self._pace.note_call(self._host.monotonic())
            return self._answer(self._iterator)

    def _keep_pace(self) -> None:
        if wait := self._pace.wait(self._host.monotonic()):
            self._host.sleep(wait)

    def _answer(self, iterator: str) -> tuple[PageAnswer, datetime]:
        raw = self._get_records(iterator)
        self._size = len(held_body(raw))
        GATE.note(self._size)
        answered = date_of(raw)
        if answered is None:
            raise Unreachable(
                f"an answer for {self._key} has no Date header, which is needed to tell whether records "
                "were lost. The answer wasn't used. Look for a proxy that drops the header"
            )
        try:
            decode = decode_cbor_answer if is_cbor(raw) else decode_answer
            answer = decode(held_body(raw), self._key, answered)
            check_after(answer.first_sequence, self._last)
        except (msgspec.DecodeError, NotCborError, Absurd) as error:
            # msgspec's text names a place in the document ("$.Records[3].Data") and never quotes a record.
            raise BadAnswer(
                f"an answer for {self._key} can't be right and wasn't used: {error} (AWS's request id: "
                f"{request_id_of(raw)}). Records read before it are safe, and the request is sent again"
            ) from None
        check_is_own(answer, self._batch, access=self._source.access, request_id=request_id_of(raw))
        if answer.next_iterator is None and not answer.children:
            # An END is never taken back once it is committed. So it counts only if the same answer names the
            # child shards.
            raise Unreachable(
                f"an answer for {self._key} has neither a next iterator nor child shards, "
                "so it isn't the end of the shard. The answer wasn't used, and the request is sent again"
            )
        return answer, answered

    def _get_records(self, iterator: str) -> Any:
        try:
            raw = self._asking.call(
                "get_records",
                ShardIterator=iterator,
                StreamARN=self._key.stream.arn,
                Limit=self._at_most,
                **self._wire.arguments,
            )
        except HeadraceError as error:
            if code_of(error.__cause__) == EXPIRED:
                raise _IteratorExpired from error
            trouble = self._wire.softened(error)
            if self._is_kept and not isinstance(trouble, Transient):
                # For example, the stream was deleted and created again since. A new iterator shows what is wrong.
                raise _IteratorExpired from error
            raise trouble from error.__cause__
        self._is_kept = False
        return raw

    def _new_iterator(self) -> str:
        arguments: dict[str, Any] = {"StreamARN": self._key.stream.arn, "ShardId": self._key.shard_id}
        start = self._batch.start
        # After the last record and never at a time, so that a new iterator skips and repeats nothing.
        if self._again is not None and self._last == self._again - 1:
            arguments |= {
                "ShardIteratorType": "AT_SEQUENCE_NUMBER",
                "StartingSequenceNumber": str(self._again),
            }
        elif self._last is not None:
            arguments |= {
                "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
                "StartingSequenceNumber": str(self._last),
            }
        elif start.at is None:
            arguments["ShardIteratorType"] = "TRIM_HORIZON"
        else:
            arguments |= {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": start.at}
        iterator: str = self._asking.call("get_shard_iterator", **arguments)["ShardIterator"]
        return iterator

    def _with_patience(self, ask: Callable[[], _T]) -> _T:
        deadline = self._host.monotonic() + self._source.patience
        wait = _FIRST_WAIT
        while True:
            try:
                return ask()
            except (Transient, _IteratorExpired) as trouble:
                if isinstance(trouble, _IteratorExpired):
                    self._iterator = None
                    if self._is_kept:
                        self._is_kept = False
                        continue
                else:
                    self._wire.after(trouble)
                # Half of the pause is random, so that readers that were refused together don't all try again together.
                pause = wait * (0.5 + 0.5 * self._host.dice())
                if self._host.monotonic() + pause > deadline:
                    raise _given_up(trouble, self._key, self._source.patience) from trouble
                self._host.sleep(pause)
                wait = min(wait * 2, _LONGEST_THROTTLED if isinstance(trouble, Throttled) else _LONGEST_WAIT)


def _given_up(trouble: Transient | _IteratorExpired, key: ShardKey, patience: float) -> Exception:
    if isinstance(trouble, Transient):
        return given_up(trouble, patience)
    return Unreachable(
        f"shard iterators of {key} expire as soon as Kinesis gives them. This wave stopped trying after {patience:g} s"
    )
