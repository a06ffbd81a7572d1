"""One sentence about an application."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about an application, with a fixed code for scripts."""

    code: str
    sentence: str
    needs_person: bool = False
    names: tuple[str, ...] = ()
    """All leases, workers or rows that the sentence is about; the sentence itself names the first few."""
