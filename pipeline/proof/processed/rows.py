"""The mistakes in the rows of a processor's table and of its quarantine table, found by comparing them with the
records of the lake table. Pure functions.

    lake table        the records of each range are as many as the processor's ledger has accounted for
    processor's table as many rows as the calls of the range gave, by the ledger
    quarantine table  each record that was set aside, and that no redrive has given to the processor again

A processor makes any number of rows of a record. So rows aren't compared with records one by one: their numbers
are. Rows of one record differ in their `row_number`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from headrace.pipeline.core.ledger.generation import chain_of, shard_of
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.ledger.story import Step, Story
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.proof.counts import doubled_as_wrong
from headrace.pipeline.proof.evidence import Compared, RedrivenRows
from headrace.pipeline.proof.made.evidence import MadeEvidence, accounting_of
from headrace.pipeline.proof.rounds import cluster_place
from headrace.pipeline.proof.spans import Cluster, CountPlan, Doubled, FileCount
from headrace.pipeline.proof.verdict import Told, Unproved, Wrong

_Place = tuple[ShardKey, int, str]
"""A range: its shard, its snapshot, and where it ends."""


def compared_rows(
    evidence: MadeEvidence,
    plan: CountPlan,
    counts: Sequence[Sequence[FileCount]],
    doubled: Iterable[Doubled],
) -> Compared:
    """The comparison of rows with the ledgers. `plan`: the ranges, with the records that each has in the lake
    table. `counts`: those of the lake table, the processor's table and its quarantine table. `doubled`: rows that
    are there twice.
    """
    given = given_rows(evidence.table.story)
    redriven: dict[ShardKey, RedrivenRows] = {}
    numbers = _wrong_numbers(evidence, plan, [_by_span(table) for table in counts], given, redriven)
    return Compared(
        ranges=len(plan.clusters),
        numbers=tuple((cluster_place(cluster, plan), statement) for cluster, statement in numbers),
        rows=tuple(doubled_as_wrong(doubled)),
        redriven=redriven,
    )


def given_rows(story: Story) -> Mapping[_Place, int]:
    """How many rows of the processor's table each range with records has.

    Rows that a processor made at the end of a shard, in a wave without records, belong to the last record before:
    they are in the range of that record.
    """
    given: dict[_Place, int] = {}
    for steps in story.steps.values():
        last: _Place | None = None
        for step in steps:
            account = accounting_of(step)
            if last is None or account is None or account.rows:
                last = _place_of(step)
            given[last] = given.get(last, 0) + step.range.rows
    return given


def _place_of(step: Step) -> _Place:
    return step.range.key, step.snapshot, str(step.range.upto.token)


def _by_span(table: Iterable[FileCount]) -> Mapping[tuple[int, int], int]:
    rows: dict[tuple[int, int], int] = {}
    for part in (part for count in table for part in count.parts):
        rows[part.shard, part.span] = rows.get((part.shard, part.span), 0) + part.rows
    return rows


def _wrong_numbers(
    evidence: MadeEvidence,
    plan: CountPlan,
    counts: Sequence[Mapping[tuple[int, int], int]],
    given: Mapping[_Place, int],
    redriven: dict[ShardKey, RedrivenRows],
) -> Iterator[tuple[Cluster, Told]]:
    """What is wrong with the number of rows of each range. `redriven` gets the rows of shards with redrives."""
    story = evidence.table.story
    redrives = {shard_of(step.range.key) for step in story.all() if step.range.kind is Kind.REDRIVEN}
    for cluster in plan.clusters:
        landed, rows, *asides = (
            sum(table.get((cluster.shard, span), 0) for span in cluster.spans) for table in counts
        )
        aside = sum(asides)
        accounts = [account for account in map(accounting_of, cluster.steps) if account is not None]
        stated = sum(given.get(_place_of(step), 0) for step in cluster.steps)
        stated_aside = sum(account.quarantined for account in accounts)
        key = cluster.steps[0].range.key
        since = min(step.sequence for step in cluster.steps)
        moved = _moved(story, key, since=since) if key in redrives else (0, 0)
        # Rows that a redrive made belong to the last record of their call, which may be of another range.
        has_rows = stated <= rows <= stated + moved[0]
        if not (has_rows and stated_aside - moved[1] <= aside <= stated_aside):
            yield (
                cluster,
                Wrong(
                    f"{_named(cluster)}: the ledger states {counted(stated, 'row')} and "
                    f"{counted(stated_aside, 'record')} set aside, and {rows:,} are in {evidence.table.name} and {aside:,} in "
                    "its quarantine table"
                ),
            )
        if key in redrives:
            numbers = RedrivenRows(stated, stated_aside, rows, aside)
            redriven[key] = redriven[key] + numbers if key in redriven else numbers
        records = sum(account.rows for account in accounts)
        if landed != records and not (cluster.is_dropped and landed < records):
            yield cluster, _of_the_lake(evidence, cluster, records, landed)


def _moved(story: Story, key: ShardKey, *, since: int) -> tuple[int, int]:
    """How many rows redrives after this sequence number have made of a shard's records, and how many records have left
    quarantine."""
    rows = records = 0
    for step in story.steps.get(chain_of(key), ()):
        account = accounting_of(step)
        if step.sequence > since and account is not None:
            rows += step.range.rows
            records += account.parsed
    return rows, records


def wrong_totals(evidence: MadeEvidence) -> Iterator[Wrong]:
    """The shards of which redrives have made or moved another number of rows than their ledgers state."""
    story = evidence.table.story
    # A redrive moves old records: the numbers add up only where all rows of the shard were counted.
    if not evidence.is_whole or story.lost:
        return
    for key, numbers in evidence.compared.redriven.items():
        made, left = _moved(story, key, since=-1)
        rows, aside = numbers.stated_parsed + made, numbers.stated_aside - left
        if (numbers.parsed, numbers.aside) != (rows, aside):
            yield Wrong(
                f"{key}: with its redrives the ledger states {counted(rows, 'row')} in {evidence.table.name} and "
                f"{counted(aside, 'record')} set aside, and {numbers.parsed:,} and {numbers.aside:,} are there"
            )


def _of_the_lake(evidence: MadeEvidence, cluster: Cluster, records: int, landed: int) -> Told:
    sentence = (
        f"{_named(cluster)}: the processor has got {counted(records, 'record')} of this range, and the lake table has "
        f"{landed:,} now"
    )
    key = cluster.steps[0].range.key
    if key in evidence.moved:
        return Unproved(f"{sentence}; a person has set its position, so that records may have landed twice")
    if landed > records and evidence.unpacked.get(key):
        return Unproved(f"{sentence}; aggregates of this shard were taken apart since")
    return Wrong(sentence)


def _named(cluster: Cluster) -> str:
    first, *rest = cluster.steps
    more = f" and {counted(len(rest), 'range')} beside it" if rest else ""
    return f"{first}{more}"
