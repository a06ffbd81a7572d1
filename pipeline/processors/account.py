"""What a wave of a processor commits: the part of each planned range whose records the processor has finished,
with its account. Pure functions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from headrace.pipeline.core.ledger.accounting import Accounting, read_accounting
from headrace.pipeline.core.ledger.author import Arrivals, Author
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.processors.values import TurnReport, TurnReports
from headrace.pipeline.typed.account import aside_name
from headrace.pipeline.typed.values import PlannedRange, WavePlan

_STATE, _UNCHANGED = "state", "unchanged"


@dataclass(frozen=True, slots=True)
class ProcessorAccount:
    """The account of a range of the kind `processed`: what became of its records, and the state that the processor has
    after them."""

    records: Accounting
    """Each record of the range is processed (`parsed`) or set aside."""
    state: str | None = None
    """As JSON; None where the processor has no state."""
    decides: bool = True
    """Whether it tells the state. False for a redrive that gave no record of the shard to the processor."""

    def text(self) -> str:
        content = json.loads(self.records.text())
        if not self.decides:
            content[_UNCHANGED] = True
        if self.state is not None:
            # In the ledger of the commit that has the rows and the position: a rollback of the
            # table takes the state back with them, which a file or a row elsewhere wouldn't be.
            content[_STATE] = self.state
        return json.dumps(content, separators=(",", ":"), ensure_ascii=True)


def read_account(text: str) -> ProcessorAccount:
    """The account of a range of a processor, from its text in the ledger. Raises WrongShape for a text that isn't
    the account of a processor."""
    records = read_accounting(text)
    content = json.loads(text)
    state = content.get(_STATE)
    return ProcessorAccount(records, None if state is None else str(state), _UNCHANGED not in content)


def shortened(planned: PlannedRange, turn: TurnReport) -> PlannedRange | None:
    """The part of a planned range whose records the processor has finished; None where there is none."""
    if turn.taken > planned.rows:
        raise WrongShape(
            f"a processor reports {turn.taken:,} records of {planned.key}, and the wave has {planned.rows:,}. "
            "Nothing was committed, and no position moved; report this as an error of Headrace"
        )
    # A range to the shard's end counts whole only if the processor has checkpointed that end: the
    # children begin once the END is committed.
    if turn.taken == planned.rows and (turn.ended or not planned.upto.ended):
        return planned
    if turn.last is None:
        return None
    sequence, sub, arrival_ms = turn.last
    arrival = datetime.fromtimestamp(arrival_ms / 1000, UTC)
    return replace(
        planned,
        upto=Position(sequence, sub, arrival=arrival),
        rows=turn.taken,
        bytes=planned.bytes * turn.taken // planned.rows,
        newest=arrival,
    )


def committed_plan(plan: WavePlan, turns: Mapping[ShardKey, TurnReport]) -> WavePlan:
    """The plan with only those records that the processor has finished."""
    ranges = [shortened(planned, turns[planned.key]) for planned in plan.ranges]
    is_whole = all(kept == planned for kept, planned in zip(ranges, plan.ranges, strict=True))
    return replace(
        plan, ranges=tuple(kept for kept in ranges if kept is not None), is_last=plan.is_last and is_whole
    )


def accounts(
    plan: WavePlan, done: TurnReports, *, version: str, schema: int, code: str
) -> dict[ShardKey, ProcessorAccount]:
    """The account of each range of the plan, which has only finished records."""
    turns = {turn.key: turn for turn in done.turns}
    told: dict[ShardKey, ProcessorAccount] = {}
    for planned in plan.ranges:
        turn = turns[planned.key]
        # The commit of the processor's table decides for its quarantine table as well, by the names
        # of these files.
        names = tuple(aside_name(file.path) for file in done.aside if planned.key in file.shards)
        records = Accounting(
            planned.rows,
            planned.rows - turn.aside,
            turn.aside,
            version=version,
            schema=schema,
            aside=names,
            code=code,
        )
        if not records.is_complete:
            raise WrongShape(
                f"the account of {planned.key} isn't complete: {records.text()}. Nothing was committed, and no "
                "position moved; report this as an error of Headrace"
            )
        told[planned.key] = ProcessorAccount(records, turn.state)
    return told


def processed_ranges(
    plan: WavePlan, told: Mapping[ShardKey, ProcessorAccount], done: TurnReports, *, run: str
) -> Iterator[Range]:
    rows = {turn.key: turn.rows for turn in done.turns}
    for planned in plan.ranges:
        yield Author(run).range(
            Kind.PROCESSED,
            planned.key,
            planned.after,
            planned.upto,
            rows=rows[planned.key],
            bytes=planned.bytes,
            arrivals=Arrivals(planned.oldest, planned.newest),
            files=done.files,
            parents=planned.parents,
            account=told[planned.key].text(),
        )
