"""From which sources a task finds how busy its CPUs are: files as on real machines, and a server with ECS's
metadata."""

import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.lake.staging import cpu_counters
from headrace.pipeline.lake.staging.cpu_counters import (
    ECS_VARIABLE,
    Cgroup1,
    Cgroup2,
    Ecs,
    ProcStat,
    find_source,
)
from tests.lake.staging.hosts import CGROUP, EC2, OLD_POD, POD, Container, a_host, ecs

SECOND = timedelta(seconds=1)


@pytest.fixture
def container() -> Iterator[Container]:
    with ecs(Container()) as served:
        yield served


def percent_of(source: cpu_counters.CpuCounters[Any], change: Any, *, span: timedelta = SECOND) -> float:
    before = source.read()
    change()
    return source.percent(before, source.read(), span)


def test_a_machine_is_measured_by_proc_stat(tmp_path: Path):
    source = find_source(a_host(tmp_path, EC2), {})
    assert isinstance(source, ProcStat)
    busier = EC2["proc/stat"].replace("1122453 579 170361 1016276", "1122513 579 170381 1016396")
    assert percent_of(source, lambda: (tmp_path / "proc/stat").write_text(busier)) == 40.0


def test_a_container_is_measured_against_its_quota(tmp_path: Path):
    source = find_source(a_host(tmp_path, POD), {})
    assert isinstance(source, Cgroup2)
    after = POD[f"{CGROUP}/cpu.stat"].replace("52000000", "52750000")
    assert percent_of(source, lambda: (tmp_path / CGROUP / "cpu.stat").write_text(after)) == 50.0


def test_a_container_without_a_quota_is_measured_against_its_cpus(tmp_path: Path):
    source = find_source(a_host(tmp_path, POD, cpu_max="max 100000\n"), {})
    assert source is not None
    after = POD[f"{CGROUP}/cpu.stat"].replace("52000000", "53000000")
    assert percent_of(source, lambda: (tmp_path / CGROUP / "cpu.stat").write_text(after)) == 25.0


def test_a_container_with_a_quota_needs_no_list_of_cpus(tmp_path: Path):
    without = {name: text for name, text in POD.items() if "cpuset" not in name}
    assert isinstance(find_source(a_host(tmp_path, without), {}), Cgroup2)


@pytest.mark.parametrize("mounted", ["cpu", "cpuacct"])
def test_cgroups_of_version_1_count_nanoseconds_wherever_they_are_mounted(tmp_path: Path, mounted: str):
    usage = f"{CGROUP}/{mounted}/cpuacct.usage"
    files = {name: text for name, text in OLD_POD.items() if not name.endswith("usage")}
    source = find_source(a_host(tmp_path, {**files, usage: "52000000000\n"}), {})
    assert isinstance(source, Cgroup1)
    assert percent_of(source, lambda: (tmp_path / usage).write_text("52200000000\n")) == 40.0


def test_cgroups_of_version_1_without_a_quota_are_measured_against_their_cpus(tmp_path: Path):
    source = find_source(a_host(tmp_path, OLD_POD, quota_us="-1\n"), {})
    assert source is not None
    usage = tmp_path / CGROUP / "cpu/cpuacct.usage"
    assert percent_of(source, lambda: usage.write_text("52900000000\n")) == 10.0


def test_a_limit_that_changes_while_a_task_runs_counts_from_then_on(tmp_path: Path):
    source = Cgroup2(a_host(tmp_path, POD))

    def raise_the_limit() -> None:
        a_host(tmp_path, POD, cpu_max="300000 100000\n", cpu_stat="usage_usec 52750000\n")

    assert percent_of(source, raise_the_limit) == 25.0


@pytest.mark.parametrize(
    ("files", "changed", "found"),
    [
        (POD, {"cpu_max": "some 100000\n"}, ProcStat),
        (POD, {"cpu_max": ""}, ProcStat),
        (POD, {"cpu_stat": "user_usec 12\nusage_usec 52000000\n"}, ProcStat),
        (POD, {"cpu_max": "max 100000\n", "effective": "0-x\n"}, ProcStat),
        (OLD_POD, {"quota_us": "fast\n"}, ProcStat),
        (OLD_POD, {"period_us": "0\n"}, ProcStat),
        (EC2, {"proc_stat": "intr 131452012 0 9\n"}, type(None)),
        (EC2, {"proc_stat": ""}, type(None)),
        ({}, {}, type(None)),
    ],
)
def test_a_source_that_isnt_understood_is_left_out_for_the_next_one(
    tmp_path: Path, files: dict[str, str], changed: dict[str, str], found: type[object]
):
    assert isinstance(find_source(a_host(tmp_path, files, **changed), {}), found)


def test_an_ecs_container_is_measured_against_its_share_of_the_task(container: Container, tmp_path: Path):
    """The container has half of a task with half a CPU, so it may use a quarter of a core."""
    source = find_source(a_host(tmp_path, POD), {ECS_VARIABLE: container.uri})
    assert isinstance(source, Ecs)

    def use_a_tenth_of_the_machine() -> None:
        container.own += 100_000_000
        container.system += 2_000_000_000

    assert percent_of(source, use_a_tenth_of_the_machine) == pytest.approx(40.0)


def test_a_container_of_a_task_without_a_limit_may_use_all_cpus(container: Container):
    container.task_cores = None

    def use_a_tenth_of_the_machine() -> None:
        container.own += 100_000_000
        container.system += 2_000_000_000

    assert percent_of(Ecs(container.uri), use_a_tenth_of_the_machine) == pytest.approx(10.0)


def test_limits_are_requested_once(container: Container):
    source = Ecs(container.uri)
    for _ in range(3):
        source.read()
    assert [path.rsplit("/", 1)[-1] for path in container.asked].count("task") == 1
    assert len(container.asked) == 5


def test_if_the_document_hasnt_changed_the_agents_own_two_readings_are_used(container: Container):
    """The agent renews the document from time to time. KCL's formula would call a system busy whose counters stood
    still."""
    assert percent_of(Ecs(container.uri), lambda: None) == pytest.approx(40.0)


def test_a_container_with_a_single_reading_counts_as_idle(container: Container):
    container.earlier_own = container.earlier_system = 0
    assert percent_of(Ecs(container.uri), lambda: None) == 0.0


@pytest.mark.parametrize(
    "broken", ["", "{", "[]", "null", '{"cpu_stats": 7}', '{"cpu_stats": {"cpu_usage": {}}}']
)
def test_if_metadata_isnt_understood_the_containers_files_are_used(
    container: Container, tmp_path: Path, broken: str
):
    container.broken = broken or " "
    assert isinstance(find_source(a_host(tmp_path, POD), {ECS_VARIABLE: container.uri}), Cgroup2)


def test_if_metadata_is_refused_the_containers_files_are_used(container: Container, tmp_path: Path):
    container.status = 500
    assert isinstance(find_source(a_host(tmp_path, POD), {ECS_VARIABLE: container.uri}), Cgroup2)


def test_metadata_that_dont_answer_delay_a_task_only_briefly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cpu_counters, "_ANSWER_IN", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        uri = f"http://127.0.0.1:{deaf.getsockname()[1]}/v4/x"
        assert isinstance(find_source(a_host(tmp_path, POD), {ECS_VARIABLE: uri}), Cgroup2)


def test_metadata_are_requested_without_a_proxy(container: Container, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert Ecs(container.uri).read().online == 2


@pytest.mark.parametrize("uri", ["", "/", "file:///etc/hostname", "http://", "not an address"])
def test_if_the_address_of_metadata_is_invalid_the_containers_files_are_used(tmp_path: Path, uri: str):
    assert isinstance(find_source(a_host(tmp_path, POD), {ECS_VARIABLE: uri}), Cgroup2)


def test_the_machine_that_runs_this_can_be_measured():
    source = find_source(Path("/"), {})
    assert source is not None
    before = source.read()
    assert 0 <= source.percent(before, source.read(), SECOND) <= 100
