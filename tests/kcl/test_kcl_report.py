"""The metrics of a worker in its row."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.leases.worker import Metrics, Worker
from headrace.pipeline.core.ledger.batch import HostLoad
from headrace.pipeline.kcl import metrics
from headrace.pipeline.kcl.network import MIB, Traffic, rate, traffic, utilisation
from headrace.pipeline.kcl.report import cpu_of, is_due, is_outdated, plan_report

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def a_load(cpu: float | None, *, host: str = "a", seconds: float = 10, **network: float) -> HostLoad:
    return HostLoad(host, seconds * SECOND, cpu, **network)


def a_row(*percents: float, age: float = 30, **more: object) -> Worker:
    return Worker(
        "w1",
        stats={"C": percents, **dict.fromkeys(more, (5.0,))},
        ranges={"C": (80,)},
        measured_by="cpu of 1 host",
        measured_at=NOW - age * SECOND,
    )


def cpu(found: Metrics) -> tuple[float, ...]:
    return found.stats["C"]


def test_a_first_report_begins_the_list():
    assert plan_report(None, [a_load(12.5)], NOW + SECOND / 3, most=80) == Metrics(
        {"C": (12.5,)}, {"C": (80,)}, "cpu of 1 host", NOW
    )


def test_the_average_weights_hosts_equally_and_measurements_of_a_host_by_their_time():
    loads = [a_load(100, seconds=1), a_load(0, seconds=3), a_load(75, host="b", seconds=100)]
    found = plan_report(Worker("w1"), loads, NOW, most=100)
    assert cpu(found) == (50.0,)
    assert found.measured_by == "cpu of 2 hosts"


def test_averages_have_six_places_and_halves_are_rounded_up():
    assert cpu(plan_report(None, [a_load(100 / 3)], NOW, most=100)) == (33.333333,)
    assert cpu(plan_report(None, [a_load(0.0000005)], NOW, most=100)) == (0.000001,)


def test_the_list_grows_at_its_end_and_keeps_ten_values():
    nine = plan_report(a_row(*range(1, 10)), [a_load(50)], NOW, most=100)
    assert cpu(nine) == (1, 2, 3, 4, 5, 6, 7, 8, 9, 50)
    ten = plan_report(a_row(*range(10)), [a_load(50)], NOW, most=100)
    assert cpu(ten) == (1, 2, 3, 4, 5, 6, 7, 8, 9, 50)


def test_a_host_that_could_not_be_measured_is_left_out():
    assert cpu(plan_report(None, [a_load(None), a_load(40, host="b")], NOW, most=100)) == (40.0,)
    assert cpu(plan_report(None, [a_load(None), a_load(40)], NOW, most=100)) == (40.0,)


def test_if_no_host_could_be_measured_the_row_says_so_and_the_worker_counts_as_failing():
    found = plan_report(a_row(5.0), [a_load(None)], NOW, most=100)
    assert cpu(found) == (5.0, -1.0)
    assert metrics.is_failing(found.stats, found.ranges)


def test_every_report_makes_a_row_that_is_valid_for_kcl():
    found = plan_report(a_row(5.0), [a_load(90, received=1, sent=2)], NOW, most=80, network=100)
    assert metrics.is_valid(NOW, found.stats, found.ranges)
    assert not metrics.measures_nothing(found.stats, found.ranges)


def test_a_list_that_is_outdated_or_was_written_by_kcl_is_begun_anew():
    assert cpu(plan_report(a_row(90.0, age=181), [a_load(5)], NOW, most=100)) == (5.0,)
    kcls = Worker("w1", stats={"C": (90.0,)}, ranges={"C": (100,)}, measured_by=None)
    assert cpu(plan_report(kcls, [a_load(5)], NOW, most=100)) == (5.0,)


def test_network_traffic_is_reported_only_if_the_bandwidth_is_known():
    loads = [a_load(10, received=25, sent=5), a_load(10, host="b", received=75, sent=15)]
    assert plan_report(None, loads, NOW, most=80).stats.keys() == {"C"}
    found = plan_report(None, loads, NOW, most=80, network=200)
    assert found.stats == {"C": (10.0,), "NI": (25.0,), "NO": (5.0,)}
    assert found.ranges == {"C": (80,), "NI": (80,), "NO": (80,)}


def test_traffic_above_the_bandwidth_counts_as_all_of_it_and_an_unknown_rate_as_failed():
    found = plan_report(None, [a_load(10, received=500)], NOW, most=100, network=200)
    assert (found.stats["NI"], found.stats["NO"]) == ((100.0,), (-1.0,))


def test_metrics_that_are_no_longer_measured_are_removed_from_the_row():
    assert plan_report(a_row(5.0, NI=1), [a_load(6)], NOW, most=100).stats == {"C": (5.0, 6.0)}


@pytest.mark.parametrize(
    ("age", "due"), [(0, False), (29, False), (30, True), (3600, True), (-1, True), (-3600, True)]
)
def test_a_row_gets_a_new_value_every_30_seconds(age: float, due: bool):  # noqa: FBT001 - a case
    assert is_due(a_row(5.0, age=age), NOW) is due


def test_a_row_that_never_got_a_value_is_due():
    assert is_due(None, NOW)
    assert is_due(Worker("w1"), NOW)


def test_metrics_are_outdated_after_three_minutes_and_kcls_metrics_at_once():
    assert not is_outdated(a_row(5.0, age=180), NOW)
    assert is_outdated(a_row(5.0, age=181), NOW)
    assert not is_outdated(a_row(5.0, age=-60), NOW)
    assert not is_outdated(Worker("w1"), NOW)
    assert is_outdated(Worker("w1", stats={"C": (5.0,)}), NOW)


@given(
    st.lists(
        st.builds(
            a_load,
            st.none() | st.floats(0, 100),
            host=st.sampled_from("abc"),
            seconds=st.floats(2, 120),
        ),
        min_size=1,
    )
)
def test_an_average_lies_between_the_measured_values(loads: list[HostLoad]):
    (found,) = cpu(plan_report(None, loads, NOW, most=100))
    values = [load.cpu for load in loads if load.cpu is not None]
    if not values:
        assert found == -1.0
    else:
        assert min(values) - 1e-6 <= found <= max(values) + 1e-6


NET = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 11 2 0 0 0 0 0 0 12 2 0 0 0 0 0 0
  eth0:12937255852  442771    0    0    0     0          0         0 17541131  179620    0    0    0     0       0          0
"""


def test_traffic_is_in_the_first_and_the_ninth_column_of_proc_net_dev():
    """There may be no space between the interface's name and the first number."""
    assert traffic(NET, "eth0") == Traffic(12937255852, 17541131)
    assert traffic(NET, "lo") == Traffic(11, 12)
    with pytest.raises(ValueError, match="eth1"):
        traffic(NET, "eth1")


def test_a_rate_is_in_mebibytes_a_second_and_as_a_share_of_the_bandwidth():
    assert rate(MIB, 21 * MIB, 10 * SECOND) == 2.0
    assert utilisation(2.0, 8.0) == 25.0
    assert utilisation(9.0, 8.0) == 100.0


def test_a_workers_cpu_is_smoothed_over_the_values_of_its_row():
    assert cpu_of([a_row(40, 80, 40)], NOW) == {"w1": 50.0}


@pytest.mark.parametrize(
    "row",
    [
        Worker("w1", last_update=NOW, instance="dagster-1"),
        a_row(95, age=181),
        a_row(95, -1),
        replace(a_row(95), stats={"M": (95.0,)}, ranges={"M": (80,)}),
        replace(a_row(95), measured_at=None, last_update=NOW - 61 * SECOND),
        replace(a_row(95), measured_at=None, last_update=NOW, instance="dagster-1"),
    ],
    ids=["unmeasured", "stale", "failing", "no CPU", "KCL's, stale", "left by a KCL worker of that id"],
)
def test_a_worker_whose_row_is_stale_failing_or_left_by_kcl_has_no_cpu(row):
    assert cpu_of([row], NOW) == {}


def test_the_cpu_of_a_kcl_worker_counts_while_its_rows_time_stamp_is_recent():
    row = replace(a_row(95), measured_at=None, last_update=NOW - 59 * SECOND)
    assert cpu_of([row], NOW) == {"w1": 95.0}
