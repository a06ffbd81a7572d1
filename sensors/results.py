"""The answer that Dagster expects of a sensor's tick, made from the turn that a duty returns."""

import re
from collections.abc import Callable, Sequence
from typing import Final

import dagster as dg

from headrace.assets.names import partitions_name
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.duties.fleet.sensor_turn import Turn
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.settings.model import Settings
from headrace.resources.instance import KnownInstance

_BAR = " | "
_MOST_SAID: Final = 160
"""Characters of a sentence that a cursor keeps: Dagster copies the cursor into the row of each tick."""
_RUN_ID: Final = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


def failing_by_sentence(turn: Callable[[], Turn]) -> Turn:
    """Call `turn`, and return its result. A tick that fails for a known reason then fails with its sentence only:
    Dagster prints the whole stack and that of each cause, twice for each tick, so that a mistyped name of a
    stream would fill the terminal with pages every five seconds.
    """
    try:
        return turn()
    except HeadraceError as error:
        raise error.with_traceback(None) from None


def state_of_cursor(cursor: str | None) -> str | None:
    """The sensor's memory (a JSON object) in the cursor, without the sentence before it; None where there is none."""
    text = cursor or ""
    # The first bar: ids in the state, such as those of KCL's workers, may have further ones. The sentence has none.
    state = text if text.startswith("{") else text.partition(_BAR)[2]
    return state if state.startswith("{") else None


def with_sentence(state: str | None, sentence: str) -> str:
    """The cursor for Dagster to keep: the sentence of the tick, and then the sensor's memory. Dagster's page of a
    sensor shows the cursor of each tick, and the sentence of a tick only after a click. So the sentence stands
    before the state, without the sensor's name, which is above it, and with the ids of runs as short as Dagster
    shows them: of a long cursor the page shows only the first and the last words.
    """
    _, colon, said = sentence.partition(": ")
    said = _RUN_ID.sub(r"\1", " ".join((said if colon else sentence).replace("|", "/").split()))
    if len(said) > _MOST_SAID:
        said = f"{said[: _MOST_SAID - 1].rstrip()}…"
    return f"{said}{_BAR}{state}" if state else said


def result(
    context: dg.SensorEvaluationContext,
    instance: KnownInstance,
    settings: Settings,
    turn: Turn,
    run_requests: Sequence[dg.RunRequest] = (),
) -> dg.SensorResult:
    """The tick's result for Dagster. Dagster takes run requests or a skip reason, not both: a tick without a run
    request shows its sentence as skip reason.
    """
    if turn.alarm is not None:
        # Dagster keeps what a sensor logs with its tick; a skip reason alone looks like a tick without anything to do.
        context.log.error(turn.alarm)
    name = partitions_name(settings)
    # The leader's sensor adds all keys; another deployment's workers add those of their own leases.
    missing = instance.missing_partitions(name, map(partition_of, turn.partitions))
    cursor = with_sentence(turn.cursor, turn.sentence)
    partitions = [dg.DynamicPartitionsDefinition(name=name).build_add_request(missing)] if missing else []
    if run_requests:
        return dg.SensorResult(
            run_requests=run_requests, cursor=cursor, dynamic_partitions_requests=partitions
        )
    return dg.SensorResult(skip_reason=turn.sentence, cursor=cursor, dynamic_partitions_requests=partitions)
