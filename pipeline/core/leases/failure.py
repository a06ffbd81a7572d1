"""The failure of a shard: since when its worker can't read or land it, and why. It is kept in the lease row, for
people.

A wave in which a shard fails writes the failure when it releases the row. The next wave that reads the shard without an
error removes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from headrace.pipeline.settings.secrets import holds_secret

_MAX_CHARACTERS: Final = 500
"""The most characters of an error's text that a row keeps. Lease rows are read often, and DynamoDB bills reads by
size."""


@dataclass(frozen=True, slots=True)
class Failure:
    since: datetime
    """When the first failed wave ended, by the clock of its host. Only shown to people; no decision depends on it."""
    why: str
    """The error of the last failed wave, short and on one line."""


def failed_again(before: Failure | None, why: str, when: datetime) -> Failure:
    """The failure of a shard after one more failed wave: `since` stays the time of the first one, even when
    another worker reads the shard by now.
    """
    # Cut to milliseconds, which is all that the row keeps.
    since = before.since if before else when.replace(microsecond=when.microsecond // 1000 * 1000)
    return Failure(since, _short(why))


def _short(why: str) -> str:
    text = " ".join(why.split())
    if holds_secret(text):
        return "the error's text isn't kept here, because it may hold a secret: the worker's log has it"
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 3]}..."
