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
from pipeline.lake.session import DISCOVERY, discovery_in

HOST = "127.0.0.1"  # whoever reaches Dagster's UI may run code
ROOT = Path(pipeline.__file__).parents[1]
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CLEAN_STOP = 60.0
"""Seconds for runs to let go of their shards and for Dagster to end: a few, where nothing else keeps the machine busy."""
_LAST_WORD = 5.0
_LOOK_EVERY = 0.1
_UI_STARTS_WITHIN = 120.0
"""Seconds. Ten on an idle machine."""

_WORKSPACE = """\
# Written by headrace at each start.
load_from:
  - python_module:
      module_name: pipeline.definitions
      location_name: headrace
      working_directory: {root}
"""


class Group:
    """A child in a process group of its own: a Ctrl-C at the terminal reaches us only, and we stop it in order."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        log: Path | None = None,
    ) -> None:
        self.log = log
        with (log or Path(os.devnull)).open("ab") as out:
            where: dict[str, Any] = {} if log is None else {"stdout": out, "stderr": subprocess.STDOUT}
            with _heeding_ctrl_c():
                self._process = subprocess.Popen(
                    command, env=dict(env), cwd=cwd, stdin=subprocess.PIPE, start_new_session=True, **where
                )

    @property
    def code(self) -> int | None:
        """What it ended with; None while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        return self._process.wait()

    def stop(self) -> None:
        """The child is asked and given time; whatever is left of its group is told, then killed."""
        with undisturbed():
            self._signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_CLEAN_STOP)
            for last_word in (signal.SIGTERM, signal.SIGKILL):
                if not self._signal(last_word) or self._is_gone(_LAST_WORD):
                    break
            if self._process.stdin is not None:
                self._process.stdin.close()

    def _is_gone(self, within: float) -> bool:
        until = time.monotonic() + within
        while self._signal(0) and time.monotonic() < until:
            self._process.poll()  # reaped, it is gone from its group
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
def _heeding_ctrl_c() -> Iterator[None]:
    """What is started in the background of a script ignores Ctrl-C, and so would its children, which are stopped by it."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


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
    # A code server imports what this process would, installed or not, and nothing from the folder it is started in.
    env["PYTHONSAFEPATH"] = "1"
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), env.get("PYTHONPATH"))))
    found = Path(sys.prefix, "java_home")  # by `make setup`
    if "JAVA_HOME" not in env and found.exists():
        env["JAVA_HOME"] = found.read_text(encoding="utf-8").strip()
    return env


def dagster_home(config: Path) -> Path:
    """DAGSTER_HOME as the user has it, else a folder beside the settings."""
    return Path(os.environ.get("DAGSTER_HOME") or config.resolve().parent / ".dagster").resolve()


def prepare_dagster_home(home: Path) -> Path:
    """The folder with the instance's file, as shipped, where it has none; the workspace's file is written anew."""
    home.mkdir(parents=True, exist_ok=True)
    instance = home / "dagster.yaml"
    if not instance.exists():
        # In a wheel it lies in the package, in a checkout beside it.
        shipped = next(
            (f for f in (ROOT / "pipeline/dagster.yaml", ROOT / "dagster.yaml") if f.exists()), None
        )
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
def spark_of_its_own(dagster: Path) -> Iterator[None]:
    """The local Connect server of one deployment; whichever run started it, it is stopped at the end.

    Not the one that a user's processes share, because a server keeps the credentials it was started with.
    """
    folder = discovery_in(dagster).parent
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)  # it holds the server's token
    before = os.environ.get(DISCOVERY)
    os.environ[DISCOVERY] = str(discovery_in(dagster))
    try:
        yield
    finally:
        with undisturbed():
            _stop_spark(folder)
        if before is None:
            del os.environ[DISCOVERY]
        else:
            os.environ[DISCOVERY] = before


def _stop_spark(folder: Path) -> None:
    """By what Spark's own script wrote, so that a server which hadn't finished starting is found too."""
    for file in folder.glob("spark-*.pid"):
        pid = int(file.read_text(encoding="utf-8"))
        if _is_spark(pid):
            _end(pid)
        file.unlink()
    (folder / "connect.json").unlink(missing_ok=True)


def _is_spark(pid: int) -> bool:
    """A file that outlived its server may name a process of somebody else by now."""
    command = ["ps", "-ww", "-p", str(pid), "-o", "command="]
    return "SparkConnectServer" in subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _end(pid: int) -> None:
    until = time.monotonic() + _CLEAN_STOP
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        while time.monotonic() < until:
            os.kill(pid, 0)
            time.sleep(_LOOK_EVERY)
        os.kill(pid, signal.SIGKILL)
