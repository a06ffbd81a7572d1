"""The waves of one window: what copying, replacing, unpacking and processing have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from headrace.pipeline.errors import Unknown
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.typed.done_wave import Wave
from headrace.pipeline.typed.known_files import KnownFiles
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.typed.wave_engine import Waves
from headrace.pipeline.windows.ports import WindowStore
from headrace.pipeline.windows.window import ReplayWindow, Word
from headrace.pipeline.windows.windows import find_window

_Plan = TypeVar("_Plan")


class OfWindow(ABC):
    """The common part of all waves of windows, whatever they do."""

    __slots__ = ()
    id: str
    """The id of the window."""
    windows: WindowStore
    run: str

    def window(self) -> ReplayWindow:
        """The window, if the next wave of it may be committed. Raises Unknown where it doesn't exist or is cancelled."""
        kept_window = find_window(self.windows, self.id, nothing=". Nothing was changed")
        if kept_window.is_cancelled:
            raise Unknown(
                f"the window {self.id} is cancelled. What was committed before stays; "
                f"`headrace window run {self.id} --resume` goes on"
            )
        return kept_window.window

    # A person may have cancelled the window while the wave was staged.
    check_wanted = window

    def end(self, wave: Wave) -> Wave:
        """Called after the last wave of a process. Where the window is done, that is stored, and sentences for
        people are added.
        """
        # Also of a window that was cancelled after its last commit.
        kept_window = find_window(self.windows, self.id)
        if not (wave.is_last and self.is_done(kept_window.window)):
            return replace(wave, is_last=False)
        if not kept_window.is_done:
            self.windows.say(self.id, Word.DONE, by=self.run)
        return replace(wave, notes=(*wave.notes, *self.notes_at_end(kept_window.window)))

    def is_done(self, window: ReplayWindow) -> bool:
        """Whether nothing of the window is left to do. Called after the last wave, because something may have
        come back meanwhile.
        """
        return True

    @abstractmethod
    def rows_done(self) -> int:
        """How many rows of the window were copied, parsed again or processed so far, or how many of its aggregates were
        taken apart, by the ledgers."""

    def out_of_reach(self, window: ReplayWindow) -> Iterable[str]:
        """Sentences about records that have come out of reach since the window was made."""
        return ()

    def stops(self) -> Iterable[str]:
        """Sentences about the places in the window where the user's code has stopped, each with the reason."""
        return ()

    @abstractmethod
    def notes_at_end(self, window: ReplayWindow) -> Iterable[str]:
        """Sentences for people about a window that is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowWaves(OfWindow, Waves[_Plan]):
    """The common part of waves that copy, replace, or take aggregates apart."""

    id: str
    windows: WindowStore
    limits: WaveLimits
    clock: Clock
    run: str
    on_step: Callable[[str], None] = lambda _: None
    known: KnownFiles = field(default_factory=KnownFiles)
    """What earlier waves of this process have found in files of the lake table."""
