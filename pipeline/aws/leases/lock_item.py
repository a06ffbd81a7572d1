"""The attribute names of the leader's lock row, as AWS's DynamoDB lock client writes it for KCL."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from headrace.pipeline.aws.leases import attributes as av
from headrace.pipeline.aws.leases.attributes import Item
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.errors import WrongShape

KEY: Final = "key"
LEADER: Final = "Leader"
OWNER: Final = "ownerName"
DURATION: Final = "leaseDuration"
VERSION: Final = "recordVersionNumber"
RELEASED: Final = "isReleased"

_ENTITY: Final = "entityType"
_MILLISECOND: Final = timedelta(milliseconds=1)


def read_lock(item: Item) -> LockRow:
    try:
        milliseconds = int(av.mandatory_text(item, DURATION))
        duration = milliseconds * _MILLISECOND
    except (ValueError, OverflowError) as error:
        raise WrongShape(f"{DURATION} isn't a number of milliseconds") from error
    return LockRow(
        av.mandatory_text(item, OWNER),
        av.mandatory_text(item, VERSION),
        duration,
        # KCL deletes the row instead of writing this attribute, but its lock client understands it.
        released=av.text(item, RELEASED) == "1",
    )


def write_lock(row: LockRow, *, key: str = KEY, entity_type: bool = False) -> Item:
    """The lock as a row. In layout S (one table) the key is `leaseKey`, and `entity_type` is true."""
    item: dict[str, Any] = {
        key: av.text_value(LEADER),
        OWNER: av.text_value(row.owner),
        DURATION: duration_value(row.duration),
        VERSION: av.text_value(row.version),
    }
    return item | {_ENTITY: av.text_value("LEADER")} if entity_type else item


def duration_value(duration: timedelta) -> Item:
    """The duration as a text of milliseconds: the lock client writes it into an attribute of type S."""
    return av.text_value(str(duration // _MILLISECOND))
