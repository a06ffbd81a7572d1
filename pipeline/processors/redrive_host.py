"""A redrive of a processor on Spark: the quarantine table is read in the place of the lake table, and its other rows are
copied."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.processors.host import TaskHost
from headrace.pipeline.processors.ports import RedriveHost
from headrace.pipeline.processors.values import TurnRules
from headrace.pipeline.settings.choices import OnProcessorError
from headrace.pipeline.typed.quarantine.spark import copied_by
from headrace.pipeline.typed.values import Bound, Parsed, SourceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRedriveHost(TaskHost, RedriveHost):
    """Runs a processor on records of its quarantine table, by Spark tasks."""

    @property
    def rules(self) -> TurnRules:
        # Without a limit for the records that are set aside: all of them are in quarantine already.
        return replace(self.code.rules, on_error=OnProcessorError.QUARANTINE, most_aside=sys.maxsize)

    def copy_unselected(
        self, files: Sequence[SourceFile], selected: Sequence[Bound], streams: Sequence[StreamId]
    ) -> Parsed:
        return copied_by(self.tasks, self.quarantine, files, selected, streams, job=self.job)
