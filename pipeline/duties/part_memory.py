"""What the parts of a policy remember from tick to tick, and how that outlives a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

_Memory = TypeVar("_Memory")
PartMemory: TypeAlias = Any
"""What a part remembers from tick to tick. Only the part itself looks inside; losing it costs time. In the process that
ticked it is the part's own value; after a reload it is the JSON that this value wrote of itself."""


@runtime_checkable
class StorableMemory(Protocol):
    """A memory that outlives its process."""

    def as_json(self, *, whole: bool) -> Any:
        """Small; None: nothing. `whole`: whether the keys of the rows that a worker holds are kept beside it."""
        ...


def as_json(memory: PartMemory, *, whole: bool) -> Any:
    return memory.as_json(whole=whole) if isinstance(memory, StorableMemory) else memory


def from_json(read: Callable[[Any], _Memory], said: Any, lost: _Memory) -> _Memory:
    """What a person edited, or another version or another policy wrote, is lost."""
    try:
        return read(said)
    except (TypeError, ValueError, AttributeError):
        return lost
