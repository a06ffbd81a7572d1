"""What must hold for user records: what the producers put, what the stream has, and what Headrace landed are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from headrace.pipeline.kcl.deaggregate import MAGIC, OUTSIDE


class Put(NamedTuple):
    """A user record that a producer says Kinesis took."""

    shard: str
    sequence: str
    key: str
    hash_key: str | None
    payload: bytes


class Row(NamedTuple):
    """A row of the lake table."""

    shard: str
    sequence: str
    sub: int
    key: str
    hash_key: str | None
    data: bytes
    error: str | None = None

    def put(self) -> Put:
        return Put(self.shard, self.sequence, self.key, self.hash_key, self.data)

    def seen(self) -> Seen:
        return Seen(self.shard, self.sequence, self.sub, self.key, self.data, self.error)


class Raw(NamedTuple):
    """A Kinesis record as the stream has it."""

    sequence: str
    key: str
    data: bytes


class Seen(NamedTuple):
    """A row, or a user record of the stream, without its explicit hash key: aws-kinesis-agg gives a user record without one that of the
    user record before it. So explicit hash keys are compared with what the producers put."""

    shard: str
    sequence: str
    sub: int
    key: str
    data: bytes
    error: str | None = None


TakenApart = Callable[[str, Raw], Iterable[Seen]]
"""The user records of a Kinesis record of a shard, by a library that isn't Headrace's."""


def faults(
    puts: Sequence[Put],
    tried_again: Collection[bytes],
    stream: Mapping[str, Sequence[Raw]],
    rows: Mapping[str, Sequence[Row]],
    taken_apart: TakenApart,
) -> list[str]:
    """What is wrong. `tried_again`: payloads that a producer put more than once, because the first answer named a shard that it
    hadn't expected; `stream`: the records of each shard in their order; `rows`: those of each shard by their sort keys."""
    found = []
    for shard in sorted(stream.keys() | rows.keys()):
        landed = rows.get(shard, ())
        wanted = _wanted(shard, stream.get(shard, ()), landed, taken_apart)
        pairs = enumerate(zip(wanted, landed, strict=False))
        first = next((n for n, (one, row) in pairs if one != row.seen()), None)
        if first is not None:
            found.append(f"{shard}: row {first} is {landed[first]}, and the stream has {wanted[first]}")
        elif len(wanted) != len(landed):
            found.append(f"{shard}: {len(landed)} rows, and the stream has {len(wanted)} user records")
    times = Counter(row.put() for each in rows.values() for row in each if row.error is None)
    plain = {
        record.sequence for each in stream.values() for record in each if not record.data.startswith(MAGIC)
    }
    # KPL makes no aggregate of a single user record, and Kinesis doesn't hand on the explicit hash key of a Kinesis record.
    wanted_once = [put._replace(hash_key=None) if put.sequence in plain else put for put in puts]
    elsewhere = set(only_whole(puts, rows, taken_apart))
    found += [
        f"{put} landed {times[put]} times" for put in wanted_once if times[put] != 1 and put not in elsewhere
    ]
    strangers = [each for each in times.keys() - set(wanted_once) if each.payload not in tried_again]
    found += [f"{stranger} landed, and no producer put it" for stranger in strangers]
    return found


def _wanted(shard: str, stream: Sequence[Raw], rows: Sequence[Row], taken_apart: TakenApart) -> list[Seen]:
    whole = {row.sequence for row in rows if row.error == OUTSIDE}
    wanted: list[Seen] = []
    for record in stream:
        if record.sequence in whole:
            wanted.append(Seen(shard, record.sequence, 0, record.key, record.data, OUTSIDE))
        else:
            wanted += taken_apart(shard, record)
    return wanted


def only_whole(puts: Sequence[Put], rows: Mapping[str, Sequence[Row]], taken_apart: TakenApart) -> list[Put]:
    """The user records that a producer counts as put, and that only a row with a whole aggregate has. KPL counts those inside of the
    shard as put, and puts those outside once more; KCL drops the whole aggregate."""
    inside = {
        (found.sequence, found.data)
        for each in rows.values()
        for row in each
        if row.error == OUTSIDE
        for found in taken_apart(row.shard, Raw(row.sequence, row.key, row.data))
    }
    return [put for put in puts if (put.sequence, put.payload) in inside]
