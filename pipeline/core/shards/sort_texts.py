"""Positions of a shard, and its rows, as texts that sort in the order of the shard's records. Pure functions on
values.
"""

from __future__ import annotations

from datetime import datetime

from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey

RowShard = tuple[str, int, str]
"""How rows name their shard: the stream's name and epoch, and the shard's id."""


def row_shard(key: ShardKey) -> RowShard:
    return key.stream.name, key.stream.epoch, key.shard_id


def sort_key_of(position: Position | None) -> str:
    """The sort key of the position's record; an empty text where there is no position, or one without a record."""
    if position is None or position.sequence is None:
        return ""
    return f"{record_of(position.sequence)}:{position.sub:019}"


def past(position: Position | None) -> str:
    """A text that sorts before all rows after the position, and after all rows up to it (or equal to the last one).

    A position at sub-sequence number 0 counts as behind its whole Kinesis record, unless another program may have
    stopped within the record: an aggregate that landed as one row may have been taken apart since, and its rows
    aren't new records.
    """
    if position is None or position.sub or position.inside:
        return sort_key_of(position)
    return end_of(position)


def end_of(position: Position) -> str:
    """A text that sorts after all rows of the position's Kinesis record, and before those of the next one."""
    # `;` is the character after `:`, with which the sub-sequence number of a row begins.
    return "" if position.sequence is None else f"{record_of(position.sequence)};"


def record_of(sequence: int) -> str:
    digits = str(sequence)
    # The number of digits comes first, so that the texts sort as the numbers do.
    return f"{len(digits):03}:{digits}"


def record_in(key: str) -> str:
    """The part of a sort key that all rows of one Kinesis record have in common. It sorts before each of them."""
    return key.rpartition(":")[0]


def position_at(key: str, arrival: datetime | None) -> Position:
    _, sequence, sub = key.split(":")
    return Position(int(sequence), int(sub), arrival=arrival)


def order_text(position: Position) -> str:
    """A text that sorts as the positions of a shard do. It has the number of digits, the sequence number, the
    sub-sequence number, and whether the shard has ended.
    """
    # Three digits hold the length of the longest number that Kinesis's API allows (129 digits), and 19 those of
    # Java's greatest long.
    digits = "" if position.sequence is None else str(position.sequence)
    return f"{len(digits):03}:{digits}:{position.sub:019}:{position.ended:d}"


def end_text(position: Position) -> str:
    """The `order_text` of a position at the end of a range. An END that was reached without a record sorts after
    all records that the shard had before the application began to read it.
    """
    # `~` sorts behind every digit.
    return "~" if position.ended and position.sequence is None else order_text(position)


def number_texts(number: int) -> tuple[str, str]:
    """Texts that sort before and behind all positions with this sequence number, by `order_text`."""
    # `;` is the character after `:`, so that every position with this number lies between the two texts.
    begins = f"{len(str(number)):03}:{number}"
    return f"{begins}:", f"{begins};"


def order_text_of(position: Position | None) -> str:
    return "" if position is None else order_text(position)
