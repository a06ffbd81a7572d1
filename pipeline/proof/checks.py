"""All checks of the lake table, made from what a proof has read. Pure functions of this evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from headrace.pipeline.core.landing.valid_through import Through
from headrace.pipeline.core.ledger.arrivals import ALL, Window, may_be_dropped
from headrace.pipeline.core.ledger.story import Step, counted_ranges
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.proof.accepted import Accepted, Strangers, by_acceptance
from headrace.pipeline.proof.belonging import strange_ranges, what_was_judged
from headrace.pipeline.proof.counts import strange_rows
from headrace.pipeline.proof.evidence import Evidence
from headrace.pipeline.proof.families import ListedShards, broken_families, uncovered_keys
from headrace.pipeline.proof.table_checks import chain_check, file_check, finding_of, parents_check
from headrace.pipeline.proof.through import wrong_through
from headrace.pipeline.proof.verdict import Check, Proof, TableProof, Told, Unproved, checked


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeEvidence(Evidence):
    """The values that the checks of the lake table use, beside those that each table's checks use."""

    snapshot: int | None = None
    since: int | None = None
    """The snapshot of an earlier proof, if only rows were read that came after it."""
    listed: Mapping[StreamId, ListedShards] = field(default_factory=dict)
    unlisted: Mapping[StreamId, str] = field(default_factory=dict)
    """Streams whose shards Kinesis doesn't list, and why."""
    window: Window = ALL
    through: Through = field(default_factory=dict)
    """The time up to which the table states that it has all records, by stream."""
    kept_from: date | None = None
    """The first day that the retention keeps."""
    accepted: tuple[Accepted, ...] = ()
    """The rows of other engines that a person has accepted."""
    known: tuple[Strangers, ...] = ()
    """What an earlier proof has found of such rows in files that this one doesn't read."""


def lake_finding(evidence: LakeEvidence) -> TableProof:
    """The result of all checks of the lake table."""
    return finding_of(evidence, _checks(evidence), since=evidence.since)


def proof_of(evidence: LakeEvidence, lake: TableProof, tables: Iterable[TableProof] = ()) -> Proof:
    """The result of a whole proof: what was found about the lake table and about the tables that were made of it."""
    proved, dropped = _asked(evidence)
    ranges = [step.range for step in proved]
    return Proof(
        lake=lake,
        tables=tuple(tables),
        records=sum(recorded.rows for recorded in ranges),
        unproved_records=evidence.compared.derived + sum(step.range.rows for step in dropped),
        shards=len({recorded.key for recorded in ranges}),
        first=min((recorded.first_arrival for recorded in ranges if recorded.first_arrival), default=None),
        last=max((recorded.last_arrival for recorded in ranges if recorded.last_arrival), default=None),
        snapshot=evidence.snapshot,
    )


def _checks(evidence: LakeEvidence) -> Iterator[Check]:
    story = evidence.table.story
    shards = counted(len(story.steps), "shard")
    yield chain_check(evidence)
    yield parents_check(evidence, evidence.listed)
    yield checked(
        "each hash key is read by exactly one shard at each time, over all splits and merges",
        shards,
        (*broken_families(story, evidence.listed), *_hash_keys(evidence)),
    )
    yield file_check(evidence)
    yield from _row_checks(evidence)
    yield checked(
        "no record is another stream's or shard's, by its arrival and its number",
        what_was_judged(story, evidence.listed),
        strange_ranges(story, evidence.listed),
    )
    if evidence.through:
        yield checked(
            "the table states no later time for its completeness than its positions show",
            counted(len(evidence.through), "statement"),
            wrong_through(evidence.through, evidence.table.positions),
        )


def _row_checks(evidence: LakeEvidence) -> Iterator[Check]:
    rows = counted(evidence.rows, "row")
    # Both checks are made before either is told, because accepted rows may show up in the one or in the other.
    miscounts = evidence.compared.miscounts
    strangers = tuple(strange_rows(evidence.table.counts, has_lost=bool(evidence.table.story.lost)))
    extras = (*miscounts, *strangers)
    yield checked(
        "each range has as many rows as its ledger states",
        counted(evidence.compared.ranges, "range"),
        (
            *by_acceptance(miscounts, extras, evidence.known, evidence.accepted),
            *_dropped(_asked(evidence)[1]),
        ),
    )
    yield checked(
        "no row is outside of the ranges",
        rows,
        by_acceptance(strangers, extras, evidence.known, evidence.accepted),
    )
    yield checked("no record is in the table twice", rows, evidence.compared.rows)


def _asked(evidence: LakeEvidence) -> tuple[list[Step], list[Step]]:
    """The ranges with records that are asked for, and those of which the retention may have removed records."""
    proved: list[Step] = []
    dropped: list[Step] = []
    for step in evidence.table.story.all():
        if step.range.rows and evidence.window.has(step.range.first_arrival, step.range.last_arrival):
            # What upkeep has removed, or removes next, can't be counted any more.
            (dropped if may_be_dropped(step, evidence.kept_from) else proved).append(step)
    return proved, dropped


def _hash_keys(evidence: LakeEvidence) -> Iterator[Told]:
    for listed in evidence.listed.values():
        yield from uncovered_keys(evidence.table.story, listed)
    for stream, why in evidence.unlisted.items():
        yield Unproved(
            f"{stream}: Kinesis doesn't list its shards, so that only the ledgers tell of its hash keys ({why})"
        )


def _dropped(steps: Sequence[Step]) -> Iterator[Unproved]:
    if steps:
        yield Unproved(
            f"{counted(counted_ranges(steps), 'range')} with records of days that upkeep.retention removes: "
            "how many of them should be left isn't known"
        )
