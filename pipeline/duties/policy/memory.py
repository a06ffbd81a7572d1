"""What the parts of a policy remember from tick to tick, and how a new process gets that memory from Dagster's
cursor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

_Memory = TypeVar("_Memory")
PartMemory: TypeAlias = Any
"""What one part of a policy remembers from tick to tick. Only that part looks inside; a lost memory costs time only.

In the process that made the last tick this is the part's own value. In a new process it is the JSON that the part's
value returned from `as_json`, as the cursor kept it.
"""


def as_json(memory: PartMemory, *, whole: bool) -> Any:
    """The memory as a small JSON value, made by the memory's own method `as_json`; None where nothing is to be kept.

    `whole`: whether the cursor also has room for the keys of all leases that the worker holds.
    """
    # Asked at each tick, so it is no runtime-checkable protocol: that check took a fourteenth of the simulator's time.
    return memory.as_json(whole=whole) if hasattr(memory, "as_json") else memory


def from_json(read: Callable[[Any], _Memory], stored: Any, lost: _Memory) -> _Memory:
    """The memory that `read` makes of the stored value, or `lost` where `read` can't.

    The value may come from a person who edited the cursor, from another version, or from another policy.
    """
    try:
        return read(stored)
    except (TypeError, ValueError, AttributeError):
        return lost
