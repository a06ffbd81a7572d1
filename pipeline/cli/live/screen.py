"""A screen that is drawn again and again, by ANSI's plain escapes, and restored at the end.

Without a terminal, as in a pipe, the frames are printed one after the other.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TextIO

# The second screen of a terminal leaves what stood on the first one alone.
_ENTER: Final = "\x1b[?1049h\x1b[?25l"
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_END_OF_LINE: Final = "\x1b[K"
_BELOW: Final = "\x1b[J"
_WITHOUT_A_TERMINAL: Final = (200, 1_000)


@dataclass(slots=True)
class Screen:
    out: TextIO = field(default_factory=lambda: sys.stdout)
    size_of_terminal: Callable[[], tuple[int, int]] = shutil.get_terminal_size

    @property
    def is_terminal(self) -> bool:
        return self.out.isatty()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        columns, lines = self.size_of_terminal() if self.is_terminal else _WITHOUT_A_TERMINAL
        return columns, lines

    @contextmanager
    def opened(self) -> Iterator[None]:
        if not self.is_terminal:
            yield
            return
        self._write(_ENTER)
        try:
            yield
        finally:
            self._write(_LEAVE)

    def draw(self, lines: Sequence[str]) -> None:
        if not self.is_terminal:
            self._write("\n".join(lines) + "\n\n")
            return
        shown = lines[: self.size[1] - 1]
        # Each line is overwritten and its rest cleared: clearing the whole screen first would flicker.
        self._write(_HOME + "".join(f"{line}{_END_OF_LINE}\n" for line in shown) + _BELOW)

    def _write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()
