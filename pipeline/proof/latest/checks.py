"""The checks that only a table of the latest rows gets. Pure functions of the facts."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.core.words.words import counted
from headrace.pipeline.proof.latest.facts import LatestFacts
from headrace.pipeline.proof.verdict import Check, Told, Unproved, Wrong, checked


def latest_checks(facts: LatestFacts, table: str) -> Iterator[Check]:
    keys = counted(facts.counts.keys, "key")
    yield checked(f"{table}: each key has one row", keys, _doubled(facts, table))
    yield checked(
        f"{table}: the row of each key is that of its latest record, and no key lacks its row",
        keys,
        _not_latest(facts, table),
    )


def _doubled(facts: LatestFacts, table: str) -> Iterator[Told]:
    if facts.counts.doubled:
        yield Wrong(
            f"{table} has {counted(facts.counts.doubled, 'row')} of keys that have another row{_named(facts)}"
        )


def _not_latest(facts: LatestFacts, table: str) -> Iterator[Told]:
    if facts.unproved:
        yield Unproved(facts.unproved)
        return
    counts = facts.counts
    if counts.stale:
        yield Wrong(
            f"{table} has {counted(counts.stale, 'row')} of keys of which a later record has landed{_named(facts)}"
        )
    if counts.missing:
        yield Wrong(
            f"{table} has no row of {counted(counts.missing, 'key')} whose latest record is no deletion{_named(facts)}"
        )


def _named(facts: LatestFacts) -> str:
    return f"; the first sequence numbers with which something is wrong: {', '.join(facts.counts.first)}"
