"""Rows of the lake table that no ledger claims. They are wrong until a person accepts the snapshot of another engine
that has brought them.

A person accepts a number of rows for each shard. The number counts wherever the rows are later, because
compaction moves them to other files, and the position may pass them. If there are more rows than were accepted,
all of them are wrong, because nobody can tell which ones were accepted. Pure functions on values.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.pipeline.core.words.words import counted
from headrace.pipeline.proof.verdict import Extra, Told, Unproved

# An acceptance of another form is refused: what it allows isn't known.
_FORM = 1

Strangers = Mapping[str, int]
"""The number of rows that no ledger claims, by shard, as `shard_text` names it."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The decision of a person: the rows that a snapshot of another engine has brought may stay, though no ledger
    claims them.
    """

    snapshot: int
    rows: Strangers
    why: str
    by: str
    """Who said so: a user and a host, for people."""

    @property
    def count(self) -> int:
        return sum(self.rows.values())


def write_accepted(accepted: Iterable[Accepted]) -> str:
    """The text of the file that keeps which rows a person has accepted."""
    entries = [
        {
            "snapshot": acceptance.snapshot,
            "rows": dict(acceptance.rows),
            "why": acceptance.why,
            "by": acceptance.by,
        }
        for acceptance in accepted
    ]
    return json.dumps({"form": _FORM, "accepted": entries}, indent=1)


def read_accepted(text: str) -> tuple[Accepted, ...]:
    """The decisions about accepted rows, from the text of the file that keeps them. Raises ValueError, KeyError
    or TypeError for any other text.
    """
    content = json.loads(text)
    if content["form"] != _FORM:
        raise ValueError(f"the form {content['form']!r} isn't known")
    return tuple(
        Accepted(entry["snapshot"], entry["rows"], entry["why"], entry["by"]) for entry in content["accepted"]
    )


def shard_text(stream: str | None, epoch: int | None, shard_id: str | None) -> str:
    """The name of a shard in the file of accepted rows. Each part may be None, because another engine may leave
    it out of its rows.
    """
    return f"{stream}/{epoch}/{shard_id}"


def allowance(accepted: Iterable[Accepted]) -> Counter[str]:
    allowed: Counter[str] = Counter()
    for acceptance in accepted:
        allowed.update(acceptance.rows)
    return allowed


def by_acceptance(
    sentences: Iterable[Told],
    extras: Iterable[Told],
    earlier: Iterable[Strangers],
    accepted: Iterable[Accepted],
) -> Iterator[Told]:
    """The sentences without those about rows that a person has accepted.

    `extras`: the sentences of this proof about rows that no ledger claims, some of which may be among
    `sentences`. `earlier`: the rows of that kind that an earlier proof has found in files that this one hasn't
    read.
    """
    # Over all files, also those that an earlier proof has read: what was accepted is a number for the whole table.
    rows_found: Counter[str] = Counter()
    for rows in (*earlier, *(extra.shards for extra in extras if isinstance(extra, Extra))):
        rows_found.update(rows)
    allowed = allowance(accepted)
    for statement in sentences:
        if _is_accepted(statement, rows_found, allowed):
            yield Unproved(f"{statement.text}. A person has accepted rows of another engine there")
        else:
            yield statement


def _is_accepted(statement: Told, rows_found: Counter[str], allowed: Counter[str]) -> bool:
    if not isinstance(statement, Extra) or not statement.shards:
        return False
    # Of more rows than were accepted nothing tells which ones a person meant, so that all of them stay wrong.
    return all(rows_found[shard] <= allowed[shard] for shard in statement.shards)


def sentence(accepted: Accepted) -> str:
    shards = ", ".join(
        f"{rows:,} of {_for_people(shard)}" for shard, rows in sorted(accepted.rows.items())[:5]
    )
    more = f" and of {len(accepted.rows) - 5:,} more shards" if len(accepted.rows) > 5 else ""
    return f"{counted(accepted.count, 'row')} of snapshot {accepted.snapshot} accepted ({shards}{more}): {accepted.why}"


def _for_people(shard: str) -> str:
    """A text of `shard_text` as other sentences name a shard."""
    stream, _, shard_id = shard.rsplit("/", 2)
    return f"{stream}/{shard_id}"
