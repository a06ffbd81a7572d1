"""The executor's reader: one shard's answers, in order, from a batch's start.

                    +--------- throttled, 5xx, cut off: back off, same request -------+
                    v                                                                 |
    GetShardIterator ──> GetRecords ──> page ──> NextShardIterator ──> GetRecords ──> page ... ──> no next
                    ^                                   |                                     one: END
                    +----- expired: after the last -----+

It travels to Spark's workers inside the task, so it holds names only: a region and an endpoint, no
credentials and no connection. Those belong to the process that reads.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from pipeline.aws.pages_client import date_of, held_body, reader_client
from pipeline.aws.pages_decode import Answer, decode_answer
from pipeline.core.batch import Batch
from pipeline.core.stream import ShardKey
from pipeline.errors import BadSetting, DataLoss, Terminal, Throttled, Transient, Unreachable, WrongShape
from pipeline.ports import Page
from pipeline.settings_choices import Wire

if TYPE_CHECKING:
    from mypy_boto3_kinesis.client import KinesisClient

_THROTTLES = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "LimitExceededException",
        "KMSThrottlingException",
        "ThrottlingException",
        "Throttling",
        "RequestLimitExceeded",
    }
)
_FIRST_WAIT = 0.2  # seconds; a shard takes 5 calls a second
_LONGEST_WAIT = 5.0  # seconds; a full page of 10 MiB uses up 5 seconds of a shard's 2 MiB/s


_T = TypeVar("_T")


class _IteratorExpired(Exception):
    """Iterators live for five minutes; a new one goes on after the last record seen."""


def _dice() -> float:
    return random.random()


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Time, dice and connection of the process that reads. Functions of modules, so that they pickle by name."""

    connect: Callable[[str, str | None], KinesisClient] = reader_client

    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    dice: Callable[[], float] = _dice


@dataclass(frozen=True, slots=True, kw_only=True)
class KinesisPages:
    region: str
    endpoint: str | None = None
    wire: Wire = Wire.JSON
    patience: float = 20.0
    """Seconds that one request is tried again for; well below the time after which a run counts as hung."""
    pace: float = 0.2
    """The least seconds between two requests to a shard: Kinesis allows five a second, over all readers."""
    host: Host = Host()

    def __post_init__(self) -> None:
        if self.wire is not Wire.JSON:
            raise BadSetting(f"aws.wire is {self.wire.value}, but only json is built; nothing was read")

    def pages(self, batch: Batch) -> Iterator[Page]:
        reading = _Reading(self, batch)
        while not reading.ended:
            yield reading.next_page()


class _Reading:
    """One batch in progress."""

    def __init__(self, source: KinesisPages, batch: Batch) -> None:
        self._source = source
        self._host = source.host
        self._key = batch.key
        self._batch = batch
        self._last = batch.after.sequence if batch.after else None
        self._iterator: str | None = None
        self._next_call = self._host.monotonic()
        self.ended = False
        if batch.after is not None and batch.after.sub:
            raise WrongShape(
                f"{self._key} stands at {batch.after}, inside an aggregated record, which can't be resumed yet; "
                "nothing was read; let the application that wrote it finish the record, or pass over it (`headrace skip --to` a later record)"
            )

    def next_page(self) -> Page:
        answer, answered = self._with_patience(self._ask)
        self._iterator = answer.next_iterator
        self._last = answer.last_sequence if answer.last_sequence is not None else self._last
        self.ended = answer.next_iterator is None
        return Page(
            records=answer.records,
            rows=answer.rows,
            bytes=answer.bytes,
            answered=answered,
            behind=answer.behind,
            last_sequence=answer.last_sequence,
            first_arrival=answer.first_arrival,
            last_arrival=answer.last_arrival,
            children=answer.children if self.ended else None,
        )

    def _ask(self) -> tuple[Answer, datetime]:
        if self._iterator is None:
            self._iterator = self._new_iterator()
        self._keep_pace()
        raw = self._call("get_records", ShardIterator=self._iterator, StreamARN=self._key.stream.arn)
        answered = date_of(raw)
        if answered is None:
            raise Unreachable(
                f"an answer for {self._key} has no Date, so nothing tells whether records were lost; "
                "it wasn't taken; look for a proxy that drops the header"
            )
        try:
            answer = decode_answer(held_body(raw), self._key)
        except msgspec.DecodeError as error:
            # Its text names a place in the document ("$.Records[3].Data"), never a value.
            raise Unreachable(
                f"an answer for {self._key} could not be read and wasn't taken: {error}"
            ) from None
        if answer.next_iterator is None and not answer.children:
            # An end is for ever: it is believed only with the children that Kinesis names in the same answer.
            raise Unreachable(
                f"an answer for {self._key} has neither a next iterator nor children, so it is no end of a shard; it wasn't "
                "taken, and the shard is asked again"
            )
        return answer, answered

    def _keep_pace(self) -> None:
        wait = self._next_call - self._host.monotonic()
        if wait > 0:
            self._host.sleep(wait)
        self._next_call = self._host.monotonic() + self._source.pace

    def _new_iterator(self) -> str:
        arguments: dict[str, Any] = {"StreamARN": self._key.stream.arn, "ShardId": self._key.shard_id}
        start = self._batch.start
        if self._last is not None:
            arguments |= {
                "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
                "StartingSequenceNumber": str(self._last),
            }
        elif start.at is None:
            arguments["ShardIteratorType"] = "TRIM_HORIZON"
        else:
            arguments |= {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": start.at}
        iterator: str = self._call("get_shard_iterator", **arguments)["ShardIterator"]
        return iterator

    def _call(self, operation: str, **arguments: Any) -> Any:
        try:
            client = self._host.connect(self._source.region, self._source.endpoint)
            return getattr(client, operation)(**arguments)
        except ClientError as error:
            raise _named(error, self._key) from error
        except HTTPClientError as error:
            raise Unreachable(
                f"Kinesis could not be reached for {self._key} ({type(error).__name__}); nothing was lost, it is tried again"
            ) from error
        except BotoCoreError as error:
            raise BadSetting(
                f"{self._key} can't be read with this worker's AWS configuration: {error}"
            ) from error

    def _with_patience(self, ask: Callable[[], _T]) -> _T:
        deadline = self._host.monotonic() + self._source.patience
        wait = _FIRST_WAIT
        while True:
            try:
                return ask()
            except (Transient, _IteratorExpired) as trouble:
                if isinstance(trouble, _IteratorExpired):
                    self._iterator = None
                # Half of it is jitter, so that readers that were refused together don't come back together.
                pause = wait * (0.5 + 0.5 * self._host.dice())
                if self._host.monotonic() + pause > deadline:
                    raise _given_up(trouble, self._key, self._source.patience) from trouble
                self._host.sleep(pause)
                wait = min(wait * 2, _LONGEST_WAIT)


def _given_up(trouble: Exception, key: ShardKey, patience: float) -> Exception:
    if isinstance(trouble, Transient):
        return type(trouble)(f"{trouble}; given up after {patience:g} s of trying")
    return Unreachable(
        f"iterators of {key} expire as soon as they are given; given up after {patience:g} s of trying"
    )


def _named(error: ClientError, key: ShardKey) -> Exception:
    code = error.response.get("Error", {}).get("Code", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code == "ExpiredIteratorException":
        return _IteratorExpired()
    if code == "ResourceNotFoundException":
        return DataLoss(
            f"{key} is gone from Kinesis before its end was read: its unread records are lost; what was landed "
            "is safe; record the gap with `headrace skip` or set on_data_loss: continue"
        )
    if code in _THROTTLES:
        return Throttled(f"Kinesis asks to slow down for {key} ({code}); nothing was lost")
    if status >= 500 or code in {"ExpiredTokenException", "RequestTimeout"}:
        return Unreachable(
            f"Kinesis failed for {key} ({code or status}); nothing was lost, it is tried again"
        )
    return _refused(error, key, code)


def _refused(error: ClientError, key: ShardKey, code: str) -> Terminal:
    if "AccessDenied" in code or code in {"UnrecognizedClientException", "InvalidSignatureException"}:
        return BadSetting(
            f"AWS doesn't let this worker read {key} ({code}); nothing was read; its role needs "
            "kinesis:GetShardIterator and kinesis:GetRecords on the stream, and kms:Decrypt on its key"
        )
    return Terminal(
        f"Kinesis refuses to give records of {key} ({code}: {error.response['Error'].get('Message', '')})"
    )
