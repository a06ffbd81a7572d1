"""The processes that `headrace dev` and `headrace demo` start. Each is stopped together with its own child
processes."""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import headrace
from headrace.pipeline.errors import BadSetting, HeadraceError, Unreachable
from headrace.pipeline.lake.files.private_files import make_folder

# Never a public address: a person who reaches Dagster's UI can run code.
HOST = "127.0.0.1"
ROOT = Path(headrace.__file__).parents[1]
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Seconds for runs to release their shards and for Dagster to end. An idle machine needs a few.
_CLEAN_STOP = 60.0
# Seconds that a process has to end after SIGTERM or SIGKILL.
_AFTER_SIGNAL = 5.0
_LOOK_EVERY = 0.1
_DAEMON, _WEBSERVER = "dagster._daemon run", "dagster_webserver"
"""Pieces of the command lines of Dagster's processes."""
# Seconds. An idle machine needs ten.
_UI_STARTS_WITHIN = 300.0

_WORKSPACE = """\
# Written by headrace at each start.
load_from:
  - python_module:
      module_name: headrace.pipeline.definitions
      location_name: headrace
      working_directory: {root}
"""


class Group:
    """A child process in a process group of its own.

    A Ctrl-C at the terminal reaches the foreground group only, which is this process; it then stops its
    groups in order.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        log: Path | None = None,
        relay: Sequence[str] | None = None,
    ) -> None:
        """`relay`: a command that gets what the processes of the group print, and prints it in their place. Without it and
        without a log they print for themselves."""
        self.log = log
        self._relay: subprocess.Popen[bytes] | None = None
        with (log or Path(os.devnull)).open("ab") as out:
            streams: dict[str, Any] = {} if log is None else {"stdout": out, "stderr": subprocess.STDOUT}
            env = dict(env)
            if relay is not None:
                # A process, because the others may outlive this one, and would fail where nobody reads what they print.
                self._relay = subprocess.Popen(relay, env=env, stdin=subprocess.PIPE, start_new_session=True)
                streams = {"stdout": self._relay.stdin, "stderr": subprocess.STDOUT}
                # What a hook of the user's prints is shown at once, as at a terminal.
                env.setdefault("PYTHONUNBUFFERED", "1")
            # A session of its own, and so a group of its own. Its standard input ends with this process,
            # even by SIGKILL.
            with _child_accepts_sigint():
                self._process = subprocess.Popen(
                    command, env=env, cwd=cwd, stdin=subprocess.PIPE, start_new_session=True, **streams
                )
        if self._relay is not None and self._relay.stdin is not None:
            # The relay ends with the last process that writes to it.
            self._relay.stdin.close()

    @property
    def pid(self) -> int:
        """The id of the child process, which is the id of its group, too."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The child's exit code; None while it runs."""
        return self._process.poll()

    @property
    def relay_pid(self) -> int | None:
        """The id of the process that prints what the group's processes print; None where there is none, or it has ended."""
        return self._relay.pid if self._relay is not None and self._relay.poll() is None else None

    @property
    def has_lost_relay(self) -> bool:
        return self._relay is not None and self.relay_pid is None

    def wait(self) -> int:
        code = self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        return code

    def stop(self, *, is_starting: bool = False) -> None:
        """Interrupt the group and give it time; then terminate and at last kill the processes that are left.

        `is_starting`: its processes may still import their packages, where an interrupt prints a traceback of Python's for
        each of them.
        """
        with undisturbed():
            # An interrupt first: Dagster then ends its runs, which release their shards. Once it has started, it takes
            # SIGTERM for the same.
            if is_starting:
                self._signal(signal.SIGTERM)
            else:
                _interrupt(self._process.pid)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_CLEAN_STOP)
            # The leader of the group may have ended and left children, which get the same two signals.
            for number in (signal.SIGTERM, signal.SIGKILL):
                if not self._signal(number) or self._is_gone(_AFTER_SIGNAL):
                    break
            # After the end: a child that reads the end of its input takes it for the death of this process.
            if self._process.stdin is not None:
                self._process.stdin.close()
            if self._relay is not None:
                # What they have printed at their end is shown before this process goes on.
                with suppress(subprocess.TimeoutExpired):
                    self._relay.wait(_AFTER_SIGNAL)

    def _is_gone(self, within: float) -> bool:
        until = time.monotonic() + within
        while self._signal(0) and time.monotonic() < until:
            # A child that ended stays in its group until its parent has asked for its exit code.
            self._process.poll()
            time.sleep(_LOOK_EVERY)
        # Signal 0 only asks whether a process of the group exists.
        return not self._signal(0)

    def _signal(self, number: int) -> bool:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        return True


def stop_orphans(group: int, of: Path) -> bool:
    """Stop a Dagster of this DAGSTER_HOME that outlived the process which started it. Returns whether there was one."""
    # Dagster's command line has the path of workspace.yaml, which lies in DAGSTER_HOME.
    if not any(str(of) in command for command in processes_of(group).values()):
        # The system may have given the number to another process since.
        return False
    _interrupt(group)
    _await(lambda: not processes_of(group), _CLEAN_STOP)
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    _await(lambda: not processes_of(group), _AFTER_SIGNAL)
    return True


def _interrupt(group: int) -> None:
    """Interrupt a process group. Where it is that of a Dagster at work, `dagster dev`, its first process, is interrupted
    before the others, and ends its daemon and its webserver by itself.

    The daemon may just begin ticks. If the code server ended before it, each of these ticks would fail, and print a stack.
    """
    if not _is_at_work(group):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGINT)
        return
    with suppress(ProcessLookupError):
        os.kill(group, signal.SIGINT)
    _await(lambda: not _is_at_work(group), _CLEAN_STOP)
    for process in processes_of(group).keys() - {group}:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGINT)


def _is_at_work(group: int) -> bool:
    """Whether the first process of this group is a `dagster dev` that lives, and its daemon or its webserver does, too."""
    processes = processes_of(group)
    children = [command for process, command in processes.items() if process != group]
    return len(children) < len(processes) and any(
        part in command for command in children for part in (_DAEMON, _WEBSERVER)
    )


def _await(is_over: Callable[[], bool], within: float) -> None:
    until = time.monotonic() + within
    while not is_over() and time.monotonic() < until:
        time.sleep(_LOOK_EVERY)


def processes_of(group: int) -> dict[int, str]:
    """The command lines of the living processes of a process group, by the processes' ids, without zombies (which ended and
    wait for their parent)."""
    shown = subprocess.run(
        # `ps` rather than /proc, so that it works on macOS too; -ww, because it cuts long lines at the
        # terminal's width.
        ["ps", "-A", "-ww", "-o", "pgid=", "-o", "stat=", "-o", "pid=", "-o", "command="],
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
    )
    lines = [line.split(maxsplit=3) for line in shown.stdout.splitlines()]
    return {
        int(line[2]): line[3]
        for line in lines
        if len(line) == 4 and line[0] == str(group) and not line[1].startswith("Z")
    }


# --- signals ------------------------------------------------------------------------------------------------


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP (a closed terminal) raise KeyboardInterrupt as Ctrl-C does, so that the block's
    `finally`s run."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with _on_signals(interrupt):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore signals: a second Ctrl-C while processes are being stopped would leave them running."""
    with _on_signals(signal.SIG_IGN):
        yield


@contextmanager
def _child_accepts_sigint() -> Iterator[None]:
    """Let a child be started with SIGINT's default action, by which Dagster's processes are stopped.

    A shell starts a background command (`headrace dev &`) with SIGINT ignored, and children inherit that.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _on_signals(handler: Any) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in _STOPPING}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


# --- Dagster ------------------------------------------------------------------------------------------------


def environment(base: Mapping[str, str], config: Path, dagster_home: Path) -> dict[str, str]:
    """The environment of Dagster and its runs: the given one, with these settings, our packages and Java."""
    env = dict(base)
    env["DAGSTER_HOME"] = str(dagster_home)
    env["HEADRACE_CONFIG"] = str(config.resolve())
    # Dagster would send facts about its use to its makers.
    env["DAGSTER_DISABLE_TELEMETRY"] = "yes"
    # The code server imports our packages also where they aren't installed, and nothing from the folder it is
    # started in.
    env["PYTHONSAFEPATH"] = "1"
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), env.get("PYTHONPATH"))))
    # `make setup` writes it.
    java_home = Path(sys.prefix, "java_home")
    if "JAVA_HOME" not in env and java_home.exists():
        env["JAVA_HOME"] = java_home.read_text(encoding="utf-8").strip()
    return env


def dagster_home(config: Path) -> Path:
    """The user's DAGSTER_HOME, else the folder .dagster beside the settings file."""
    return Path(os.environ.get("DAGSTER_HOME") or config.resolve().parent / ".dagster").resolve()


def prepare_dagster_home(home: Path, *, private: bool = True) -> Path:
    """Write workspace.yaml into DAGSTER_HOME, and the shipped dagster.yaml unless the user has one there."""
    make_folder(home, private=private)
    instance = home / "dagster.yaml"
    if not instance.exists():
        # A wheel has the file inside the package, a checkout has it beside the package.
        shipped = next(
            (f for f in (ROOT / "headrace/pipeline/dagster.yaml", ROOT / "dagster.yaml") if f.exists()), None
        )
        if shipped is None:
            raise BadSetting(
                f"{instance} is missing and this installation has no dagster.yaml to copy: "
                "put Headrace's dagster.yaml there"
            )
        shutil.copyfile(shipped, instance)
    workspace = home / "workspace.yaml"
    workspace.write_text(_WORKSPACE.format(root=json.dumps(str(ROOT))), encoding="utf-8")
    return workspace


def dagster_command(workspace: Path, port: int) -> list[str]:
    # `dg dev`, which Dagster advises, needs a project of Dagster's around it.
    quiet = ("-W", "ignore:Function `dev_command` is superseded")
    return [sys.executable, *quiet, "-m", "dagster", "dev", "-w", str(workspace), "-h", HOST, "-p", str(port)]


def relay_command() -> list[str]:
    return [sys.executable, "-m", "headrace.pipeline.cli.beside.dagster_output"]


def wait_for_ui(dagster: Group, port: int) -> Iterator[float]:
    """Yield the seconds that have passed, about once a second, until the UI answers."""
    began = time.monotonic()
    log = f"; its log: {dagster.log}" if dagster.log else ""
    while not _answers(port):
        passed = time.monotonic() - began
        if dagster.code is not None:
            raise HeadraceError(f"Dagster ended with code {dagster.code} before its UI was up{log}")
        if passed > _UI_STARTS_WITHIN:
            raise Unreachable(
                f"Dagster's UI didn't answer on port {port} for {passed:.0f} s, so Dagster was stopped; no record is lost. "
                f"Start it again, on a machine with less other work{log}"
            )
        yield passed
        time.sleep(1)


def is_port_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: else a port counts as taken for a minute after its last connection was closed.
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


def join_spark(config: Path) -> None:
    """Use the local Spark server of the project with these settings: the one of its `headrace dev`, `dagster
    dev` and other commands."""
    from headrace.pipeline.lake.spark.server.process import ADDRESS
    from headrace.pipeline.lake.spark.session import DISCOVERY, own_folder

    # Where the variable is set already, as by `headrace demo`, its server is the one to join.
    os.environ.setdefault(DISCOVERY, str(own_folder(settings=config) / ADDRESS))
