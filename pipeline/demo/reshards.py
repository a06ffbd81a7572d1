"""The reshards that the demo makes while records come in: one split, one merge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

SPLIT_AT, MERGE_AT = 0.3, 0.5
"""The fractions of all records that are put before the split and the merge."""


class Reshards:
    """Makes the demo's reshards. The demo calls `look` again and again, which begins the next reshard when it is
    time, and reports a finished one.
    """

    def __init__(self, client: KinesisClient, stream: str) -> None:
        self._client = client
        self._stream = stream
        self._left = [(SPLIT_AT, self._split), (MERGE_AT, self._merge)]
        self._under_way: tuple[str, frozenset[str]] | None = None

        self.closed: set[str] = set()

    @property
    def are_done(self) -> bool:
        return not self._left and self._under_way is None

    def look(self, fraction: float) -> str | None:
        """Begin or end a reshard. `fraction`: the fraction of records that is put. Returns a sentence when a
        reshard has finished."""
        if self._under_way is None:
            if self._left and fraction >= self._left[0][0]:
                self._under_way = self._left.pop(0)[1]()
            return None
        if not is_stream_active(self._client, self._stream):
            return None
        (verb, parents), self._under_way = self._under_way, None
        # Only now: before, the shards can still be written to.
        self.closed |= parents
        children = [s["ShardId"] for s in self.shards() if _parents(s) & parents]
        return f"{verb} {' and '.join(sorted(parents))} -> {', '.join(_short(child) for child in children)}"

    def shards(self) -> list[Any]:
        """All shards of the stream. There are few, so one page of ListShards holds them."""
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
        """Merge the two shards with the highest hash keys: the split took the shard with the lowest."""
        lower, upper = (shard["ShardId"] for shard in self._open()[-2:])
        self._client.merge_shards(StreamName=self._stream, ShardToMerge=lower, AdjacentShardToMerge=upper)
        return "merged", frozenset({lower, upper})

    def _open(self) -> list[Any]:
        open_shards = [s for s in self.shards() if "EndingSequenceNumber" not in s["SequenceNumberRange"]]
        return sorted(open_shards, key=lambda s: int(s["HashKeyRange"]["StartingHashKey"]))


def is_stream_active(client: KinesisClient, stream: str) -> bool:
    answer = client.describe_stream_summary(StreamName=stream)
    return answer["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE"


def _parents(shard: Any) -> set[str]:
    return {shard[key] for key in ("ParentShardId", "AdjacentParentShardId") if key in shard}


def _short(shard_id: str) -> str:
    return str(int(shard_id.rsplit("-", 1)[-1]))
