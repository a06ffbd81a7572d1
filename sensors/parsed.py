"""The sensor of the typed tables: ask for a run where the lake table has records that one of them lacks.

One run follows all targets, except those that failed lately. No run is asked for while another one is open.
If two overlap all the same, the typed tables' compare-and-swap refuses one of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from time import time
from typing import Any

import dagster as dg

from headrace.assets.follow import follow_op
from headrace.assets.names import slug
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.typed.following import EVERY
from headrace.resources.instance import KeptInstance
from headrace.resources.runs import FAILED_TARGETS_TAG, FOLLOWS_TAG, OPEN
from headrace.sensors.interval import interval
from headrace.sensors.results import with_sentence

# A parser that fails would else be run again without a break.
_AFTER_A_FAILURE = timedelta(minutes=5)
# A run that has been open for longer counts as dead: its host may be gone, and Dagster shows it as started
# for hours.
_LONGEST = timedelta(hours=1)
# Failed runs that are looked at: more than fit into `_AFTER_A_FAILURE`.
_MOST_FAILED_RUNS = 20


def build_parse_sensor(wiring: Wiring, kept_instance: KeptInstance, job: Any) -> dg.SensorDefinition:
    @dg.sensor(
        name=f"{slug(wiring.settings.application)}_parse",
        job=job,
        minimum_interval_seconds=interval(EVERY),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Asks for a run where the lake table has records that a typed table lacks. One run keeps all typed tables up; "
        "a table whose last run failed waits for five minutes, and the others don't.",
    )
    def parsed(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        look = _look(wiring, kept_instance.of(context).instance, job.name)
        for trouble in look.troubles:
            # Dagster keeps what a sensor logs with its tick; a skip reason alone looks like a tick without
            # anything to do.
            context.log.error(trouble)
        if not look.behind:
            said = "; ".join((*look.troubles, *look.notes))
            return dg.SensorResult(skip_reason=said, cursor=with_sentence(None, f"parse: {said}"))
        request = dg.RunRequest(
            tags={FOLLOWS_TAG: ",".join(look.followed)},
            run_config={"ops": {follow_op(wiring.settings): {"config": {"targets": look.followed}}}},
        )
        asked = f"parse: a run is asked for: records to parse for {', '.join(look.behind)}"
        return dg.SensorResult(run_requests=[request], cursor=with_sentence(None, asked))

    return parsed


@dataclass(slots=True)
class _Look:
    """What a tick has found."""

    followed: list[str] = field(default_factory=list)
    """Targets for the next run."""
    behind: list[str] = field(default_factory=list)
    """Those of them whose typed table lacks records."""
    notes: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


def _look(wiring: Wiring, instance: dg.DagsterInstance, job: str) -> _Look:
    look = _Look()
    if (opened := _open_run(instance, job)) is not None:
        look.notes.append(opened)
        return look
    waiting = _waiting(instance, job, [target.name for target in wiring.settings.parse])
    up_to_date: list[str] = []
    for target in wiring.settings.parse:
        if (wait := waiting.get(target.name)) is not None:
            look.notes.append(f"the last run of {target.name} failed; the next one comes in {wait:.0f} s")
            continue
        try:
            parsing = wiring.targets.parsing(target, "sensor")
            is_behind = parsing.is_behind()
            in_the_way = () if is_behind else parsing.in_the_way()
        except HeadraceError as error:
            look.troubles.append(f"{target.name}: {error}")
            continue
        look.followed.append(target.name)
        look.notes += (f"{target.name}: {note}" for note in in_the_way)
        if is_behind:
            look.behind.append(target.name)
        elif not in_the_way:
            up_to_date.append(target.table)
    if up_to_date:
        look.notes.append(f"{', '.join(up_to_date)}: nothing is missing that the lake table has")
    return look


def _open_run(instance: dg.DagsterInstance, job: str) -> str | None:
    opened = instance.get_run_records(dg.RunsFilter(job_name=job, statuses=list(OPEN)), limit=1)
    if not opened or time() - opened[0].create_timestamp.timestamp() >= _LONGEST.total_seconds():
        return None
    run = opened[0].dagster_run
    return f"run {run.run_id} follows {run.tags.get(FOLLOWS_TAG, 'all targets').replace(',', ', ')}"


def _waiting(instance: dg.DagsterInstance, job: str, names: Sequence[str]) -> dict[str, float]:
    """The targets that failed lately, each with the seconds until it is tried again."""
    failures = dg.RunsFilter(job_name=job, statuses=[dg.DagsterRunStatus.FAILURE])
    pause = _AFTER_A_FAILURE.total_seconds()
    waiting: dict[str, float] = {}
    newest_killed: dict[str, dg.RunRecord] = {}
    """By target: the newest of the runs that were killed."""
    for record in instance.get_run_records(failures, limit=_MOST_FAILED_RUNS):
        tags = record.dagster_run.tags
        if FAILED_TARGETS_TAG in tags:
            _wait_longer(waiting, tags[FAILED_TARGETS_TAG].split(","), record)
            continue
        # A run that was killed names no target that failed. A host may have ended it, so that the next run comes at
        # once. Where that one is killed, too, however long it worked, its targets wait, because any of them may be
        # the reason.
        for name in (tags.get(FOLLOWS_TAG) or ",".join(names)).split(","):
            newest = newest_killed.setdefault(name, record)
            if newest is not record and _began(newest) - (record.end_time or 0) < pause:
                _wait_longer(waiting, [name], newest)
    return waiting


def _wait_longer(waiting: dict[str, float], names: Iterable[str], failed: dg.RunRecord) -> None:
    """Let these targets wait after the end of the failed run, as long as a part of this wait is left."""
    wait = _AFTER_A_FAILURE.total_seconds() - (time() - (failed.end_time or 0))
    if wait > 0:
        for name in names:
            waiting[name] = max(wait, waiting.get(name, 0.0))


def _began(record: dg.RunRecord) -> float:
    return record.create_timestamp.timestamp()
