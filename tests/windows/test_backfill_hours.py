"""Which hours a backfill takes: those into which no more records come, by what the lake table states."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.core.ledger.arrivals import Window as Hours
from headrace.pipeline.core.shards.position import TRIM, Origin, Positions
from headrace.pipeline.errors import Unknown
from headrace.pipeline.ports.landing import TableState
from headrace.pipeline.windows.asking import by_time
from headrace.pipeline.windows.backfill import Backfilling, HoursOfPartition
from headrace.pipeline.windows.windows import WindowRequest
from tests.lake.samples import STREAM
from tests.typed.parsings import A, good
from tests.windows.windows import WindowBed

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
STATED = TableState(
    Positions({STREAM: Origin(TRIM, NOON)}), 1, origin_allowed=False, through={STREAM: NOON + 1.5 * HOUR}
)


def hour(number: int) -> HoursOfPartition:
    since = NOON + number * HOUR
    return HoursOfPartition(f"hour {number}", f"{number}", since, since + HOUR)


def backfilling(folder: Path, state: TableState = STATED) -> Backfilling:
    return Backfilling(windowing=WindowBed(folder).windowing(), landed=lambda: state)


def test_an_hour_that_the_lake_table_has_begun_and_not_completed_is_left_out(tmp_path: Path) -> None:
    with pytest.raises(Unknown) as told:
        backfilling(tmp_path).choose((hour(1), hour(2)), target=None, ports=None)
    assert str(told.value).startswith(
        "more records may come into 2 partitions (hour 1 to hour 2): the lake table is complete up to 2026-01-31 13:30:00 UTC. "
    )


def test_an_hour_before_the_first_record_is_told_beside_one_into_which_more_may_come(tmp_path: Path) -> None:
    with pytest.raises(Unknown) as told:
        backfilling(tmp_path).choose((hour(0), hour(1)), target=None, ports=None)
    assert str(told.value).startswith(
        "hour 0 has no record: no record has landed yet; more records may come into hour 1. Nothing was changed"
    )


def test_nothing_is_complete_where_the_lake_table_states_nothing(tmp_path: Path) -> None:
    silent = TableState(STATED.positions, 1, origin_allowed=False)
    with pytest.raises(Unknown, match="more records may come into hour 0: nothing states yet up to when"):
        backfilling(tmp_path, silent).choose((hour(0),), target=None, ports=None)


@pytest.mark.parametrize("purpose", [{"processor": "words"}, {"unpack": True}])
def test_a_backfill_of_copies_doesnt_take_a_window_that_was_made_for_something_else(
    tmp_path: Path, purpose: dict[str, Any]
) -> None:
    bed, hours = WindowBed(tmp_path), Hours(hour(0).since, hour(0).until)
    bed.land(A, {1: good(1)}, arrival=NOON + HOUR / 2)
    other = bed.windowing().create(WindowRequest(hours, how=by_time(hours, None), **purpose))
    copying = Backfilling(windowing=bed.windowing(), landed=lambda: STATED)
    first = copying.choose((hour(0),), target=None, ports=None).window
    assert first is not None
    assert first.id != other.id
    # The next run goes on with the window of the first one.
    assert copying.choose((hour(0),), target=None, ports=None).window == first
