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
from headrace.pipeline.proof.belonging import judged, strange_ranges
from headrace.pipeline.proof.chains import broken_chains, ranges_without_rows, wrong_positions
from headrace.pipeline.proof.counts import strange_rows, wrong_counts, wrong_files
from headrace.pipeline.proof.families import (
    ListedShards,
    broken_families,
    early_children,
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
    """Of the files that were read."""
    compared: int = 0
    """Ranges of which the rows were compared beside those of the plan."""
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
    """Up to when the table states that it has all records."""
    kept_from: date | None = None
    """The first day that the retention keeps."""
    accepted: tuple[Accepted, ...] = ()
    """Rows of other engines that a person has accepted."""
    known: tuple[Strangers, ...] = ()
    """What an earlier proof has found of such rows in files that this one doesn't read."""


def proof_of(seen: ProofEvidence) -> Proof:
    proved, dropped = _asked(seen)
    ranges = [step.range for step in proved]
    return Proof(
        checks=tuple(_checks(seen, dropped)),
        records=sum(each.rows for each in ranges),
        unproved_records=seen.plan.derived + sum(step.range.rows for step in dropped),
        shards=len({each.key for each in ranges}),
        first=min((each.first_arrival for each in ranges if each.first_arrival), default=None),
        last=max((each.last_arrival for each in ranges if each.last_arrival), default=None),
        snapshot=seen.snapshot,
        since=seen.since,
        rows=sum(each.rows for each in seen.counts),
        files=len(seen.counts),
        unchanged=len(seen.unchanged),
    )


def _checks(seen: ProofEvidence, dropped: Sequence[Step]) -> Iterator[Check]:
    story = seen.story
    ranges = counted(story.ranges, "range")
    shards = counted(len(story.steps), "shard")
    rows = counted(sum(each.rows for each in seen.counts), "row")
    yield checked(
        "the ranges of each shard are one chain, up to the table's position",
        ranges,
        (*broken_chains(story), *wrong_positions(story, seen.positions), *ranges_without_rows(story)),
    )
    yield checked("no shard began before its parents had ended", shards, early_children(story, seen.listed))
    yield checked(
        "each hash key is read by exactly one shard at each time, over all splits and merges",
        shards,
        (*broken_families(story, seen.listed), *_hash_keys(seen)),
    )
    yield checked(
        "each data file is there, with the rows that the table's metadata states",
        counted(len(seen.counts) + len(seen.unchanged), "file"),
        (*wrong_files((*seen.counts, *seen.unchanged)), *hidden_rows(seen.live)),
    )
    miscounts = (*seen.miscounts, *wrong_counts(seen.plan, seen.counts))
    strangers = tuple(strange_rows(seen.counts, has_lost=bool(story.lost)))
    extras = (*miscounts, *strangers)
    yield checked(
        "each range has as many rows as its ledger states",
        counted(seen.compared + len(seen.plan.clusters), "range"),
        (*by_acceptance(miscounts, extras, seen.known, seen.accepted), *_dropped(dropped)),
    )
    yield checked(
        "no row is outside of the ranges",
        rows,
        by_acceptance(strangers, extras, seen.known, seen.accepted),
    )
    yield checked("no record is in the table twice", rows, _doubled(seen.doubled))
    yield checked(
        "no record is another stream's or shard's, by its arrival and its number",
        judged(story, seen.listed),
        strange_ranges(story, seen.listed),
    )
    if seen.through:
        yield checked(
            "the table states no later time for its completeness than its positions show",
            counted(len(seen.through), "statement"),
            wrong_through(seen.through, seen.positions),
        )


def _asked(seen: ProofEvidence) -> tuple[list[Step], list[Step]]:
    """The ranges with records that are asked for, and those of which the retention may have removed records."""
    proved: list[Step] = []
    dropped: list[Step] = []
    for step in seen.story.all():
        if step.range.rows and seen.window.has(step.range.first_arrival, step.range.last_arrival):
            (dropped if may_be_dropped(step, seen.kept_from) else proved).append(step)
    return proved, dropped


def _hash_keys(seen: ProofEvidence) -> Iterator[Told]:
    for listed in seen.listed.values():
        yield from uncovered_keys(seen.story, listed)
    for stream, why in seen.unlisted.items():
        yield Unproved(
            f"{stream}: Kinesis doesn't list its shards, so that only the ledgers tell of its hash keys ({why})"
        )


def hidden_rows(live: LiveFiles) -> Iterator[Unproved]:
    if live.obstacle:
        yield Unproved(f"rows may be hidden from readers: {live.obstacle}")
    if hidden := sum(bool(each.deletes) for each in live.files):
        yield Unproved(
            f"another engine deleted rows of {counted(hidden, 'file')} by delete files: these rows were counted, and readers don't see them"
        )


def _dropped(steps: Sequence[Step]) -> Iterator[Unproved]:
    if steps:
        yield Unproved(
            f"{counted(counted_ranges(steps), 'range')} with records of days that upkeep.retention removes: how many of them should be left isn't known"
        )


def _doubled(doubled: Iterable[Doubled]) -> Iterator[Wrong]:
    for each in doubled:
        yield from map(Wrong, each.rows)
        if more := each.count - len(each.rows):
            yield Wrong(f"{more:,} more records of that shard are there more than once")
