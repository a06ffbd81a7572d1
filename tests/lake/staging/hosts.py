"""Hosts as folders with files of /proc and /sys as on real machines, and a server of a container's metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

CGROUP = "sys/fs/cgroup"

EC2 = {
    "proc/stat": """\
cpu  1122453 579 170361 1016276 7355 0 3500 1675 0 0
cpu0 494879 286 72384 589383 1995 0 854 808 0 0
cpu1 627574 292 97976 426892 5360 0 2645 866 0 0
intr 131452012 0 9 0 0 0 0 0 0 1
ctxt 230012345
btime 1763690400
processes 51234
procs_running 2
procs_blocked 0
""",
    f"{CGROUP}/cgroup.controllers": "cpuset cpu io memory hugetlb pids rdma misc\n",
    f"{CGROUP}/cpu.stat": "usage_usec 13010000000\nuser_usec 11230000000\nsystem_usec 1780000000\n",
    f"{CGROUP}/cpuset.cpus.effective": "0-1\n",
}
"""Amazon Linux 2023. The root of the cgroups has no cpu.max."""

POD = {
    **EC2,
    f"{CGROUP}/cpu.stat": """\
usage_usec 52000000
user_usec 41000000
system_usec 11000000
core_sched.force_idle_usec 0
nr_periods 4120
nr_throttled 12
throttled_usec 310412
nr_bursts 0
burst_usec 0
""",
    f"{CGROUP}/cpu.max": "150000 100000\n",
    f"{CGROUP}/cpuset.cpus.effective": "0-3\n",
}
"""A pod with limits.cpu: 1500m."""

OLD_POD = {
    "proc/stat": EC2["proc/stat"],
    f"{CGROUP}/memory/memory.limit_in_bytes": "2147483648\n",
    f"{CGROUP}/cpu/cpuacct.usage": "52000000000\n",
    f"{CGROUP}/cpu/cpu.cfs_quota_us": "50000\n",
    f"{CGROUP}/cpu/cpu.cfs_period_us": "100000\n",
    f"{CGROUP}/cpuset/cpuset.effective_cpus": "0-4,6,8-10\n",
}
"""Version 1; cpu and cpuacct are one mount."""

ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
ens5\t00000000\t0101A8C0\t0003\t0\t0\t512\t00000000\t0\t0\t0
ens5\t0001A8C0\t00000000\t0001\t0\t0\t512\t00FFFFFF\t0\t0\t0
"""


def net_dev(interface: str, *, received: int, sent: int) -> str:
    return f"""\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 3086923311  929067    0    0    0     0          0         0 3086923311  929067    0    0    0     0       0          0
{interface:>6}: {received} 442771    0    0    0     0          0         0 {sent}  179620    0    0    0     0       0          0
"""


def a_host(folder: Path, files: Mapping[str, str], **changed: str) -> Path:
    """Make a host. `changed` replaces files by the end of their names, with _ for . and /, such as cpu_max="max
    100000"."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(next((new for end, new in changed.items() if _ends(name, end)), text))
    return folder


def _ends(name: str, end: str) -> bool:
    return name.replace(".", "_").replace("/", "_").endswith(end)


@dataclass
class Container:
    """ECS's metadata of one container in a task of two, as the agent's V4 endpoint answers."""

    uri: str = ""
    own: int = 1_000_000_000
    system: int = 500_000_000_000
    earlier_own: int = 900_000_000
    earlier_system: int = 498_000_000_000
    task_cores: float | None = 0.5
    shares: tuple[int, int] = (128, 128)
    asked: list[str] = field(default_factory=list)
    broken: str | None = None
    """This text is answered instead of every document."""
    status: int = 200

    def document(self, path: str) -> Any:
        me, other = "cd189a933e5849daa93386466019ab50-2495160603", "cd189a933e5849daa93386466019ab50-0"
        if path.endswith("/stats"):
            return {
                "read": "2026-11-21T06:30:00.123456789Z",
                "preread": "2026-11-21T06:29:59.123456789Z",
                "cpu_stats": {
                    "cpu_usage": {
                        "total_usage": self.own,
                        "usage_in_kernelmode": 10,
                        "usage_in_usermode": 20,
                    },
                    "system_cpu_usage": self.system,
                    "online_cpus": 2,
                    "throttling_data": {"periods": 0, "throttled_periods": 0, "throttled_time": 0},
                },
                "precpu_stats": {
                    "cpu_usage": {"total_usage": self.earlier_own},
                    "system_cpu_usage": self.earlier_system,
                    "online_cpus": 2,
                },
            }
        if path.endswith("/task"):
            containers = [
                {"DockerId": name, "Name": name[-4:], "Limits": {"CPU": share, "Memory": 512}}
                for name, share in zip((me, other), self.shares, strict=True)
            ]
            task = {"Cluster": "default", "Containers": containers}
            return task if self.task_cores is None else {**task, "Limits": {"CPU": self.task_cores}}
        return {"DockerId": me, "Name": "worker", "Limits": {"CPU": self.shares[0], "Memory": 512}}


@contextmanager
def ecs(container: Container) -> Iterator[Container]:
    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            container.asked.append(self.path)
            body = container.broken or json.dumps(container.document(self.path))
            self.send_response(container.status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name for it
            """Log nothing in tests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Agent) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        container.uri = f"http://127.0.0.1:{server.server_port}/v4/cd189a933e5849daa93386466019ab50"
        try:
            yield container
        finally:
            server.shutdown()
            thread.join()
