"""The plan of the next wave that reads the lake table: which of the wanted rows are there, and which of them the wave takes."""

from __future__ import annotations

from headrace.pipeline.core.parse_values import Bound, SurveyOrder, WaveLimits, WavePlan, Wishes
from headrace.pipeline.core.parsing_plan import Portion, plan_portion, plan_wave
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.target_ports import SourceLook, Surveyor

_GROWS = 4
"""How many times as many rows are looked at where a look found none that are wanted."""


def plan_next(
    wishes: Wishes,
    look: SourceLook,
    *,
    surveyor: Surveyor,
    limits: WaveLimits,
    others: bool = True,
    aggregates: bool = False,
) -> WavePlan:
    """`others`: whether rows of shards that aren't in the wishes, and aren't closed there, are wanted as well. `aggregates`: whether only
    aggregates that came whole are wanted."""
    rows = limits.records
    while True:
        portion = plan_portion(look.files, wishes, rows=rows)
        _check(portion, look)
        order = SurveyOrder(
            tuple(file.path for file in portion.files),
            tuple(Bound(each.key, each.low, each.high) for each in wishes.wanted),
            wishes.closed,
            wishes.streams,
            portion.ceiling,
            others=others,
            aggregates=aggregates,
        )
        pieces = surveyor.survey(order) if order.files else ()
        plan = plan_wave(wishes, pieces, ceiling=portion.ceiling, limits=limits)
        if plan.ranges or portion.ceiling is None:
            return plan
        rows *= _GROWS


def _check(portion: Portion, look: SourceLook) -> None:
    deleted = next((file.path for file in portion.files if file.deletes), None)
    if portion.files and (look.obstacle or deleted):
        why = (
            look.obstacle
            or f"another engine has deleted rows of {deleted} by a delete file, which Headrace can't apply"
        )
        raise WrongShape(
            f"records of the lake table can't be read now: {why}. Nothing was committed, and no position moved; let that engine run its "
            "rewrite_data_files"
        )
