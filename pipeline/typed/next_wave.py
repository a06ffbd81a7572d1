"""The plan of the next wave that reads the lake table: which of the wanted rows are there, and which of them the wave
takes."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.pipeline.core.shards.sort_texts import past
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.typed.files.portion import Portion, plan_portion
from headrace.pipeline.typed.known_files import KnownFiles
from headrace.pipeline.typed.plan import plan_wave
from headrace.pipeline.typed.ports import Surveyor
from headrace.pipeline.typed.values import (
    Bound,
    PlannedRange,
    SourceFile,
    Survey,
    SurveyOrder,
    WaveLimits,
    WavePlan,
    Wishes,
)

_GROWS = 4
"""How many times as many rows are looked at where a look found none that are wanted."""
_MANY = 64
"""Files of which nothing is known. Where more of them may have wanted rows, it is found out first which rows they have:
then the wave looks for the wanted rows in few of them."""


def plan_next(
    wishes: Wishes,
    files: Iterable[SourceFile],
    *,
    surveyor: Surveyor,
    limits: WaveLimits,
    known: KnownFiles,
    aggregates: bool = False,
) -> WavePlan:
    """Choose which of the wanted rows the next wave takes.

    `aggregates`: whether only rows are wanted that hold an aggregate as a whole. `known`: remembers what is found
    in the files.
    """
    files, rows, has_looked = tuple(files), limits.records, aggregates
    while True:
        portion = plan_portion(known.described(files), wishes, rows=rows)
        unknown = [file for file in portion.files if file.parts is None]
        if len(unknown) > _MANY and not has_looked:
            has_looked = True
            known.look_through(unknown, surveyor)
            continue
        survey = _surveyed(portion, wishes, surveyor, aggregates=aggregates)
        known.learn(survey)
        plan = plan_wave(wishes, survey.pieces, ceiling=portion.ceiling, limits=limits)
        if plan.ranges or portion.ceiling is None:
            _check(plan, portion)
            return plan
        # The lowest rows by the files' bounds needn't be wanted ones. Without growing, a wave that
        # looks at the same rows again would find nothing for ever.
        rows *= _GROWS


def _surveyed(portion: Portion, wishes: Wishes, surveyor: Surveyor, *, aggregates: bool) -> Survey:
    if not portion.files:
        return Survey()
    return surveyor.survey(
        SurveyOrder(
            tuple(file.path for file in portion.files),
            tuple(Bound(lack.key, lack.low, lack.high) for lack in wishes.wanted),
            wishes.closed,
            wishes.streams,
            portion.ceiling,
            others=not wishes.only_wanted,
            aggregates=aggregates,
        )
    )


def _check(plan: WavePlan, portion: Portion) -> None:
    """Whether all rows that the wave takes can be read."""
    read = {unit.path for unit in plan.units}
    deleted = next((file.path for file in portion.files if file.deletes and file.path in read), None)
    if deleted is not None:
        raise WrongShape(
            f"records of the lake table can't be read now: another engine has deleted rows of {deleted} by a delete "
            "file, which Headrace can't apply. Nothing was committed, and no position moved; "
            "let that engine run its rewrite_data_files"
        )


def rows_in(files: Iterable[SourceFile], surveyor: Surveyor, planned: PlannedRange) -> int:
    """How many rows of the planned range these files have."""
    end = past(planned.upto)
    # Of a position inside of a record, the row at the position is part of the range.
    bound = Bound(planned.key, past(planned.after), end if end.endswith(";") else f"{end}~")
    paths = tuple(file.path for file in files if file.may_have(bound))
    if not paths:
        return 0
    streams = (planned.key.stream,)
    survey = surveyor.survey(SurveyOrder(paths, (bound,), frozenset(), streams, None, others=False))
    return sum(piece.rows for piece in survey.pieces if piece.key == planned.key)
