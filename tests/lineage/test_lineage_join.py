"""Joined ranges tell a proof the same as each range by itself, whatever the history is and whatever is wrong with it."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow

from headrace.pipeline.core.ledger.accounting import Accounting, read_accounting
from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.core.ledger.filter import Joining
from headrace.pipeline.core.ledger.generation import chain_of
from headrace.pipeline.core.ledger.ledger import (
    Kind,
    LedgerEntry,
    LedgerPage,
    Lost,
    ParentIs,
    ParentReason,
    Range,
)
from headrace.pipeline.core.ledger.rows import lineage_rows_of
from headrace.pipeline.core.ledger.story import Story, story_of
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.sort_texts import order_text
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lineage.content import sorted_rows
from headrace.pipeline.lineage.decode import LineageDecoder
from headrace.pipeline.lineage.join import joined
from headrace.pipeline.lineage.schema import SCHEMA
from headrace.pipeline.proof.checks import LakeEvidence, lake_finding, proof_of
from headrace.pipeline.proof.counts import compared_counts
from headrace.pipeline.proof.evidence import TableLook
from headrace.pipeline.proof.made.checks import made_finding
from headrace.pipeline.proof.made.evidence import MadeEvidence, source_view
from headrace.pipeline.proof.made.rows import compared_rows
from headrace.pipeline.proof.spans import CountPlan, plan_rows
from headrace.pipeline.proof.verdict import TableProof
from tests.lake.samples import NOON, a_key

KEYS = [a_key(n) for n in range(3)]
_ARROW = schema_to_pyarrow(SCHEMA)


def _arrival(number: int) -> datetime:
    """Of the records of a commit, and its own time."""
    return NOON + timedelta(hours=2 * number)


@dataclass
class History:
    """Ledgers of a table, made at random. `odd`: how often a range is one that a proof tells of by itself."""

    random: Random
    odd: float
    typed: bool = False
    entries: list[LedgerEntry | Lost] = field(default_factory=list)
    aside: list[LedgerEntry | Lost] = field(default_factory=list)
    at: dict[ShardKey, Position] = field(default_factory=dict)

    def grow(self, commits: int) -> None:
        for number in range(1, commits + 1):
            if self.is_odd():
                self.entries.append(Lost(number, number, NOON, "the test's loss"))
                continue
            keys = [key for key in KEYS if self.random.random() < 0.8]
            ranges = tuple(each for key in keys for each in self.ranges(key, number))
            self.entries.append(LedgerEntry(number, number, _arrival(number), LedgerPage(ranges)))

    def is_odd(self, times: float = 1.0) -> bool:
        return self.random.random() < self.odd * times

    def ranges(self, key: ShardKey, number: int) -> Iterator[Range]:
        for _ in range(1 + self.is_odd()):
            each = self.one(key, number)
            self.at[key] = each.upto
            yield each
        if self.is_odd():
            yield replace(each, kind=Kind.REPLAY if self.typed else Kind.UNPACKED)

    def one(self, key: ShardKey, number: int) -> Range:
        at = self.at.get(key)
        stood = 0 if at is None or at.sequence is None else at.sequence
        arrival = _arrival(number)
        if self.is_odd():
            # A range with records of another stream, by their arrival.
            arrival += self.random.choice([-1, 1]) * timedelta(days=400)
        rows = self.random.choice([0, 0, 3, 7]) if self.is_odd(9) else 5
        each = Range(
            Kind.PARSED if self.typed else Kind.LANDED,
            key,
            self.after(at),
            Position(
                stood + self.step(), self.random.choice([0, 0, 2]), ended=self.is_odd(), arrival=arrival
            ),
            run=f"run-{number}",
            claim="c",
            rows=rows,
            first_arrival=None if self.is_odd() else arrival - timedelta(hours=1),
            last_arrival=arrival,
            files=(f"{number}.parquet",),
            records=rows,
            parents=(ParentReason("shardId-000000000009", ParentIs.ENDED),) if self.is_odd() else (),
            why="the test's reason" if self.is_odd() else "",
        )
        if self.is_odd():
            each = replace(each, kind=self.random.choice([Kind.SKIPPED, Kind.REPOSITION, Kind.REPAIR]))
        return self.parsed(each) if self.typed and each.kind is Kind.PARSED else each

    def after(self, at: Position | None) -> Position | None:
        if at is None or not self.is_odd():
            return at
        sequence, sub = self.random.choice([(-3, 0), (-1, 0), (1, 0), (0, 1), (0, -1)])
        return replace(
            at, sequence=max(0, (at.sequence or 0) + sequence), sub=max(0, at.sub + sub), ended=False
        )

    def step(self) -> int:
        return self.random.choice([-4, 0, 1]) if self.is_odd() else self.random.choice([1, 9, 10**25])

    def parsed(self, each: Range) -> Range:
        dropped, quarantined = self.random.choice([(0, 0), (0, 0), (1, 0), (0, 2), (2, 1)])
        lie = self.is_odd()
        account = Accounting(
            rows=each.rows + dropped + quarantined + lie,
            parsed=each.rows,
            quarantined=quarantined,
            dropped={"a reason": dropped} if dropped else {},
            aside=("a.parquet",) if quarantined else (),
        )
        return replace(each, account="no accounting" if self.is_odd() else account.text())


def stories(entries: Iterable[LedgerEntry | Lost], joining: Joining, random: Random) -> tuple[Story, Story]:
    """Each range as it is, and joined ranges, by way of the columns of some files."""
    entries = list(entries)
    return story_of(entries), story_of(_through_files(entries, joining, random))


def _through_files(
    entries: list[LedgerEntry | Lost], joining: Joining, random: Random
) -> Iterator[LedgerEntry | Lost]:
    batches: list[pa.RecordBatch] = []
    cuts = sorted({0, *random.sample(range(len(entries)), 3), len(entries)})
    for begin, end in pairwise(cuts):
        rows = [row for entry in entries[begin:end] for row in lineage_rows_of(entry)]
        batches += sorted_rows(pa.Table.from_pylist(rows, _ARROW)).to_batches(random.choice([5, 40]))
    random.shuffle(batches)
    decoder = LineageDecoder()
    made = joined(batches, joining)
    for batch in batches if made is None else made.to_batches():
        decoder.add(batch)
    return decoder.pages.entries()


@pytest.mark.parametrize("odd", [0.0, 0.004, 0.05])
@pytest.mark.parametrize("seed", range(8))
def test_a_proof_of_the_lake_table_tells_the_same_of_joined_ranges(seed: int, odd: float):
    random = Random(seed)
    history = History(random, odd)
    history.grow(120)
    below, kept_from = random.choice([60, 100, 121]), random.choice([None, (NOON + timedelta(days=4)).date()])
    positions = Positions(shards=dict(history.at))
    whole, short = stories(history.entries, Joining(below, by_day=kept_from is not None), random)
    plans = [plan_rows(story, window=ALL, proved=below, kept_from=kept_from) for story in (whole, short)]
    assert plans[0].is_mixed == plans[1].is_mixed
    if plans[0].is_mixed:
        return
    seen = [
        LakeEvidence(
            table=TableLook(name="lake", story=story, positions=positions),
            compared=compared_counts(plan, (), ()),
            snapshot=1,
            kept_from=kept_from,
        )
        for story, plan in zip((whole, short), plans, strict=True)
    ]
    proofs = [proof_of(evidence, lake_finding(evidence)) for evidence in seen]
    assert proofs[0] == proofs[1]
    assert _fates(plans[0], history) == _fates(plans[1], history)
    if not odd:
        assert sum(map(len, short.steps.values())) < sum(map(len, whole.steps.values()))


def _fates(plan: CountPlan, history: History) -> list[object]:
    """Of a row at and behind the end of each range: whether it is counted, known, or in no range."""
    texts = sorted(
        order_text(Position(each.upto.sequence + more))
        for entry in history.entries
        if isinstance(entry, LedgerEntry)
        for each in entry.page.ranges
        if each.upto.sequence is not None
        for more in (0, 1)
    )
    found: list[object] = []
    for of in plan.spans:
        places = [(bisect_left(of.ends, text), text) for text in texts]
        found += [(of.shard_id, text, of.claims[at] if at < len(of.ends) else 0) for at, text in places]
    return found


@pytest.mark.parametrize("odd", [0.0, 0.004, 0.05])
@pytest.mark.parametrize("seed", range(8))
def test_a_proof_of_a_typed_table_tells_the_same_of_joined_ranges(seed: int, odd: float):
    random = Random(seed)
    history = History(random, odd, typed=True)
    history.grow(120)
    aside = list(_settled(history))
    below = random.choice([60, 100, 121])
    positions = Positions(shards=dict(history.at))
    whole, short = stories(history.entries, Joining(below), random)
    asides = stories(aside, Joining(below, is_aside=True), random)
    plans: list[CountPlan] = []
    proofs: list[TableProof] = []
    for story, of_aside in zip((whole, short), asides, strict=True):
        plans.append(plan_rows(source_view(story), window=ALL, proved=below))
        evidence = MadeEvidence(
            table=TableLook(name="lake.typed", story=story, positions=positions),
            aside=TableLook(name="lake.aside", story=of_aside, positions=positions),
            is_whole=False,
        )
        proofs.append(made_finding(replace(evidence, compared=compared_rows(evidence, plans[-1], ()))))
    if proofs[1].holds or not odd:
        # Where something is wrong, each range is read by itself.
        assert proofs[0] == proofs[1]
        assert _fates(plans[0], history) == _fates(plans[1], history)
    assert proofs[0].holds == proofs[1].holds


def _settled(history: History) -> Iterator[LedgerEntry | Lost]:
    """The ledgers of the quarantine table, which has brought some ranges of the typed table at a time."""
    waiting: dict[ShardKey, list[Range]] = {key: [] for key in (*KEYS, *map(chain_of, KEYS))}
    for entry in history.entries:
        if isinstance(entry, Lost):
            continue
        for each in entry.page.ranges:
            if each.moves:
                waiting[each.key].append(each)
        if history.random.random() < 0.7 or entry is history.entries[-1]:
            ranges = tuple(_range_aside(its, history) for its in waiting.values() if its)
            yield LedgerEntry(entry.snapshot, entry.sequence, NOON, LedgerPage(ranges))
            waiting = {key: [] for key in waiting}


def _range_aside(its: list[Range], history: History) -> Range:
    rows = sum(read_accounting(each.account).quarantined for each in its if each.account.startswith("{"))
    lie = history.is_odd()
    return replace(
        its[-1], after=its[0].after, rows=rows + lie, account=its[-1].account if len(its) == 1 else ""
    )


def test_ranges_arent_joined_where_another_batch_has_one_that_lies_between_them():
    ends = (10, 20, 30, 40, 50)
    chain = [_landed(number, after, upto) for number, (after, upto) in enumerate(pairwise((0, *ends)), 1)]
    between = _landed(3, 20, 25)
    numbered = [replace(each, sequence=each.sequence + (each.sequence > 2)) for each in chain]
    together = _batches(numbered)
    made = joined(together, Joining(1000))
    assert made is not None
    assert made["joined"].to_pylist() == [1, 3, 1]
    assert joined([*together, *_batches([between])], Joining(1000)) is None


def _landed(number: int, after: int, upto: int) -> LedgerEntry:
    each = Range(
        Kind.LANDED, KEYS[0], Position(after) if after else None, Position(upto), run="r", claim="c", rows=10
    )
    return LedgerEntry(number, number, NOON, LedgerPage((each,)))


def _batches(entries: Iterable[LedgerEntry]) -> list[pa.RecordBatch]:
    return pa.Table.from_pylist(
        [row for each in entries for row in lineage_rows_of(each)], _ARROW
    ).to_batches()
