"""What a tick leaves for the next one. The text is only written where another process has to read it: what a process
itself remembers of the very same cursor says the same, and more (`sensors.cursor.Kept`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

_Memory = TypeVar("_Memory")


@dataclass(slots=True, eq=False)
class Cursor(Generic[_Memory]):
    memory: _Memory
    write: Callable[[_Memory], str]
    _text: str | None = None

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = self.write(self.memory)
        return self._text


@dataclass(slots=True)
class Remembered(Generic[_Memory]):
    """Of one sensor, in one process."""

    read: Callable[[str | None], _Memory]
    last: Cursor[_Memory] | None = None

    def of(self, cursor: Cursor[_Memory] | None) -> _Memory:
        if cursor is not None and cursor is self.last:
            return cursor.memory
        return self.read(None if cursor is None else cursor.text)

    def keep(self, memory: _Memory, write: Callable[[_Memory], str]) -> Cursor[_Memory]:
        self.last = Cursor(memory, write)
        return self.last
