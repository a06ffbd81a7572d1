"""One shard: its hash range, parents and records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.pipeline.local.kinesis.log import RecordLog
from headrace.pipeline.local.kinesis.sequence import (
    END_ORDINAL,
    number_at,
    ordinal_of,
    second_of,
    sequence_base,
)

MAX_HASH = (1 << 128) - 1


@dataclass(slots=True, eq=False)
class LocalShard:
    """A shard. It takes records, is closed by a reshard, and is deleted after the retention."""

    index: int
    first_hash: int
    last_hash: int
    opened_at: float
    parents: tuple[LocalShard, ...] = ()
    closed_at: float | None = None
    gone: bool = False
    children: list[LocalShard] = field(default_factory=list)
    log: RecordLog = field(default_factory=RecordLog)
    shard_id: str = field(init=False)
    created: int = field(init=False)
    base: int = field(init=False)

    def __post_init__(self) -> None:
        """Make a shard whose creation second is after its parents', so that its sequence numbers are above theirs."""
        self.shard_id = f"shardId-{self.index:012d}"
        self.created = max(int(self.opened_at), *(parent.created + 1 for parent in self.parents), 0)
        self.base = sequence_base(self.created, self.index)

    def close(self, moment: float) -> None:
        """Close the shard: it takes no more records."""
        self.closed_at = moment

    def append(self, data: bytes, key: bytes, *, size: int, now: int, encryption: str | None = None) -> str:
        """Take a record (base64 data, partition key as JSON) and give its sequence number. `encryption`: what the record says
        of itself; without one it says nothing."""
        log = self.log
        # Positions in the log are found by a search over arrivals, which needs them in order, also
        # after the clock was set back by a test.
        arrival = max(now, log.last_arrival)
        second, millis = divmod(arrival, 1000)
        sequence = str(number_at(self.base, log.end + 1, second))
        record = (
            b'{"SequenceNumber":"%b","ApproximateArrivalTimestamp":%d.%03d,"Data":"%b","PartitionKey":%b}'
        )
        written = record % (sequence.encode(), second, millis, data, key)
        if encryption is not None:
            written = b'%b,"EncryptionType":"%b"}' % (written[:-1], encryption.encode())
        log.append(written, arrival, size)
        return sequence

    def position_at(self, sequence: int, now: float, *, after: bool) -> int | None:
        """Give the position of a sequence number, or of the next one. None for a number that isn't of this shard."""
        ordinal = ordinal_of(self.base, sequence)
        if ordinal is None:
            return None
        if ordinal == END_ORDINAL:
            return self.log.end if sequence == self.ending_number else None
        if ordinal > self.log.end or second_of(sequence) > max(
            int(now), self.created, self.log.last_arrival // 1000
        ):
            return None
        position = ordinal - 1
        if position < self.log.first:
            return self.log.first
        stored = number_at(self.base, ordinal, self.log.arrival(position) // 1000)
        return ordinal if sequence > stored or (after and sequence == stored) else position

    @property
    def starting_number(self) -> int:
        """Give a sequence number below those of all records."""
        return number_at(self.base, 0, self.created)

    @property
    def ending_number(self) -> int | None:
        """Give the ending number of a closed shard, which is above those of all records."""
        return None if self.closed_at is None else number_at(self.base, END_ORDINAL, int(self.closed_at))

    def described(self) -> dict[str, Any]:
        """Write the shard as ListShards and DescribeStream do."""
        numbers = {"StartingSequenceNumber": str(self.starting_number)}
        if self.closed_at is not None:
            numbers["EndingSequenceNumber"] = str(self.ending_number)
        answer: dict[str, Any] = {
            "ShardId": self.shard_id,
            "HashKeyRange": self._hash_range(),
            "SequenceNumberRange": numbers,
        }
        names = ("ParentShardId", "AdjacentParentShardId")
        answer.update((name, parent.shard_id) for name, parent in zip(names, self.parents, strict=False))
        return answer

    def described_as_child(self) -> dict[str, Any]:
        """Write the shard as GetRecords's ChildShards do."""
        parents = [parent.shard_id for parent in self.parents]
        return {"ShardId": self.shard_id, "ParentShards": parents, "HashKeyRange": self._hash_range()}

    def _hash_range(self) -> dict[str, str]:
        return {"StartingHashKey": str(self.first_hash), "EndingHashKey": str(self.last_hash)}
