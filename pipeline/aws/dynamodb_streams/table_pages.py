"""Reads the records of one shard of a DynamoDB table's stream on a Spark executor.

    records ──> page, page, ... ──> an empty answer of an open shard: the newest position
                                └─> no next iterator: the shard is closed ──> the children are listed ──> the end
                                                                          └─> none is listed yet: not the end; a later
                                                                              wave looks again

Unlike Kinesis, DynamoDB tells neither how far behind an answer is nor the children of a shard, and it knows no start at a
moment: earlier records are read and left out here. What DynamoDB has trimmed is never the end of a shard by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import msgspec

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.clients.error_codes import code_of
from headrace.pipeline.aws.dynamodb_streams.client import streams_client
from headrace.pipeline.aws.dynamodb_streams.decode import decode_table_answer, in_request
from headrace.pipeline.aws.dynamodb_streams.table_asking import TRIMMED, TableAsking
from headrace.pipeline.aws.reading.asking import MISSING, Host, check_is_own, given_up
from headrace.pipeline.aws.reading.pages_check import Absurd, check_after
from headrace.pipeline.aws.reading.pages_client import date_of, held_body, request_id_of
from headrace.pipeline.aws.reading.pages_decode import PageAnswer, since_moment
from headrace.pipeline.aws.reading.quick_records import EXPIRED
from headrace.pipeline.core.ledger.batch import WITHIN_THE_SECOND, Batch
from headrace.pipeline.core.shards.shard import Child
from headrace.pipeline.core.words.words import time_in_words
from headrace.pipeline.errors import BadAnswer, DataLoss, HeadraceError, Transient, Unreachable
from headrace.pipeline.ports.pages import RecordPage

_MOST_RECORDS: Final = 1000
"""In one answer, by DynamoDB's API."""
_BETWEEN: Final = 0.2
"""Seconds between two requests for a shard at least."""
_EMPTY: Final = 4
"""Empty answers in a row after which a new iterator counts as having reached the newest record: DynamoDB may need several
requests to come to the part of a shard that has records."""
_CHILDREN: Final = (0.0, 0.25, 0.5)
"""Seconds of pause before each look for the children of a closed shard."""
_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 5.0
_BARELY: Final = timedelta(milliseconds=1)
_T = TypeVar("_T")


class _IteratorExpired(Exception):
    """The iterator is older than fifteen minutes, or what it points to was trimmed since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoDbPages:
    access: KinesisAccess
    patience: float = 20.0
    """Seconds for which one request is tried again."""
    host: Host = Host(connect=streams_client)  # noqa: RUF009 (it is frozen)

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        reading = _Reading(self, batch)
        while not reading.is_over:
            yield reading.next_page()


@dataclass(frozen=True, slots=True)
class _Answered:
    page: PageAnswer
    at: datetime
    """The Date of the answer."""


class _Reading:
    """The reading of one batch."""

    def __init__(self, source: DynamoDbPages, batch: Batch) -> None:
        self._patience = source.patience
        self._host = source.host
        self._access = source.access
        self._batch = batch
        self._key = batch.key
        self._asking = TableAsking(batch.key, source.access, source.host.connect)
        self._last = None if batch.after is None else batch.after.sequence
        self._iterator = batch.iterator
        self._is_kept = batch.iterator is not None
        """Whether the iterator is one that an earlier wave left, and hasn't been used yet."""
        # An iterator that an earlier wave left stands behind what that wave read, so that one empty
        # answer shows the tip.
        self._empty_left = 1 if self._is_kept else _EMPTY
        """Empty answers in a row that are still needed to know the newest position."""
        self._from_oldest = self._last is None
        """Whether the next new iterator begins with the oldest record."""
        self._asked: float | None = None
        self.is_over = False

    def next_page(self) -> RecordPage:
        answered = self._with_patience(self._ask)
        page = answered.page
        self._iterator = page.next_iterator
        self._last = page.last_sequence if page.last_sequence is not None else self._last
        if page.next_iterator is None:
            return self._page_of_closed(page, answered.at)
        self._empty_left = _EMPTY if page.rows else self._empty_left - 1
        is_newest = not page.rows and self._empty_left <= 0
        page = self._without_earlier(page)
        return _record_page(page, answered.at, timedelta(0) if is_newest else _lag(page, answered.at))

    def _page_of_closed(self, page: PageAnswer, answered: datetime) -> RecordPage:
        """The last page of a closed shard. It is the shard's end only where its children are known, or where the stream is
        switched off: an END is never taken back."""
        self.is_over = True
        children = self._children()
        page = self._without_earlier(page)
        if children is not None:
            parents = (self._key.shard_id,)
            ends = tuple(Child(child, parents) for child in children)
            return _record_page(page, answered, timedelta(0), children=ends)
        if page.rows:
            return _record_page(page, answered, _lag(page, answered))
        # The child may have had records for a while. So the look shows nothing of the time since the batch's witness.
        return _record_page(page, answered, timedelta(0), looked=self._batch.witness)

    def _children(self) -> tuple[str, ...] | None:
        for pause in _CHILDREN:
            if pause:
                self._host.sleep(pause)
            children = self._with_patience(self._asking.children)
            if children is not None:
                return children
        return None

    def _without_earlier(self, page: PageAnswer) -> PageAnswer:
        start = self._batch.start.at
        if start is None or (self._batch.after is not None and self._batch.after.sequence is not None):
            return page
        # DynamoDB tells whole seconds.
        return since_moment(page, start.replace(microsecond=0))

    def _ask(self) -> _Answered:
        self._keep_pace()
        if self._iterator is None:
            self._iterator = self._new_iterator()
        try:
            raw = self._asking.call("get_records", ShardIterator=self._iterator, Limit=_MOST_RECORDS)
        except HeadraceError as error:
            return self._refused(error)
        self._is_kept = False
        return self._decoded(raw)

    def _keep_pace(self) -> None:
        now = self._host.monotonic()
        if self._asked is not None and (wait := self._asked + _BETWEEN - now) > 0:
            self._host.sleep(wait)
        self._asked = self._host.monotonic()

    def _decoded(self, raw: Any) -> _Answered:
        answered = date_of(raw)
        if answered is None:
            raise Unreachable(
                f"an answer for {self._key} has no Date header, which is needed to tell whether records were lost. The "
                "answer wasn't used. Look for a proxy that drops the header"
            )
        try:
            answer = decode_table_answer(held_body(raw), self._key, answered)
            check_after(answer.first_sequence, self._last)
        except (msgspec.DecodeError, Absurd) as error:
            raise BadAnswer(
                f"an answer for {self._key} can't be right and wasn't used: {error} (AWS's request id: "
                f"{request_id_of(raw)}). Records read before it are safe, and the request is sent again"
            ) from None
        check_is_own(answer, self._batch, access=self._access, request_id=request_id_of(raw))
        return _Answered(answer, answered)

    def _new_iterator(self) -> str:
        place: dict[str, Any] = {"ShardIteratorType": "TRIM_HORIZON"}
        if self._last is not None and not self._from_oldest:
            place = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": in_request(self._last)}
        try:
            answer = self._asking.call(
                "get_shard_iterator", StreamArn=self._key.stream.arn, ShardId=self._key.shard_id, **place
            )
        except HeadraceError as error:
            code = code_of(error.__cause__)
            if code == MISSING:
                raise self._lost_or_gone() from error
            if self._from_oldest or code not in {TRIMMED, "ValidationException"}:
                raise
            self._begin_with_oldest(error)
            return self._new_iterator()
        iterator: str = answer["ShardIterator"]
        return iterator

    def _refused(self, error: HeadraceError) -> _Answered:
        """What a refused GetRecords means. Never the end of the shard by itself."""
        code = code_of(error.__cause__)
        if code == EXPIRED or (self._is_kept and not isinstance(error, Transient)):
            raise _IteratorExpired from error
        if code == TRIMMED and not self._from_oldest:
            self._begin_with_oldest(error)
            raise _IteratorExpired from error
        if code in {TRIMMED, MISSING}:
            raise self._lost_or_gone() from error
        raise error

    def _begin_with_oldest(self, error: HeadraceError) -> None:
        """The record at the position has left the stream. Whether records after it did, too, is judged by times, unless
        DynamoDB has dropped records before their time."""
        after, answered = self._batch.after, date_of(getattr(error.__cause__, "response", {}))
        arrival = None if after is None else after.arrival
        # The record at the position went before its time, so that times say nothing about the ones
        # after it.
        if arrival is not None and (answered is None or arrival > forgotten(answered, self._batch.retention)):
            raise DataLoss(
                f"{self._key}: DynamoDB has dropped the record at the position, which arrived at {arrival.isoformat()}, before "
                f"{time_in_words(self._batch.retention)} had passed, so that records after it may be lost. The position doesn't move. Record "
                f"the gap with `headrace skip --shard {self._key.shard_id}` or set on_data_loss: continue"
            ) from error
        self._from_oldest = True

    def _lost_or_gone(self) -> HeadraceError:
        """The error where DynamoDB has nothing of a shard any more, although its end wasn't read."""
        listed = self._asking.listed()
        what = (
            "is gone from DynamoDB"
            if listed is None
            else "is still listed, and DynamoDB has dropped its records"
        )
        return DataLoss(
            f"{self._key} {what} before its end was read: its unread records are lost. Landed records are safe. Record the "
            f"gap with `headrace skip --shard {self._key.shard_id}` or set on_data_loss: continue"
        )

    def _with_patience(self, ask: Callable[[], _T]) -> _T:
        deadline = self._host.monotonic() + self._patience
        wait = _FIRST_WAIT
        while True:
            try:
                return ask()
            except (Transient, _IteratorExpired) as trouble:
                if isinstance(trouble, _IteratorExpired):
                    self._iterator, self._empty_left = None, _EMPTY
                    if self._is_kept:
                        self._is_kept = False
                        continue
                # Half of the pause is random, so that readers that were refused together don't all try again together.
                pause = wait * (0.5 + 0.5 * self._host.dice())
                if self._host.monotonic() + pause > deadline:
                    raise _given_up(trouble, str(self._key), self._patience) from trouble
                self._host.sleep(pause)
                wait = min(wait * 2, _LONGEST_WAIT)


def _lag(page: PageAnswer, answered: datetime) -> timedelta:
    """How far behind the page is, by its last record. Not zero: only an empty answer shows that nothing newer is there."""
    if page.last_arrival is None:
        return _BARELY
    return max(answered - page.last_arrival, _BARELY)


def _record_page(
    page: PageAnswer,
    answered: datetime,
    behind: timedelta,
    *,
    children: tuple[Child, ...] | None = None,
    looked: datetime | None = None,
) -> RecordPage:
    shown = replace(page, behind=behind, children=children or ())
    return shown.page(answered, ended=children is not None, looked=looked)


def _given_up(trouble: Transient | _IteratorExpired, key: str, patience: float) -> Exception:
    if isinstance(trouble, Transient):
        return given_up(trouble, patience)
    return Unreachable(
        f"shard iterators of {key} expire as soon as DynamoDB gives them. This wave stopped trying after {patience:g} s"
    )


def forgotten(answered: datetime, retention: timedelta) -> datetime:
    """The moment before which DynamoDB may have deleted records."""
    return answered + WITHIN_THE_SECOND - retention
