"""Rows of the lake table that no ledger claims. They are wrong until a person accepts the snapshot of another engine that has brought them.

What is accepted is a number of rows for each shard, which holds wherever the rows are later: compaction moves them to other files, and the
position may come past them. More rows than were accepted are wrong, all of them: which are the accepted ones can't be told. Pure functions on values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.pipeline.core.proof import Extra, Told, Unproved
from headrace.pipeline.core.words import counted

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
