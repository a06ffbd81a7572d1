"""The load that a task reports of its host, from a reading at its beginning and one at its end."""

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.ledger.batch import HostLoad
from headrace.pipeline.kcl.network import MIB
from headrace.pipeline.lake.staging.cpu_counters import find_source
from headrace.pipeline.lake.staging.host_load import Gauge, host_gauge
from tests.lake.samples import StandingClock
from tests.lake.stage_script import ROOMY, a_batch, a_page, a_spec, script
from tests.lake.staging.hosts import ROUTES, a_host, net_dev


@dataclass
class Host:
    """A host with one core, whose CPU time the test sets."""

    root: Path
    clock: StandingClock = field(default_factory=StandingClock)
    used: float = 0.0
    reads: int = 0
    broken: bool = False

    def read(self) -> float:
        self.reads += 1
        if self.broken:
            raise OSError("gone")
        return self.used

    def percent(self, before: float, now: float, span: timedelta) -> float:
        return (now - before) / span.total_seconds() * 100

    def spend(self, seconds: float, *, busy: float) -> None:
        self.clock.at += timedelta(seconds=seconds)
        self.used += seconds * busy

    def gauge(self) -> Gauge:
        return Gauge("host-1", self, root=self.root, monotonic=self.clock.monotonic)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def a_task(host: Host, gauge: Gauge, seconds: float, *, busy: float) -> list[tuple[float, float | None]]:
    gauge.begin()
    host.spend(seconds, busy=busy)
    return [(load.span.total_seconds(), load.cpu) for load in gauge.end()]


def test_a_task_reports_how_busy_its_host_was_while_the_task_ran(host: Host):
    gauge = host.gauge()
    gauge.begin()
    host.spend(10, busy=0.25)
    assert gauge.end() == (HostLoad("host-1", timedelta(seconds=10), 25.0),)
    assert host.reads == 2


def test_the_time_before_a_task_counts_too(host: Host):
    """A worker that is busy for one second in ten must not look busy."""
    gauge = host.gauge()
    assert a_task(host, gauge, 2, busy=1.0) == [(2, 100.0)]
    host.spend(8, busy=0.0)
    assert a_task(host, gauge, 2, busy=1.0) == [(10, 20.0)]


def test_short_tasks_are_reported_together_once_they_took_two_seconds(host: Host):
    gauge = host.gauge()
    assert a_task(host, gauge, 0.5, busy=1.0) == []
    assert a_task(host, gauge, 1.25, busy=1.0) == []
    assert a_task(host, gauge, 0.25, busy=0.0) == [(2, 87.5)]


def test_a_long_task_is_reported_completely(host: Host):
    assert a_task(host, host.gauge(), 119, busy=0.5) == [(119, 50.0)]


def test_a_reading_from_long_ago_is_not_used(host: Host):
    gauge = host.gauge()
    a_task(host, gauge, 2, busy=1.0)
    host.spend(61, busy=0.0)
    assert a_task(host, gauge, 2, busy=1.0) == [(2, 100.0)]


def test_a_failed_reading_is_reported_and_the_next_one_covers_its_time(host: Host):
    gauge = host.gauge()
    gauge.begin()
    host.broken = True
    host.spend(5, busy=0.5)
    assert gauge.end() == (HostLoad("host-1", timedelta(seconds=5), None),)
    host.broken = False
    assert a_task(host, gauge, 5, busy=1.0) == [(10, 75.0)]


def test_a_source_that_failed_at_first_is_reported_once_it_works(host: Host):
    gauge = host.gauge()
    host.broken = True
    gauge.begin()
    host.broken = False
    host.spend(5, busy=0.5)
    assert [load.cpu for load in gauge.end()] == [None]
    assert a_task(host, gauge, 5, busy=1.0) == [(5, 100.0)]


def test_an_impossible_percentage_counts_as_failed(host: Host):
    """After a restart counters begin anew."""
    gauge = host.gauge()
    host.used = 1_000
    gauge.begin()
    host.used = 0
    host.spend(5, busy=0.5)
    assert [load.cpu for load in gauge.end()] == [None]
    assert a_task(host, gauge, 5, busy=0.5) == [(5, 50.0)]


def test_impossible_counters_count_as_failed(tmp_path: Path):
    clock = StandingClock()
    root = a_host(tmp_path, {"proc/stat": "cpu  many 0 0 0 0\n"})
    gauge = Gauge("host-1", find_source(root, {}), root=root, monotonic=clock.monotonic)
    gauge.begin()
    a_host(root, {"proc/stat": "cpu  more 0 0 0 0\n"})
    clock.at += timedelta(seconds=10)
    assert [load.cpu for load in gauge.end()] == [None]


def test_a_host_that_cannot_be_measured_reports_no_load(tmp_path: Path):
    clock = StandingClock()
    gauge = Gauge("host-1", None, root=tmp_path, monotonic=clock.monotonic)
    gauge.begin()
    clock.at += timedelta(seconds=10)
    assert gauge.end() == ()


@pytest.mark.parametrize(
    ("interface", "files"),
    [("eth0", {}), ("eth0", {"proc/net/route": "Iface\n"}), ("ens5", {"proc/net/route": ROUTES})],
)
def test_traffic_is_that_of_the_interface_with_the_default_route(
    host: Host, interface: str, files: dict[str, str]
):
    a_host(host.root, {**files, "proc/net/dev": net_dev(interface, received=MIB, sent=7)})
    gauge = host.gauge()
    gauge.begin()
    host.spend(10, busy=0.0)
    a_host(host.root, {"proc/net/dev": net_dev(interface, received=21 * MIB, sent=5 * MIB + 7)})
    assert gauge.end() == (HostLoad("host-1", timedelta(seconds=10), 0.0, 2.0, 0.5),)


def test_eth0_comes_before_the_default_route(host: Host):
    both = ROUTES + "eth0\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    a_host(host.root, {"proc/net/route": both, "proc/net/dev": net_dev("eth0", received=0, sent=0)})
    gauge = host.gauge()
    gauge.begin()
    host.spend(10, busy=0.0)
    assert [load.received for load in gauge.end()] == [0.0]


@pytest.mark.parametrize(
    "text", ["", "eth0: 1 2", "eth0: many 2 3 4 5 6 7 8 9 10", "lo: 1 2 3 4 5 6 7 8 9 10"]
)
def test_traffic_that_cannot_be_read_is_unknown(host: Host, text: str):
    a_host(host.root, {"proc/net/dev": text})
    gauge = host.gauge()
    gauge.begin()
    host.spend(10, busy=0.0)
    assert [(load.cpu, load.received, load.sent) for load in gauge.end()] == [(0.0, None, None)]


def test_staging_measures_before_the_first_page_and_after_the_last_file(host: Host, tmp_path: Path):
    from headrace.pipeline.lake.staging.stage_task import stage_batches

    pages = script(
        s0=[
            a_page(1, behind=1),
            lambda: host.spend(30, busy=0.5),
            a_page(2, behind=1),
            lambda: host.spend(10, busy=0.1),
        ]
    )
    gauge = host.gauge()
    manifest = stage_batches(
        [a_batch()], pages, spec=a_spec(tmp_path / "files"), limits=ROOMY, threads=1, gauge=gauge
    )
    assert manifest.loads == (HostLoad("host-1", timedelta(seconds=40), 40.0),)
    assert host.reads == 2


def test_tasks_of_one_process_share_a_gauge():
    assert host_gauge() is host_gauge()
