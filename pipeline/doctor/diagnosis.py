"""The result of a check, in a sentence, with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    WELL = "well"
    NOTE = "note"
    """Worth knowing; Headrace works."""
    ILL = "needs you"
    """Headrace doesn't work, or won't, until a person has changed something."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    check: str
    health: Health
    sentence: str
    advice: str = ""
    """What to do; empty where nothing is to be done."""

    def __str__(self) -> str:
        advice = f". {self.advice}" if self.advice else ""
        return f"{self.health.value:9}  {self.check}: {self.sentence}{advice}"
