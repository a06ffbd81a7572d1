"""A shard that its worker can't read or land: since when, and why. It is kept in the lease row, for people.

A wave that fails for a shard writes it when it releases the row; the next wave that reads the shard well removes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pipeline.settings.secrets import holds_secret

_LONGEST: Final = 500
"""Characters. A row is read often, and DynamoDB bills reads by size."""


@dataclass(frozen=True, slots=True)
class Failure:
    since: datetime
    """When the first of the failed tries in a row ended, by its host's clock: no decision goes by it."""
    why: str
    """The last try's error, short and on one line."""


def failed_again(before: Failure | None, why: str, at: datetime) -> Failure:
    """The failure after one more failed try: `since` stays where the first one was, whichever worker tries."""
    since = (
        before.since if before else at.replace(microsecond=at.microsecond // 1000 * 1000)
    )  # as a row keeps it
    return Failure(since, _short(why))


def _short(why: str) -> str:
    text = " ".join(why.split())
    if holds_secret(text):
        return "the error's text isn't kept here, because it may hold a secret: the worker's log has it"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
