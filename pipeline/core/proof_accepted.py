"""Rows of the lake table that no ledger claims. They are wrong until a person accepts the snapshot of another engine that has brought them.

What is accepted is a number of rows for each shard, which holds wherever the rows are later: compaction moves them to other files, and the
position may come past them. More rows than were accepted are wrong, all of them: which are the accepted ones can't be told. Pure functions on values.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.pipeline.core.proof import Extra, Told, Unproved
from headrace.pipeline.core.words import counted

_FORM = 1

Strangers = Mapping[str, int]
"""Rows by shard, as `shard_text` names it."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A person's word: the rows that a snapshot of another engine has brought may stay, though no ledger claims them."""

    snapshot: int
    rows: Strangers
    why: str
    by: str
    """Who said so: a user and a host, for people."""

    @property
    def count(self) -> int:
        return sum(self.rows.values())


def write_accepted(accepted: Iterable[Accepted]) -> str:
    """For a file."""
    told = [
        {"snapshot": each.snapshot, "rows": dict(each.rows), "why": each.why, "by": each.by}
        for each in accepted
    ]
    return json.dumps({"form": _FORM, "accepted": told}, indent=1)


def read_accepted(text: str) -> tuple[Accepted, ...]:
    """Raises ValueError, KeyError or TypeError where it isn't the text of such a file."""
    found = json.loads(text)
    if found["form"] != _FORM:
        raise ValueError(f"the form {found['form']!r} isn't known")
    return tuple(
        Accepted(each["snapshot"], each["rows"], each["why"], each["by"]) for each in found["accepted"]
    )


def shard_text(stream: str | None, epoch: int | None, shard_id: str | None) -> str:
    """Another engine may leave each of them out."""
    return f"{stream}/{epoch}/{shard_id}"


def allowance(accepted: Iterable[Accepted]) -> Counter[str]:
    allowed: Counter[str] = Counter()
    for each in accepted:
        allowed.update(each.rows)
    return allowed


def by_acceptance(
    told: Iterable[Told], extras: Iterable[Told], known: Iterable[Strangers], accepted: Iterable[Accepted]
) -> Iterator[Told]:
    """`extras`: all that this proof has found of rows that no ledger claims, of which `told` may be a part. `known`: what an earlier proof has
    found of them in files that this one hasn't read."""
    found: Counter[str] = Counter()
    for rows in (*known, *(each.shards for each in extras if isinstance(each, Extra))):
        found.update(rows)
    allowed = allowance(accepted)
    for each in told:
        if isinstance(each, Extra) and each.shards and all(found[s] <= allowed[s] for s in each.shards):
            yield Unproved(f"{each.text}. A person has accepted rows of another engine there")
        else:
            yield each


def sentence(accepted: Accepted) -> str:
    shards = ", ".join(f"{rows:,} of {shard}" for shard, rows in sorted(accepted.rows.items())[:5])
    more = f" and of {len(accepted.rows) - 5:,} more shards" if len(accepted.rows) > 5 else ""
    return f"{counted(accepted.count, 'row')} of snapshot {accepted.snapshot} accepted ({shards}{more}): {accepted.why}"
