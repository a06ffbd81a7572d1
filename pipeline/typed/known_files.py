"""Remembers what surveys have found in data files. Files never change, so a process needs to look into each file
once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.typed.ports import Surveyor
from headrace.pipeline.typed.values import FilePart, SourceFile, Survey, SurveyOrder

_MOST = 200_000
"""Parts of files that are remembered: about 80 MB. Where there are more, files are looked through again."""
_AT_ONCE = 50
"""Files that a wave looks through at most although it wants nothing of them."""


@dataclass(slots=True)
class KnownFiles:
    _parts: dict[str, tuple[FilePart, ...]] = field(default_factory=dict)
    _count: int = 0
    _unread: set[str] = field(default_factory=set)
    """Files that couldn't be read."""
    _at_once: int = _AT_ONCE
    """Fewer after files couldn't be read together, until the one is found that can't be read by itself."""

    def described(self, files: Iterable[SourceFile]) -> tuple[SourceFile, ...]:
        """The files, each with the rows of its shards where a survey has looked into it."""
        return tuple(
            file if parts is file.parts else replace(file, parts=parts)
            for file in files
            for parts in (self._parts.get(file.path),)
        )

    def learn(self, survey: Survey) -> None:
        if self._count > _MOST:
            # Forgotten all at once: which files are wanted next isn't known, and looking through
            # one again is cheap.
            self._parts.clear()
            self._count = 0
        for path, parts in survey.files.items():
            if path not in self._parts:
                self._parts[path] = parts
                self._count += len(parts)

    def look_through(self, files: Sequence[SourceFile], surveyor: Surveyor) -> None:
        """Let the surveyor find out which rows these files have, and remember that."""
        order = SurveyOrder(
            tuple(file.path for file in files), (), frozenset(), (), ceiling=None, others=False
        )
        self.learn(surveyor.survey(order))

    def look_through_some(self, files: Iterable[SourceFile], surveyor: Surveyor) -> None:
        """Let the surveyor look into some files that no survey has looked into, the oldest first. A file that
        can't be read stays unknown: a wave that wants rows of it raises the error.
        """
        unknown = [file for file in files if file.path not in self._parts and file.path not in self._unread]
        oldest = sorted(unknown, key=lambda file: (file.added or 0, file.path))[: self._at_once]
        if not oldest:
            return
        try:
            self.look_through(oldest, surveyor)
            self._at_once = min(_AT_ONCE, 2 * self._at_once)
        except HeadraceError:
            self._at_once = len(oldest) // 2
            # Alone, and unreadable: without this the file would keep the newer ones unknown.
            if not self._at_once:
                self._unread.add(oldest[0].path)
                self._at_once = _AT_ONCE
