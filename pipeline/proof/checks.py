"""All checks of a proof, made from what was read. A pure function of the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from headrace.pipeline.core.landing.valid_through import Through
from headrace.pipeline.core.ledger.arrivals import ALL, Window, may_be_dropped
from headrace.pipeline.core.ledger.live_files import LiveFiles
from headrace.pipeline.core.ledger.story import Step, Story, counted_ranges
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.proof.accepted import Accepted, Strangers, by_acceptance
from headrace.pipeline.proof.belonging import strange_ranges, what_was_judged
from headrace.pipeline.proof.chains import broken_chains, ranges_without_rows, wrong_positions
from headrace.pipeline.proof.counts import strange_rows, wrong_counts, wrong_files
from headrace.pipeline.proof.families import (
    ListedShards,
    broken_families,
    children_too_early,
    uncovered_keys,
)
from headrace.pipeline.proof.spans import CountPlan, Doubled, FileCount
from headrace.pipeline.proof.through import wrong_through
from headrace.pipeline.proof.verdict import Check, Proof, Told, Unproved, Wrong, checked


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofEvidence:
    """What was read of one snapshot of the lake table."""

    snapshot: int | None
    story: Story
    positions: Positions
    live: LiveFiles
    plan: CountPlan
    counts: tuple[FileCount, ...]
    """The counts of the files that this proof has read."""
    compared: int = 0
    """How many ranges had their rows compared beside those of the plan."""
    miscounts: tuple[Wrong, ...] = ()
    """What was wrong with them."""
    unchanged: tuple[FileCount, ...] = ()
    """Files that an earlier proof has read, looked at again."""
    since: int | None = None
    """The snapshot of that earlier proof."""
    doubled: tuple[Doubled, ...] = ()
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


def proof_of(evidence: ProofEvidence) -> Proof:
    """What the evidence shows, as the checks that people read."""
    proved, dropped = _asked(evidence)
    ranges = [step.range for step in proved]
    return Proof(
        checks=tuple(_checks(evidence, dropped)),
        records=sum(recorded.rows for recorded in ranges),
        unproved_records=evidence.plan.derived + sum(step.range.rows for step in dropped),
        shards=len({recorded.key for recorded in ranges}),
        first=min((recorded.first_arrival for recorded in ranges if recorded.first_arrival), default=None),
        last=max((recorded.last_arrival for recorded in ranges if recorded.last_arrival), default=None),
        snapshot=evidence.snapshot,
        since=evidence.since,
        rows=sum(count.rows for count in evidence.counts),
        files=len(evidence.counts),
        unchanged=len(evidence.unchanged),
    )


def _checks(evidence: ProofEvidence, dropped: Sequence[Step]) -> Iterator[Check]:
    story = evidence.story
    ranges = counted(story.ranges, "range")
    shards = counted(len(story.steps), "shard")
    rows = counted(sum(count.rows for count in evidence.counts), "row")
    yield checked(
        "the ranges of each shard are one chain, up to the table's position",
        ranges,
        (*broken_chains(story), *wrong_positions(story, evidence.positions), *ranges_without_rows(story)),
    )
    yield checked(
        "no shard began before its parents had ended", shards, children_too_early(story, evidence.listed)
    )
    yield checked(
        "each hash key is read by exactly one shard at each time, over all splits and merges",
        shards,
        (*broken_families(story, evidence.listed), *_hash_keys(evidence)),
    )
    yield checked(
        "each data file is there, with the rows that the table's metadata states",
        counted(len(evidence.counts) + len(evidence.unchanged), "file"),
        (*wrong_files((*evidence.counts, *evidence.unchanged)), *hidden_rows(evidence.live)),
    )
    # Both checks are made before either is told, because accepted rows may show up in the one or in the
    # other.
    miscounts = (*evidence.miscounts, *wrong_counts(evidence.plan, evidence.counts))
    strangers = tuple(strange_rows(evidence.counts, has_lost=bool(story.lost)))
    extras = (*miscounts, *strangers)
    yield checked(
        "each range has as many rows as its ledger states",
        counted(evidence.compared + len(evidence.plan.clusters), "range"),
        (*by_acceptance(miscounts, extras, evidence.known, evidence.accepted), *_dropped(dropped)),
    )
    yield checked(
        "no row is outside of the ranges",
        rows,
        by_acceptance(strangers, extras, evidence.known, evidence.accepted),
    )
    yield checked("no record is in the table twice", rows, _doubled(evidence.doubled))
    yield checked(
        "no record is another stream's or shard's, by its arrival and its number",
        what_was_judged(story, evidence.listed),
        strange_ranges(story, evidence.listed),
    )
    if evidence.through:
        yield checked(
            "the table states no later time for its completeness than its positions show",
            counted(len(evidence.through), "statement"),
            wrong_through(evidence.through, evidence.positions),
        )


def _asked(evidence: ProofEvidence) -> tuple[list[Step], list[Step]]:
    """The ranges with records that are asked for, and those of which the retention may have removed records."""
    proved: list[Step] = []
    dropped: list[Step] = []
    for step in evidence.story.all():
        if step.range.rows and evidence.window.has(step.range.first_arrival, step.range.last_arrival):
            # What upkeep has removed, or removes next, can't be counted any more.
            (dropped if may_be_dropped(step, evidence.kept_from) else proved).append(step)
    return proved, dropped


def _hash_keys(evidence: ProofEvidence) -> Iterator[Told]:
    for listed in evidence.listed.values():
        yield from uncovered_keys(evidence.story, listed)
    for stream, why in evidence.unlisted.items():
        yield Unproved(
            f"{stream}: Kinesis doesn't list its shards, so that only the ledgers tell of its hash keys ({why})"
        )


def hidden_rows(live: LiveFiles) -> Iterator[Unproved]:
    """Rows that are in the files, and that readers may not see."""
    if live.obstacle:
        yield Unproved(f"rows may be hidden from readers: {live.obstacle}")
    if hidden := sum(bool(file.deletes) for file in live.files):
        yield Unproved(
            f"another engine deleted rows of {counted(hidden, 'file')} by delete files: "
            "these rows were counted, and readers don't see them"
        )


def _dropped(steps: Sequence[Step]) -> Iterator[Unproved]:
    if steps:
        yield Unproved(
            f"{counted(counted_ranges(steps), 'range')} with records of days that upkeep.retention removes: "
            "how many of them should be left isn't known"
        )


def _doubled(doubled: Iterable[Doubled]) -> Iterator[Wrong]:
    for double in doubled:
        yield from map(Wrong, double.rows)
        if more := double.count - len(double.rows):
            yield Wrong(f"{more:,} more records of that shard are there more than once")
