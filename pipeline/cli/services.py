"""Processes that `headrace dev` and `headrace demo` start, and how they are stopped: with all that they started."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pipeline
from pipeline.errors import BadSetting, HeadraceError, Unreachable

HOST = "127.0.0.1"  # whoever reaches Dagster's UI may run code
ROOT = Path(pipeline.__file__).parents[1]
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CLEAN_STOP = 20.0
"""Seconds for a run to end its wave and let go of its shards."""
_LOOK_EVERY = 0.1
_UI_STARTS_WITHIN = 120.0
"""Seconds. Ten on an idle machine."""

_WORKSPACE = """\
# Written by headrace at each start. The working directory comes first on the path: a folder that happens to be
# called pipeline, where the command was given, is not ours.
load_from:
  - python_module:
      module_name: pipeline.definitions
      location_name: headrace
      working_directory: {root}
"""


class Group:
    """A child in a process group of its own: a Ctrl-C at the terminal reaches us only, and we stop it in order."""

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None, log: Path | None = None
    ) -> None:
        self.log = log
        with (log or Path(os.devnull)).open("ab") as out:
            where: dict[str, Any] = {} if log is None else {"stdout": out, "stderr": subprocess.STDOUT}
            self._process = subprocess.Popen(
                command, env=dict(env), cwd=cwd, stdin=subprocess.PIPE, start_new_session=True, **where
            )

    @property
    def code(self) -> int | None:
        """What it ended with; None while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        return self._process.wait()

    def stop(self, within: float = _CLEAN_STOP) -> None:
        """Asked, then told, then killed: nothing of the group is left."""
        self._signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(within)
        for last_word in (signal.SIGTERM, signal.SIGKILL):
            self._signal(last_word)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(2)
            if self._is_gone(2.0):
                break
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _is_gone(self, within: float) -> bool:
        """The first process is reaped; what it left behind may take a moment."""
        until = time.monotonic() + within
        while self._signal(0) and time.monotonic() < until:
            time.sleep(_LOOK_EVERY)
        return not self._signal(0)

    def _signal(self, number: int) -> bool:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        return True


# --- signals ------------------------------------------------------------------------------------------------


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """SIGTERM and a closed terminal end the block as Ctrl-C does, so that what it started is stopped."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with _answered_by(interrupt):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """A second Ctrl-C while things are being stopped would leave them running."""
    with _answered_by(signal.SIG_IGN):
        yield


@contextmanager
def _answered_by(handler: Any) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in _STOPPING}
    try:
        yield
    finally:
        for number, its in before.items():
            signal.signal(number, its)


# --- Dagster ------------------------------------------------------------------------------------------------


def environment(base: Mapping[str, str], config: Path, dagster_home: Path) -> dict[str, str]:
    """What Dagster and its runs start with, beyond what they inherit: these settings, our packages, Java."""
    env = dict(base)
    env["DAGSTER_HOME"] = str(dagster_home)
    env["HEADRACE_CONFIG"] = str(config.resolve())
    env["DAGSTER_DISABLE_TELEMETRY"] = "yes"
    # A code server imports what this process would, installed or not.
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), env.get("PYTHONPATH"))))
    found = Path(sys.prefix, "java_home")  # by `make setup`
    if "JAVA_HOME" not in env and found.exists():
        env["JAVA_HOME"] = found.read_text(encoding="utf-8").strip()
    return env


def prepare_dagster_home(home: Path) -> Path:
    """The folder with the instance's file, as shipped, where it has none; the workspace's file is written anew."""
    home.mkdir(parents=True, exist_ok=True)
    instance = home / "dagster.yaml"
    if not instance.exists():
        # In a wheel it lies in the package, in a checkout beside it.
        shipped = next((f for f in (ROOT / "pipeline/dagster.yaml", ROOT / "dagster.yaml") if f.exists()), None)
        if shipped is None:
            raise BadSetting(f"{instance} is missing and none was shipped: put Headrace's dagster.yaml there")
        shutil.copyfile(shipped, instance)
    workspace = home / "workspace.yaml"
    workspace.write_text(_WORKSPACE.format(root=json.dumps(str(ROOT))), encoding="utf-8")
    return workspace


def dagster_command(workspace: Path, port: int) -> list[str]:
    return [sys.executable, "-m", "dagster", "dev", "-w", str(workspace), "-h", HOST, "-p", str(port)]


def wait_for_ui(dagster: Group, port: int) -> Iterator[float]:
    """Yields the seconds that have passed, about one at a time, until the UI answers."""
    began = time.monotonic()
    where = f"; its log: {dagster.log}" if dagster.log else ""
    while not _answers(port):
        passed = time.monotonic() - began
        if dagster.code is not None:
            raise HeadraceError(f"Dagster ended with code {dagster.code} before its UI was up{where}")
        if passed > _UI_STARTS_WITHIN:
            raise Unreachable(f"Dagster's UI didn't answer on port {port} for {passed:.0f} s{where}")
        yield passed
        time.sleep(1)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", "/server_info")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


# --- Spark --------------------------------------------------------------------------------------------------


@contextmanager
def spark_of_its_own(folder: Path) -> Iterator[Path]:
    """Where the local Connect server of this deployment is found; whoever started it, it is stopped at the end.

    One for each deployment, because a server keeps the credentials of the process that started it.
    """
    from pipeline.lake.session import DISCOVERY

    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)  # it holds the server's token
    before = os.environ.get(DISCOVERY)
    os.environ[DISCOVERY] = str(folder / "connect.json")
    try:
        yield folder
    finally:
        with undisturbed():
            stop_spark(folder)
        if before is None:
            del os.environ[DISCOVERY]
        else:
            os.environ[DISCOVERY] = before


def stop_spark(folder: Path) -> None:
    """The server itself, by what PySpark wrote of it: also one that hadn't finished starting."""
    from pipeline.lake.session import stop_local_server

    pids = [int(file.read_text(encoding="utf-8")) for file in folder.glob("spark-*.pid")]
    stop_local_server()
    for pid in filter(_is_spark, pids):
        _end(pid)


def _is_spark(pid: int) -> bool:
    """A file that outlived its server may name a process of somebody else by now."""
    said = subprocess.run(
        ["ps", "-ww", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False
    )
    return "SparkConnectServer" in said.stdout


def _end(pid: int) -> None:
    until = time.monotonic() + _CLEAN_STOP
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        while time.monotonic() < until:
            os.kill(pid, 0)
            time.sleep(_LOOK_EVERY)
        os.kill(pid, signal.SIGKILL)
