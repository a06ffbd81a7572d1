"""The document in which a task reports what its processors have done."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.pipeline.lake.staging.stage_codec import decode
from headrace.pipeline.processors.values import TurnReports


def decode_turns(text: bytes) -> TurnReports:
    return decode(text, TurnReports)


def all_turns(reports: Iterable[TurnReports]) -> TurnReports:
    """The reports of all tasks, merged into one."""
    reports = tuple(reports)
    return TurnReports(
        tuple(turn for report in reports for turn in report.turns),
        tuple(file for report in reports for file in report.files),
        tuple(file for report in reports for file in report.aside),
    )
