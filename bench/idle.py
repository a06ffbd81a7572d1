"""What does a deployment without traffic cost? CPU seconds a minute, memory and growth of DAGSTER_HOME, with 5 and 200 shards.

The baseline is the same Dagster with two sensors that do nothing, at the same interval, at the same time, on the same
machine: all three deployments run side by side, and are measured in one window. The exit code is 1 if Headrace's code server takes
more than three times the baseline's CPU (the goal is two). Linux only, because the benchmark reads /proc.

    python bench/idle.py            a window of three minutes, about five minutes in all
    python bench/idle.py --quick    a window of two minutes, about four minutes in all; six beside other work
"""

from __future__ import annotations

import argparse
import os
import socket
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.pipeline.cli.beside import services
from headrace.pipeline.cli.beside.own_spark import spark_of_its_own
from headrace.pipeline.lake.spark.session import DISCOVERY
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.resources.runs import all_runs_in

SHARDS = (5, 200)
MOST = 3.0
"""The most CPU that Headrace's code server may take, as a multiple of the code server with empty sensors."""
BASELINE = "empty sensors"
SETTLE = 30.0
"""Seconds without a run before the window begins."""
_NOT_GROWING = {".db-wal", ".db-shm", ".log"}
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

_EMPTY = """
import dagster as dg


def empty(name):
    @dg.sensor(name=name, minimum_interval_seconds=4, default_status=dg.DefaultSensorStatus.RUNNING)
    def tick(context):
        return dg.SkipReason("nothing to do")

    return tick


defs = dg.Definitions(sensors=[empty("one"), empty("two")])
"""
_SETTINGS = """
application: idle-{shards}
streams: [{{name: idle-{shards}}}]
workers: [{{id: idle-1}}]
landing: {{home: lake}}
times: {{idle: 1s}}
aws: {{region: {region}, endpoint: '{endpoint}'}}
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one kind of process during one measurement."""

    cpu: float
    """CPU seconds a minute."""
    memory: float
    """MB at the end of the measurement."""


@dataclass(frozen=True, slots=True)
class Measured:
    costs: Mapping[str, Cost]
    """By the kind of process."""
    growth: int
    """Bytes by which DAGSTER_HOME grew, without the logs of SQLite's writes, which it uses again and again."""
    rows: Mapping[str, int]
    """Rows that each table of Dagster's databases gained, by the names of the database and the table."""


@dataclass(frozen=True, slots=True)
class Deployment:
    home: Path
    dagster: services.Group
    port: int
    """Of Dagster's UI."""

    def processes(self) -> dict[str, list[int]]:
        """Kind of process -> ids, for all processes that this deployment's `dagster dev` has started."""
        found: dict[str, list[int]] = {}
        for pid in _tree(self.dagster.pid):
            if (kind := _kind(pid)) is not None:
                found.setdefault(kind, []).append(pid)
        return found

    @property
    def size(self) -> int:
        """Bytes of DAGSTER_HOME, without Spark's files there, the log of this benchmark, and what SQLite hasn't moved into its
        databases yet: up to 4 MB each, which don't grow further."""
        for database in self.databases:
            with closing(sqlite3.connect(database)) as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        files = (f for f in self.home.rglob("*") if "spark" not in f.relative_to(self.home).parts)
        return sum(f.stat().st_size for f in files if f.is_file() and f.suffix not in _NOT_GROWING)

    @property
    def databases(self) -> list[Path]:
        return sorted(self.home.rglob("*.db"))

    def rows(self) -> Counter[str]:
        rows: Counter[str] = Counter()
        for database in self.databases:
            # The events of each run have a database of their own.
            name = database.stem if database.stem in {"index", "runs", "schedules"} else "a run's"
            with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
                for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
                    (count,) = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()
                    rows[f"{name}: {table}"] += count
        return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a window of two minutes")
    found, minutes = measure(120.0 if parser.parse_args().quick else 180.0)
    worst = max(report(found, minutes).values())
    print(f"at most {worst:.1f} times the code server with {BASELINE}; allowed: {MOST:.1f}")
    return int(worst > MOST)


def measure(window: float) -> tuple[dict[str, Measured], float]:
    """What each deployment cost in the same window, by the name of the deployment; and the minutes that the window took."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-idle-")))
        aws = stack.enter_context(local_aws("--transition", "0"))
        ours = {
            f"{shards} shards": stack.enter_context(_ours(folder / f"ours-{shards}", aws, shards))
            for shards in sorted(SHARDS, reverse=True)
        }
        # The baseline comes last: it starts while the first runs of the others wait for Spark.
        everything = {BASELINE: stack.enter_context(_empty(folder / "empty")), **ours}
        _wait_for_rest(ours.values())
        before = {name: (_cpu(each), each.size, each.rows()) for name, each in everything.items()}
        began = time.monotonic()
        time.sleep(window)
        minutes = (time.monotonic() - began) / 60
        return {
            name: Measured(
                _costs(each, before[name][0], minutes),
                each.size - before[name][1],
                each.rows() - before[name][2],
            )
            for name, each in everything.items()
        }, minutes


def report(found: Mapping[str, Measured], minutes: float) -> dict[str, float]:
    """Print all numbers. The CPU of each of Headrace's code servers, as a multiple of the baseline's."""
    print(f"\nat rest, {minutes:.1f} minutes")
    for name, measured in found.items():
        for kind, cost in sorted(measured.costs.items()):
            print(f"  {name:>13} {kind:<15} {cost.cpu:5.1f} CPU s a minute, {cost.memory:4.0f} MB")
        growth = measured.growth / minutes * 60 / 1e6
        print(f"  {name:>13} {'DAGSTER_HOME':<15} grows {growth:.1f} MB an hour")
        for table, count in sorted(measured.rows.items(), key=lambda item: -item[1]):
            print(f"  {name:>13} {'':<15} {count / minutes * 60:,.0f} rows an hour in {table}")
    servers = {name: measured.costs["code server"].cpu for name, measured in found.items()}
    ratios = {name: cpu / servers[BASELINE] for name, cpu in servers.items() if name != BASELINE}
    for name, ratio in ratios.items():
        print(f"  code server with {name}: {ratio:.1f} times the one with {BASELINE}")
    return ratios


@contextmanager
def _ours(folder: Path, aws: LocalAws, shards: int) -> Iterator[Deployment]:
    aws.client("kinesis").create_stream(StreamName=f"idle-{shards}", ShardCount=shards)
    settings = _SETTINGS.format(shards=shards, region=aws.region, endpoint=aws.endpoint)
    with deployment(folder, aws, settings) as started:
        yield started


@contextmanager
def deployment(folder: Path, aws: LocalAws, settings: str) -> Iterator[Deployment]:
    """A deployment with these settings, in a folder that is made."""
    folder.mkdir()
    config = folder / "headrace.yaml"
    config.write_text(settings)
    home = folder / "dagster"
    env = {**os.environ, **aws.environment}
    workspace = services.prepare_dagster_home(home)
    with spark_of_its_own(home):
        env[DISCOVERY] = os.environ[DISCOVERY]
        with _dagster(home, workspace, services.environment(env, config, home)) as started:
            yield started


@contextmanager
def _empty(folder: Path) -> Iterator[Deployment]:
    home = folder / "dagster"
    services.prepare_dagster_home(home)
    module = folder / "empty_sensors.py"
    module.write_text(_EMPTY)
    workspace = home / "workspace.yaml"
    workspace.write_text(f"load_from:\n  - python_file: {module}\n")
    with _dagster(home, workspace, services.environment(os.environ, module, home)) as started:
        yield started


@contextmanager
def _dagster(home: Path, workspace: Path, env: Mapping[str, str]) -> Iterator[Deployment]:
    port = _free_port()
    command = services.dagster_command(workspace, port)
    dagster = services.Group(command, env=env, log=home / "dagster.log")
    try:
        for _ in services.wait_for_ui(dagster, port):
            continue
        yield Deployment(home, dagster, port)
    finally:
        dagster.stop()


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind((services.HOST, 0))
        return int(asked.getsockname()[1])


def _wait_for_rest(deployments: Collection[Deployment], *, within: float = 600.0) -> None:
    """Wait until a first run of each deployment has looked at every shard and has ended."""
    until, quiet_since = time.monotonic() + within, None
    with ExitStack() as stack:
        logs = [each.dagster.log for each in deployments]
        all_runs = [stack.enter_context(all_runs_in(each.home)) for each in deployments]
        while quiet_since is None or time.monotonic() - quiet_since < SETTLE:
            if time.monotonic() > until:
                raise TimeoutError(
                    f"no rest within {within:.0f} s; Dagster's logs: {', '.join(map(str, logs))}"
                )
            time.sleep(1.0)
            if any(runs.instance.get_runs_count() == 0 or runs.at_work() for runs in all_runs):
                quiet_since = None
            else:
                quiet_since = quiet_since or time.monotonic()


def _costs(each: Deployment, was: Mapping[int, float], minutes: float) -> dict[str, Cost]:
    return {
        kind: Cost(
            sum(_cpu_of(pid) - was.get(pid, 0.0) for pid in pids) / minutes,
            sum(_memory_of(pid) for pid in pids) / 1e6,
        )
        for kind, pids in each.processes().items()
    }


def _cpu(each: Deployment) -> dict[int, float]:
    return {pid: _cpu_of(pid) for pids in each.processes().values() for pid in pids}


# --- /proc --------------------------------------------------------------------------------------------------


def _kind(pid: int) -> str | None:
    """The kind of a process, by its command line."""
    words = _read(pid, "cmdline").split("\0")
    if "grpc" in words:
        return "code server"
    if "code-server" in words:
        return "server's parent"
    if any(word.endswith(("dagster_webserver", "dagster-webserver")) for word in words):
        return "UI"
    if any("daemon" in word for word in words) and "dagster._daemon" in " ".join(words):
        return "daemon"
    return None


def _tree(root: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    todo = [root]
    while todo:
        pid = todo.pop()
        yield pid
        todo += children.get(pid, [])


def _cpu_of(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def _memory_of(pid: int) -> float:
    fields = _stat(pid)
    return float(int(fields[21]) * _PAGE) if fields else 0.0


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent, ... Empty for a process that has ended."""
    return _read(pid, "stat").rpartition(")")[2].split()


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
