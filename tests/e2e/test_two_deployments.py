"""One application, two deployments with a Dagster, a daemon and a worker each; one of them dies, or stops and
starts again."""

import os
import signal
from collections import Counter
from dataclasses import dataclass, field
from subprocess import Popen

import pytest
import yaml

from tests.e2e.app import ROOT, App
from tests.e2e.conftest import MakeApp
from tests.e2e.processes import Processes
from tests.eventually import eventually

pytestmark = pytest.mark.slow

TIMES = {
    "worker_tick": "5s",
    "leader_tick": "5s",
    "lease_duration": "15s",
    "launch_grace": "20s",
    "assignment": "5s",
    "dwell": "5s",
}


@dataclass
class Beside:
    """Another deployment of the same application: a worker and a Dagster of its own."""

    app: App
    worker: str = "w2"
    processes: Processes = field(init=False)

    def __post_init__(self) -> None:
        home = self.app.home / self.worker
        dagster_home = home / "dagster"
        dagster_home.mkdir(parents=True)
        (dagster_home / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
        config = home / "headrace.yaml"
        document = yaml.safe_load(self.app.config.read_text())
        config.write_text(yaml.safe_dump({**document, "workers": [{"id": self.worker}]}))
        self.processes = Processes(
            home,
            {
                **self.app.processes.variables,
                "HEADRACE_CONFIG": str(config),
                "DAGSTER_HOME": str(dagster_home),
            },
        )


def daemon(processes: Processes) -> Popen[str]:
    return processes.start("run", "-m", "tests.e2e.cut_definitions", program="dagster-daemon")


def owners(app: App) -> Counter[str | None]:
    return Counter(row.holder for row in app.leases.scan().leases if not row.has_ended)


def both_work(app: App) -> tuple[Beside, Popen[str]]:
    """Start both deployments, and wait until each holds half of the leases."""
    app.tick("leader")  # makes the tables; this process never ticks again, so its lock expires
    daemon(app.processes)
    beside = Beside(app)
    other = daemon(beside.processes)
    eventually(lambda: owners(app) == {"w1": 2, "w2": 2}, "each worker holds two leases", within=180)
    app.produce(40)
    all_has_landed(app)
    return beside, other


def all_has_landed(app: App) -> None:
    eventually(lambda: len(app.landed()) >= len(app.put), "every record that was put has landed", within=240)


def test_the_leases_of_a_killed_deployment_move_to_the_other(make_app: MakeApp):
    app = make_app(shards=4, times=TIMES)
    beside, other = both_work(app)
    try:
        os.killpg(other.pid, signal.SIGKILL)  # the deployment's daemon, its code server and its runs
        app.produce(40)
        eventually(
            lambda: owners(app) == {"w1": 4}, "the leases of the dead deployment are owned by w1", within=180
        )
        app.produce(40)
        all_has_landed(app)
        app.check()
    finally:
        beside.processes.close()


def test_a_worker_that_is_asked_to_stop_gives_up_its_leases_and_may_start_again(make_app: MakeApp):
    app = make_app(shards=4, times=TIMES)
    beside, _ = both_work(app)
    try:
        stopped = beside.processes.start("stop", "--worker", "w2", "--yes", program="headrace")
        assert stopped.wait(240) == 0, beside.processes.logs()
        app.produce(40)
        eventually(lambda: owners(app) == {"w1": 4}, "the other worker owns all leases", within=120)
        again = beside.processes.start("stop", "--cancel", "--worker", "w2", program="headrace")
        assert again.wait(60) == 0, beside.processes.logs()
        eventually(
            lambda: owners(app) == {"w1": 2, "w2": 2},
            "the worker owns its share of the leases again",
            within=180,
        )
        app.produce(40)
        all_has_landed(app)
        app.check()
    finally:
        beside.processes.close()
