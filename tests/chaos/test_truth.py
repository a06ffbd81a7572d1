"""The judge of samples notices what is wrong, and accepts what may be late."""

import pytest

from tests.chaos.traffic import PutRecord
from tests.chaos.truth import NEVER, Landing, Sample, Told, Truth, lies

PERIOD = 90.0


def _truth(*times: tuple[float, float]) -> Truth:
    """By record: when it was put, and when it landed."""
    return Truth([Landing(PutRecord(f"r{put}", "shardId-0", 1, put), landed) for put, landed in times])


@pytest.mark.parametrize(
    ("lag", "told", "is_lie"),
    [
        pytest.param(0.0, Told.EXACTLY, True, id="nothing behind"),
        pytest.param(150.0, Told.EXACTLY, False, id="late within the period"),
        pytest.param(300.0, Told.EXACTLY, True, id="much more than is true"),
        pytest.param(60.0, Told.AT_MOST, True, id="a check that holds"),
        pytest.param(60.0, Told.AT_LEAST, False, id="a check that fails"),
        pytest.param(None, Told.EXACTLY, False, id="it isn't known"),
    ],
)
def test_a_lag_that_no_period_explains_is_a_lie(lag: float | None, told: Told, *, is_lie: bool):
    truth = _truth((1000.0, NEVER), (1150.0, 1160.0))
    sample = Sample("status", 1200.0, 1201.0, lag, told=told)
    assert bool(list(lies([sample], truth, {"status": PERIOD}))) is is_lie


def test_a_lag_may_be_told_for_a_while_after_everything_has_landed_and_not_for_long():
    truth = _truth((1000.0, 1200.0))
    soon, late = (Sample("status", at, at + 1, 200.0) for at in (1250.0, 1400.0))
    assert list(lies([soon], truth, {"status": PERIOD})) == []
    assert len(list(lies([late], truth, {"status": PERIOD}))) == 1


def test_an_alarm_is_a_lie_because_no_trouble_may_lose_a_record():
    sample = Sample("checks", 1000.0, 1000.0, None, ("no_gaps: a record is missing",))
    assert list(lies([sample], _truth(), {"checks": PERIOD})) == [
        "checks said at 1000: no_gaps: a record is missing"
    ]
