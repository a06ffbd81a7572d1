"""The reshards that the demo makes while records come in: one split, one merge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

SPLIT_AT, MERGE_AT = 0.3, 0.5
"""Of the records that are to be put."""


class Reshards:
    """Looked at again and again: what is due is begun, and what has finished is told."""

    def __init__(self, client: KinesisClient, stream: str) -> None:
        self._client = client
        self._stream = stream
        self._left = [(SPLIT_AT, self._split), (MERGE_AT, self._merge)]
        self._under_way: tuple[str, frozenset[str]] | None = None

        self.closed: set[str] = set()

    @property
    def are_done(self) -> bool:
        return not self._left and self._under_way is None

    def look(self, part: float) -> str | None:
        """`part` of all records has been put. A sentence when a reshard has finished."""
        if self._under_way is None:
            if self._left and part >= self._left[0][0]:
                self._under_way = self._left.pop(0)[1]()
            return None
        if not is_active(self._client, self._stream):
            return None
        (verb, parents), self._under_way = self._under_way, None
        self.closed |= parents
        children = [s["ShardId"] for s in self.shards() if _parents(s) & parents]
        return f"{verb} {' and '.join(sorted(parents))} -> {', '.join(_short(child) for child in children)}"

    def shards(self) -> list[Any]:
        """All of the stream; one page holds them, for there is a handful."""
        return list(self._client.list_shards(StreamName=self._stream)["Shards"])

    def _split(self) -> tuple[str, frozenset[str]]:
        shard = self._open()[0]
        first, last = (int(shard["HashKeyRange"][end]) for end in ("StartingHashKey", "EndingHashKey"))
        self._client.split_shard(
            StreamName=self._stream,
            ShardToSplit=shard["ShardId"],
            NewStartingHashKey=str((first + last + 1) // 2),
        )
        return "split", frozenset({shard["ShardId"]})

    def _merge(self) -> tuple[str, frozenset[str]]:
        """The two at the other end of the hash keys, so that they are none of the split's."""
        lower, upper = (shard["ShardId"] for shard in self._open()[-2:])
        self._client.merge_shards(StreamName=self._stream, ShardToMerge=lower, AdjacentShardToMerge=upper)
        return "merged", frozenset({lower, upper})

    def _open(self) -> list[Any]:
        found = [s for s in self.shards() if "EndingSequenceNumber" not in s["SequenceNumberRange"]]
        return sorted(found, key=lambda s: int(s["HashKeyRange"]["StartingHashKey"]))


def is_active(client: KinesisClient, stream: str) -> bool:
    answer = client.describe_stream_summary(StreamName=stream)
    return answer["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE"


def _parents(shard: Any) -> set[str]:
    return {shard[key] for key in ("ParentShardId", "AdjacentParentShardId") if key in shard}


def _short(shard_id: str) -> str:
    return str(int(shard_id.rsplit("-", 1)[-1]))
