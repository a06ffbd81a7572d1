"""A failed run, shown in Dagster as one sentence, without the stack trace of Headrace's own functions."""

from typing import Any

import dagster as dg
from dagster._core.errors import DagsterUserCodeProcessError
from dagster._utils.error import SerializableErrorInfo  # type: ignore[attr-defined] # as Dagster's own modules do


class _WithoutStack(DagsterUserCodeProcessError):
    """Dagster shows the error that such an exception carries, instead of the exception and its stack."""

    def __init__(self, sentence: str) -> None:
        # Dagster's UI shows the name of an error's class: here that of Dagster's own failure.
        shown = SerializableErrorInfo(message=sentence, stack=[], cls_name=dg.Failure.__name__)
        super().__init__(sentence, user_code_process_error_infos=[shown])  # type: ignore[no-untyped-call] # Dagster's


class RunFailed(dg.Failure, _WithoutStack):
    """Fails a run with one sentence.

    Dagster shows a plain `dg.Failure` with a stack of twenty lines, at the step and at the run, in which nobody
    finds the sentence.
    """

    def __init__(self, sentence: str, metadata: dict[str, Any]) -> None:
        # No retry by Dagster: the worker's sensor asks for the next run, which tries a shard that keeps
        # failing less often.
        super().__init__(description=sentence, metadata=metadata, allow_retries=False)
