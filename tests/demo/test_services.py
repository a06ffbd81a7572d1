"""The processes that `headrace dev` and `headrace demo` start are stopped together with their own children; the
user's files stay."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.cli import main
from headrace.pipeline.cli.beside import own_spark, services
from headrace.pipeline.cli.beside.holding import LOCK
from headrace.pipeline.lake.spark.server import key as server_key
from headrace.pipeline.lake.spark.server.process import CLASS, CONF, PID
from headrace.pipeline.lake.spark.server.users import users_of
from headrace.pipeline.lake.spark.session import DISCOVERY

STUBBORN = """
import os, signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); \
print(1, flush=True); signal.pause()"], stdout=subprocess.PIPE)
child.stdout.readline()
print("ready", child.pid, flush=True)
try:
    signal.pause()
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.parametrize(
    "ours", [pytest.param(signal.default_int_handler, marks=pytest.mark.slow), signal.SIG_IGN]
)
def test_a_process_group_is_stopped_with_the_children_of_its_first_process(tmp_path: Path, ours: Any):
    """That holds also for a command that a script started in the background, which ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, ours)
    try:
        _stop_a_stubborn_group(tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)


def _stop_a_stubborn_group(tmp_path: Path) -> None:
    log = tmp_path / "log"
    group = services.Group([sys.executable, "-c", STUBBORN], env=os.environ, log=log)
    while not log.read_text(encoding="utf-8").startswith("ready"):
        assert group.code is None
    grandchild = int(log.read_text(encoding="utf-8").split()[1])
    group.stop()
    assert group.code == 7
    with pytest.raises(ProcessLookupError):
        os.kill(grandchild, 0)


IMPORTING = "print('begun', flush=True); import time; time.sleep(600)"


@pytest.mark.parametrize(("is_starting", "has_traceback"), [(True, False), (False, True)])
def test_processes_that_still_import_are_stopped_without_a_traceback(
    tmp_path: Path, *, is_starting: bool, has_traceback: bool
):
    log = tmp_path / "log"
    group = services.Group([sys.executable, "-c", IMPORTING], env=os.environ, log=log)
    while "begun" not in log.read_text(encoding="utf-8"):
        assert group.code is None
    group.stop(is_starting=is_starting)
    assert group.code is not None
    # The other case shows that an interrupt would have printed one.
    assert ("Traceback" in log.read_text()) == has_traceback


DAGSTER = """
import os, signal, subprocess, sys
CODE_SERVER = "import signal\\ntry: print(1, flush=True); signal.pause()\\nexcept KeyboardInterrupt: open('ended', 'w').close()"
DAEMON = "import os, sys, time; print(1, flush=True); sys.stdin.read(); time.sleep(0.3); "\\
    "print('the tick', 'failed' if os.path.exists('ended') else 'succeeded', file=sys.stderr)"
here = {"stdout": subprocess.PIPE, "stdin": subprocess.PIPE}
server = subprocess.Popen([sys.executable, "-c", CODE_SERVER], **here)
# Dagster's daemon captures interrupts, and ends when `dagster dev` tells it to.
daemon = subprocess.Popen([sys.executable, "-c", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); " + DAEMON, "dagster._daemon run"], **here)
server.stdout.readline(), daemon.stdout.readline()
print("ready", flush=True)
try:
    signal.pause()
except KeyboardInterrupt:
    daemon.communicate()
    server.wait()
"""


def test_the_code_server_of_a_dagster_lives_until_the_ticks_of_its_daemon_have_ended(tmp_path: Path):
    """Else each tick that has just begun would fail, and print a stack."""
    log = tmp_path / "log"
    group = services.Group([sys.executable, "-c", DAGSTER], env=os.environ, cwd=tmp_path, log=log)
    while "ready" not in log.read_text(encoding="utf-8"):
        assert group.code is None, log.read_text(encoding="utf-8")
    group.stop()
    assert group.code == 0
    assert "the tick succeeded" in log.read_text(encoding="utf-8")
    assert (tmp_path / "ended").exists()


def test_a_process_group_can_be_stopped_twice(tmp_path: Path):
    group = services.Group([sys.executable, "-c", "pass"], env=os.environ, log=tmp_path / "log")
    group.wait()
    group.stop()
    group.stop()
    assert group.code == 0


def test_a_new_dagster_home_gets_the_shipped_dagster_yaml_and_an_existing_one_keeps_its_own(tmp_path: Path):
    workspace = services.prepare_dagster_home(tmp_path / "home")
    assert "module_name: headrace.pipeline.definitions" in workspace.read_text(encoding="utf-8")
    instance = tmp_path / "home" / "dagster.yaml"
    assert instance.read_bytes() == (services.ROOT / "dagster.yaml").read_bytes()
    instance.write_text("mine: true\n", encoding="utf-8")
    services.prepare_dagster_home(tmp_path / "home")
    assert instance.read_text(encoding="utf-8") == "mine: true\n"


def test_dagster_gets_the_full_path_of_the_settings_and_finds_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "java_home").write_text("/jvm/17\n", encoding="utf-8")
    env = services.environment({"PYTHONPATH": "mine"}, Path("h.yaml"), tmp_path / "home")
    assert env["HEADRACE_CONFIG"] == str(tmp_path / "h.yaml")
    assert env["JAVA_HOME"] == "/jvm/17"
    assert env["PYTHONPATH"].split(os.pathsep) == [str(services.ROOT), "mine"]
    assert services.environment({"JAVA_HOME": "/mine"}, Path("h.yaml"), tmp_path)["JAVA_HOME"] == "/mine"


def test_a_port_in_use_is_reported_before_a_process_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    Path("h.yaml").write_text("{application: my-app, streams: [{name: s}]}", encoding="utf-8")
    with socket.socket() as taken:
        taken.bind((services.HOST, 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["dev", "--config", "h.yaml", "--port", port]) == 2
    assert f"port {port} is taken" in capsys.readouterr().err
    assert [file.name for file in Path(".dagster").iterdir()] == [LOCK]


def test_the_spark_server_of_a_deployment_is_passed_to_children_and_used_until_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(DISCOVERY, "/of/another/project/connect.json")
    settings = tmp_path / "headrace.yaml"
    settings.touch()
    with own_spark.spark_of_its_own(tmp_path / "dagster", settings) as folder:
        assert os.environ[DISCOVERY] == str(folder / "connect.json")
        key = server_key.read(folder)
        assert key is not None
        assert (key.settings, key.dagster_home) == (str(settings), str(tmp_path / "dagster"))
        assert [(user.name, user.pid) for user in users_of(folder)] == [("headrace dev", os.getpid())]
        # A server that ended long ago, and whose process id now belongs to this process.
        (folder / "server.pid").write_text(str(os.getpid()), encoding="utf-8")
    assert os.environ[DISCOVERY] == "/of/another/project/connect.json"
    assert users_of(folder) == ()
    assert not (folder / "server.pid").exists()


USING = (
    "import signal, sys; from pathlib import Path; from headrace.pipeline.lake.spark.server.users import use; "
    "use(Path(sys.argv[1]), 'headrace consume'); print(1, flush=True); signal.pause()"
)


@pytest.mark.parametrize(
    ("lives", "is_used", "is_told"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_a_long_stop_is_told_of_where_the_server_ends_and_writes_its_java_classes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    lives: bool,
    is_used: bool,
    is_told: bool,
):
    monkeypatch.delenv(DISCOVERY, raising=False)
    with ExitStack() as processes:
        with own_spark.spark_of_its_own(tmp_path / "dagster") as folder:
            like_a_server = ["--class", CLASS, "--properties-file", str(folder / CONF)]
            server = processes.enter_context(
                _running("print(1, flush=True); import time; time.sleep(600)", *like_a_server)
            )
            if lives:
                (folder / PID).write_text(str(server.pid), encoding="utf-8")
            if is_used:
                processes.enter_context(_running(USING, str(folder)))
            (folder / "classes.txt").write_text(str(tmp_path / "begun"), encoding="utf-8")
        assert ("writes down its Java classes" in capsys.readouterr().err) == is_told
        assert (server.poll() is not None) == (lives and not is_used)


@contextmanager
def _running(program: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_two_projects_have_servers_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(DISCOVERY, raising=False)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "headrace.yaml").touch()
    with (
        own_spark.spark_of_its_own(tmp_path / "a" / ".dagster", tmp_path / "a" / "headrace.yaml") as one,
        own_spark.spark_of_its_own(tmp_path / "b" / ".dagster", tmp_path / "b" / "headrace.yaml") as other,
    ):
        assert one != other
        monkeypatch.delenv(DISCOVERY)
        services.join_spark(tmp_path / "a" / "headrace.yaml")
        assert os.environ[DISCOVERY] == str(one / "connect.json")
        monkeypatch.setenv(DISCOVERY, str(other / "connect.json"))
    monkeypatch.delenv(DISCOVERY, raising=False)
