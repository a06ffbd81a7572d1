"""Asks Kinesis how far behind checkpoints are, by an iterator after the checkpoint and at most one record from
there.

The record itself is dropped at once. Each time it asks for a few shards, first for those that it asked for
longest ago: a shard allows five reads a second to all its consumers together.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from headrace.pipeline.aws.clients.clients import asking_aws
from headrace.pipeline.console.family import label_of
from headrace.pipeline.console.ports import Peeked
from headrace.pipeline.console.values import Behind, StreamSeen
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.errors import HeadraceError

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

_AT_ONCE: Final = 8


class KinesisPeek:
    def __init__(self, client: KinesisClient, most: int) -> None:
        """`most`: shards that one look asks for."""
        self._client = client
        self._most = most
        self._trouble: str | None = None
        """The last one of this look."""
        self._answers: dict[str, tuple[str, Behind | None]] = {}
        """Lease key -> the checkpoint that was asked about, and the answer. The oldest comes first."""

    def look(self, leases: Sequence[Lease], streams: Sequence[StreamSeen], now: datetime) -> Peeked:
        self._trouble = None
        arns = {stream.label: stream.arn for stream in streams if stream.arn is not None}
        rows = {
            lease.key: lease
            for lease in leases
            if label_of(lease) in arns and not lease.has_ended and _start(lease) is not None
        }
        self._answers = {key: answer for key, answer in self._answers.items() if key in rows}
        new = [key for key in rows if key not in self._answers]
        turn = [*new, *self._answers][: self._most]
        with ThreadPoolExecutor(_AT_ONCE, "headrace-peek") as pool:
            answers = pool.map(lambda key: self._asked(rows[key], arns[label_of(rows[key])], now), turn)
            for key, answer in zip(turn, answers, strict=True):
                self._answers.pop(key, None)
                self._answers[key] = (rows[key].checkpoint.sequence, answer)
        behind = {
            key: newest
            for key, (checkpoint, newest) in self._answers.items()
            # An answer about an earlier checkpoint says nothing of this one.
            if newest is not None and rows[key].checkpoint.sequence == checkpoint
        }
        return Peeked(behind, self._trouble)

    def _asked(self, lease: Lease, arn: str, now: datetime) -> Behind | None:
        try:
            with asking_aws(f"shard {lease.key}"):
                iterator = self._client.get_shard_iterator(
                    StreamARN=arn, ShardId=lease.shard_id, **(_start(lease) or {})
                )["ShardIterator"]
                answer: Any = self._client.get_records(ShardIterator=iterator, StreamARN=arn, Limit=1)
        except HeadraceError as error:
            self._trouble = f"how far behind shards are couldn't be asked: {error}"
            return None
        if answer["Records"]:
            return Behind(answer["Records"][0]["ApproximateArrivalTimestamp"], now)
        # Kinesis may answer without a record although one follows, and tells then how far behind the place is.
        milliseconds = answer.get("MillisBehindLatest") or 0
        return Behind(now - timedelta(milliseconds=milliseconds) if milliseconds else None, now)


def _start(lease: Lease) -> dict[str, Any] | None:
    if lease.checkpoint.is_digits:
        return {
            "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
            "StartingSequenceNumber": lease.checkpoint.sequence,
        }
    return {"ShardIteratorType": "TRIM_HORIZON"} if lease.checkpoint.sequence == "TRIM_HORIZON" else None
