"""A standalone cluster of Spark on loopback: a master and workers, each in processes of their own, from PySpark's package."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from headrace.pipeline.lake.spark.session import environment_of_jvm
from tests.eventually import eventually

_BIN = Path(pyspark.__file__).with_name("bin")
_SPARK_CLASS = _BIN / "spark-class"
SPARK_SUBMIT = _BIN / "spark-submit"
_DEPLOY = "org.apache.spark.deploy"
_EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass
class Cluster:
    """`master`: the URL for `spark.master` in the settings."""

    folder: Path
    master: str = ""
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, workers: int) -> None:
        self._start("master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", log="master")
        self.master = eventually(self._url, "the master has a port")
        for number in range(workers):
            self._start(
                *("worker.Worker", "--host", "127.0.0.1", "-c", "1", "-m", "2g", "--webui-port", "0"),
                *("-d", str(self.folder / f"worker-{number}"), self.master),
                log=f"worker-{number}",
            )
        eventually(
            lambda: self._log("master").count("Registering worker") == workers, "the workers are there"
        )

    def kill_executor(self) -> bool:
        """Kill the executor of one worker. False where no worker has one now."""
        groups = {process.pid for process in self._processes}
        command = ["ps", "-A", "-ww", "-o", "pid=", "-o", "pgid=", "-o", "command="]
        shown = subprocess.run(command, capture_output=True, text=True, check=True)
        for line in shown.stdout.splitlines():
            pid, group, words = line.split(maxsplit=2)
            if int(group) in groups and _EXECUTOR in words:
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
                    return True
        return False

    def kill_worker(self) -> None:
        """Kill the newest worker with its executors, as the loss of its host does."""
        process = self._processes.pop()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)

    def close(self) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)

    def _start(self, *words: str, log: str) -> None:
        with (self.folder / f"{log}.log").open("w") as file:
            self._processes.append(
                subprocess.Popen(
                    [str(_SPARK_CLASS), f"{_DEPLOY}.{words[0]}", *words[1:]],
                    # Without the folder of the tests: the executors know of the engine only what is shipped to them.
                    env={
                        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                        **environment_of_jvm(None),
                        "SPARK_LOCAL_IP": "127.0.0.1",
                    },
                    cwd=self.folder,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def _url(self) -> str | None:
        lines = self._log("master").splitlines()
        return next((line.rpartition(" ")[2] for line in lines if "Starting Spark master at" in line), None)

    def _log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()


@contextmanager
def cluster(folder: Path, *, workers: int) -> Iterator[Cluster]:
    started = Cluster(folder)
    try:
        started.start(workers)
        yield started
    finally:
        started.close()
