"""The values that a proof has read of a typed table, and which rows have to be where by its ledgers. Values and
pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from headrace.pipeline.core.ledger.accounting import Accounting, read_accounting
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.generation import is_chain, shard_of
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.ledger.story import Step, Story, counted_ranges
from headrace.pipeline.core.shards.position import Position, Positions, reaches
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.proof.evidence import Evidence
from headrace.pipeline.proof.latest.facts import LatestFacts
from headrace.pipeline.windows.window import ReplayWindow

_OUT_OF_ORDER = timedelta(days=1)
"""No record of a shard arrives so long before one with a lower sequence number."""
_NEVER = datetime.max.replace(tzinfo=UTC)
_AT_ONCE = 100_000
"""The most ranges that are in memory together, unless a single shard has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeEvidence(Evidence):
    """The values that the checks of a made table use, beside those that each table's checks use."""

    moved: frozenset[ShardKey] = frozenset()
    """Shards of which a person has set the lake table's position: it may have their rows twice."""
    unpacked: Mapping[ShardKey, tuple[Step, ...]] = field(default_factory=dict)
    """The ranges by which aggregates were taken apart in the lake table, maybe after they were parsed or copied."""
    landed: Story = field(default_factory=Story)
    """The lake table's ranges."""
    stream: str | None = None
    """Only records of the stream with this name are parsed; None: of all streams."""
    is_whole: bool = True
    """Whether all ranges were compared, and not only new ones or those of some time."""
    window: ReplayWindow | None = None
    loses_rows: bool = False
    """Whether it is a table of the latest rows: rows leave it when later ones of their key come."""
    latest: LatestFacts | None = None
    """What was read of such a table beside its ledgers."""


def rows_not_parsed(evidence: MadeEvidence) -> int:
    """How many rows of the lake table lie in ranges that the typed table hasn't parsed to the end."""
    return sum(
        step.range.rows
        for key, steps in evidence.landed.steps.items()
        if evidence.aside is not None and evidence.stream in (None, key.stream.name)
        for step in steps
        if (position := evidence.table.positions.of(key)) is None or not reaches(position, step.range.upto)
    )


def cut_shards(landed: Story, positions: Positions) -> tuple[frozenset[ShardKey], ...]:
    """The shards whose position in a typed table lies within a joined range of the lake table, in groups whose
    ranges fit into memory.
    """
    groups: list[set[ShardKey]] = []
    ranges = _AT_ONCE
    for key, steps in landed.steps.items():
        position = positions.of(key)
        if position is not None and any(_is_inside(position, step) for step in steps):
            # In groups, because each group's ranges are in memory one by one.
            ranges += (count := counted_ranges(steps))
            if ranges > _AT_ONCE:
                groups.append(set())
                ranges = count
            groups[-1].add(key)
    return tuple(map(frozenset, groups))


def _is_inside(position: Position, step: Step) -> bool:
    after = step.range.after
    return (
        step.range.joined > 1
        and not reaches(position, step.range.upto)
        and after is not None
        and not reaches(after, position)
    )


def rest_asked(keys: Iterable[ShardKey], positions: Positions) -> RangeFilter:
    """A filter for the ranges of these shards after the positions. It also lets some earlier ranges through,
    because records of a shard arrive only roughly in their order.
    """
    keys = frozenset(keys)
    all_arrivals = [None if (position := positions.of(key)) is None else position.arrival for key in keys]
    arrivals = [arrival for arrival in all_arrivals if arrival is not None]
    # Where one position has no arrival, the ranges after it may be of any time.
    since = min(arrivals) - _OUT_OF_ORDER if len(arrivals) == len(all_arrivals) else None
    return RangeFilter(
        shards=frozenset(key.shard_id for key in keys), arrived=None if since is None else (since, _NEVER)
    )


def unparsed_rest(steps: Sequence[Step], position: Position | None) -> tuple[Step, ...]:
    """The ranges that aren't parsed to their ends, joined to one range with all their rows: the position lies
    before these ends.
    """
    rest = [step for step in steps if position is None or not reaches(position, step.range.upto)]
    if not rest:
        return ()
    rows, joined = sum(step.range.rows for step in rest), counted_ranges(rest)
    # As one range: what isn't parsed yet is only counted, and not told one by one.
    return (replace(rest[-1], range=replace(rest[-1].range, rows=rows, joined=joined)),)


def accounting_of(step: Step) -> Accounting | None:
    """What became of the rows of a range; None where the ledger's text can't be read."""
    if step.range.kind in {Kind.COPIED, Kind.READ}:
        # A window copies and reads each row as it is, so that its ledger needs no text about them.
        return Accounting(step.range.rows, step.range.rows)
    try:
        return read_accounting(step.range.account)
    except WrongShape:
        return None


def source_view(story: Story, unsettled: Iterable[Step] = ()) -> Story:
    """The ranges of a typed table, with the number of rows that they have in the lake table. Redrives have none
    there, and the rows of a replacement are those of the ranges that it parsed again. Left out are ranges whose
    rows the quarantine table doesn't have yet (`unsettled`), because they can't be compared; where a
    redrive or a replacement is among these ranges, all ranges of its shard are left out.
    """
    late = set(unsettled)
    decided_anew = {shard_of(step.range.key) for step in late if is_chain(step.range.key)}
    steps: dict[ShardKey, tuple[Step, ...]] = {}
    left_out: dict[ShardKey, tuple[Step, ...]] = {}
    for key, shard_steps in story.steps.items():
        if not is_chain(key):
            view = [(step, _as_in_source(step)) for step in shard_steps]
            left_out[key] = tuple(v for step, v in view if step in late or key in decided_anew)
            steps[key] = tuple(v for step, v in view if step not in late and key not in decided_anew)
    derived = {
        key: (*story.derived.get(key, ()), *left_out.get(key, ())) for key in {*story.derived, *left_out}
    }
    replays = {key: tuple(map(_as_in_source, replayed)) for key, replayed in story.replays.items()}
    return Story(steps, derived, replays, story.lost, story.dropped)


def _as_in_source(step: Step) -> Step:
    # The rows of a replay are those of the ranges under it, which count them already.
    if step.range.kind is Kind.REPLAY:
        return replace(step, range=replace(step.range, rows=0))
    account = accounting_of(step)
    return step if account is None else replace(step, range=replace(step.range, rows=account.rows))
