"""Which wanted rows are in files of a table: each task looks into some of them, at the columns without payloads."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.pipeline.lake.staging.stage_codec import decode_all
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.ports.tasks import Job, Now, Tasks, Work, packed
from headrace.pipeline.typed.account import whole_survey
from headrace.pipeline.typed.values import Survey, SurveyOrder


def survey_by(tasks: Tasks, order: SurveyOrder, spec: StagingSpec, job: Job) -> Survey:
    """Let Spark's tasks look into the files that the order names. `spec`: that of the table whose files they are."""
    files = packed(order.files, cores=tasks.cores)
    return whole_survey(decode_all(tasks.run(len(files), _surveying(files, order, spec), job), Survey))


def _surveying(files: Sequence[Sequence[str]], order: SurveyOrder, spec: StagingSpec) -> Work:
    def work(number: int, _now: Now) -> bytes:
        # Imports within the function run on Spark's worker, from the shipped zip: the function is pickled without its
        # module.
        from headrace.pipeline.lake.staging.stage_codec import encode
        from headrace.pipeline.typed.tasks.read import survey

        return encode(survey(order, files[number], spec))

    return work
