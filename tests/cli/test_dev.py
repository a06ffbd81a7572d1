"""How `headrace dev` ends, also without its terminal. A small program plays Dagster; everything else is real."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from dagster import DagsterEvent, DagsterInstance, DagsterRun, DagsterRunStatus

from headrace.pipeline.cli import main
from headrace.pipeline.cli.beside import services
from headrace.pipeline.cli.beside.holding import LOCK
from headrace.pipeline.cli.beside.own_spark import warmed
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.local.endpoint import LocalAws
from tests.eventually import eventually
from tests.ports import free_port

FAILED_TICK = Path(__file__).with_name("golden") / "failed-tick.log"
"""What Dagster prints of a tick that failed for a reason which Headrace knows (`beside/test_dagster_output.py`)."""
DAGSTER = f"""
import os, sys
print(open({str(FAILED_TICK)!r}).read(), flush=True)
from http.server import BaseHTTPRequestHandler, HTTPServer
class Ui(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *args):
        pass
with open("dagster", "w") as f:
    f.write(str(os.getpid()))
try:
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Ui).serve_forever()
except KeyboardInterrupt:
    # More than a pipe holds that nobody reads.
    print("Dagster ends\\n" * 20_000, flush=True)
    open("asked", "w").close()
"""
PARTS = ["dagster_webserver", "dagster._daemon run", "dagster api grpc"]
"""The program's command line contains those of Dagster's processes, by which `headrace dev` sees that they are
alive."""
HEADRACE = f"""
import sys
from headrace.pipeline.cli import main
from headrace.pipeline.cli.beside import services
services.dagster_command = lambda workspace, port: [sys.executable, "-c", {DAGSTER!r}, str(port), str(workspace), *{PARTS!r}]
sys.exit(main(["dev", "--config", "h.yaml", "--port", sys.argv[1]]))
"""


@pytest.fixture
def folder(tmp_path: Path, aws: LocalAws) -> Iterator[Path]:
    (tmp_path / "h.yaml").write_text(
        f"{{application: my-app, streams: [{{name: s}}], aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}, "
        "workers: [{id: w1, spark: {remote: 'sc://127.0.0.1:1'}}]}",  # with a remote Spark no local server is started
        encoding="utf-8",
    )
    yield tmp_path
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(the_dagster(tmp_path), signal.SIGKILL)


def the_dagster(folder: Path) -> int:
    """The process id of Dagster."""
    return int((folder / "dagster").read_text())


@contextmanager
def started(folder: Path, aws: LocalAws, output: int) -> Iterator["subprocess.Popen[bytes]"]:
    """A `headrace dev` that doesn't outlive the block, also where an assertion fails. The
    fixture `folder` ends its Dagster."""
    with subprocess.Popen(
        [sys.executable, "-c", HEADRACE, str(free_port())],
        cwd=folder,
        env={**os.environ, **aws.environment, "PYTHONPATH": str(services.ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    ) as headrace:
        os.close(output)
        try:
            yield headrace
        finally:
            headrace.kill()


def until(lines: Iterable[str], wanted: str) -> Iterator[str]:
    """The lines up to the first one that contains this text."""
    for line in lines:
        yield line
        if wanted in line:
            return
    raise AssertionError(f"the command ended without printing {wanted!r}")


@pytest.mark.parametrize(
    ("output", "number"),
    [
        pytest.param(os.openpty, signal.SIGHUP, marks=pytest.mark.slow, id="a closed terminal"),
        pytest.param(os.pipe, signal.SIGTERM, id="a pipe that nobody reads"),
    ],
)
def test_dagster_is_stopped_though_its_output_can_no_longer_be_written(
    folder: Path, aws: LocalAws, output: Callable[[], tuple[int, int]], number: int
):
    ours, theirs = output()
    with started(folder, aws, theirs) as headrace:
        with os.fdopen(ours, encoding="utf-8") as lines:
            told = list(until(lines, "UI at"))
        headrace.send_signal(number)
        code = headrace.wait()
    assert code == 0, told
    assert [line for line in told if "the sensor shop_leader failed: there is no stream orders" in line]
    assert "Traceback" not in "".join(told)
    assert (folder / "asked").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(the_dagster(folder), 0)


@pytest.fixture
def a_run(
    folder: Path, aws: LocalAws, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[DagsterInstance, DagsterRun]]:
    """A run at work in the Dagster of this folder. The coordination tables exist."""
    for variable, value in aws.environment.items():
        monkeypatch.setenv(variable, value)
    assert main(["tables", "create", "--config", str(folder / "h.yaml")]) == 0
    services.prepare_dagster_home(folder / ".dagster")
    with DagsterInstance.from_config(str(folder / ".dagster")) as instance:
        run = DagsterRun(job_name="app_consume", run_id="1" * 32, status=DagsterRunStatus.STARTED)
        yield instance, instance.add_run(run)


def test_headrace_dev_lets_a_run_end_by_itself_before_it_stops_dagster(
    folder: Path, aws: LocalAws, a_run: tuple[DagsterInstance, DagsterRun]
):
    """The run may have just begun, and have claimed no lease yet."""
    instance, run = a_run
    ours, theirs = os.pipe()
    with started(folder, aws, theirs) as headrace, os.fdopen(ours, encoding="utf-8") as lines:
        told = [*until(lines, "UI at")]
        headrace.send_signal(signal.SIGINT)
        told += until(lines, "held no open lease any more")
        assert not (folder / "asked").exists()
        instance.report_dagster_event(DagsterEvent("PIPELINE_SUCCESS", run.job_name), run.run_id)
        told += lines
        assert headrace.wait() == 0, told
    assert (folder / "asked").exists()
    assert "canceled" not in "".join(told)
    assert status(instance, run) is DagsterRunStatus.SUCCESS


def test_headrace_dev_serves_the_console_beside_dagster_and_tells_its_address(folder: Path, aws: LocalAws):
    assert main(["tables", "create", "--config", str(folder / "h.yaml")]) == 0
    ours, theirs = os.pipe()
    with started(folder, aws, theirs) as headrace, os.fdopen(ours, encoding="utf-8") as lines:
        told = [*until(lines, "UI at")]
        (console,) = re.findall(r"the console at (http://127\.0\.0\.1:\d+)", "".join(told))
        (dagster,) = re.findall(r"UI at (http://127\.0\.0\.1:\d+)", "".join(told))
        with urllib.request.urlopen(f"{console}/api/look", timeout=60) as answer:
            look = json.load(answer)
        assert (look["application"], look["dagster"]) == ("my-app", dagster)
        headrace.send_signal(signal.SIGTERM)
        told += lines
        assert headrace.wait() == 0, told


@pytest.mark.slow
def test_a_run_that_is_still_at_work_is_canceled_before_it_is_interrupted(
    folder: Path, aws: LocalAws, a_run: tuple[DagsterInstance, DagsterRun]
):
    """Otherwise Dagster calls the run failed, without a reason."""
    instance, run = a_run
    starting = instance.add_run(DagsterRun(job_name="j", run_id="2" * 32, status=DagsterRunStatus.STARTING))
    ours, theirs = os.pipe()
    with started(folder, aws, theirs) as headrace, os.fdopen(ours, encoding="utf-8") as lines:
        told = [*until(lines, "UI at")]
        headrace.send_signal(signal.SIGINT)
        told += until(lines, "held no open lease any more")
        headrace.send_signal(signal.SIGINT)
        told += lines
        assert headrace.wait() == 0, told
    assert "2 runs still at work: canceled" in "".join(told)
    assert (folder / "asked").exists()
    assert status(instance, run) is DagsterRunStatus.CANCELING, "the run itself reports that it is canceled"
    assert status(instance, starting) is DagsterRunStatus.CANCELED, "the run may report nothing"


def test_a_second_headrace_dev_on_the_same_dagster_home_is_refused_and_leaves_the_first_alone(
    folder: Path, aws: LocalAws, a_run: tuple[DagsterInstance, DagsterRun]
):
    instance, run = a_run
    ours, theirs = os.pipe()
    with started(folder, aws, theirs) as first, os.fdopen(ours, encoding="utf-8") as lines:
        told = [*until(lines, "UI at")]
        before = (folder / ".dagster" / LOCK).read_text()
        second_ours, second_theirs = os.pipe()
        with (
            started(folder, aws, second_theirs) as second,
            os.fdopen(second_ours, encoding="utf-8") as second_lines,
        ):
            refusal = "".join(second_lines)
            assert second.wait() == 2, refusal
        assert f"`headrace dev` (process {first.pid}, since 20" in refusal
        assert f"UI at {told[-1].split()[4]}" in refusal
        assert f"running on DAGSTER_HOME {folder / '.dagster'}" in refusal
        assert first.poll() is None
        assert status(instance, run) is DagsterRunStatus.STARTED
        assert not (folder / "asked").exists(), "the Dagster of the first one goes on"
        assert (folder / ".dagster" / LOCK).read_text() == before
        instance.report_dagster_event(DagsterEvent("PIPELINE_SUCCESS", run.job_name), run.run_id)
        first.send_signal(signal.SIGTERM)
        told += lines
        assert first.wait() == 0, told


def test_headrace_dev_stops_the_dagster_that_a_killed_headrace_dev_left_and_starts(
    folder: Path, aws: LocalAws
):
    first, left = killed(folder, aws)
    assert services.processes_of(left) != {}
    assert not (folder / "asked").exists()

    ours, theirs = os.pipe()
    with started(folder, aws, theirs) as second, os.fdopen(ours, encoding="utf-8") as lines:
        told = [*until(lines, "UI at")]
        assert f"(process {first}) was killed; the Dagster that it left running was stopped" in "".join(told)
        assert (folder / "asked").exists(), (
            "Dagster is stopped by an interrupt, as at the end of a `headrace dev` that wasn't killed"
        )
        # The system may be slow to forget an ended process whose parent was killed, so that its number still exists.
        assert services.processes_of(left) == {}
        second.send_signal(signal.SIGTERM)
        told += lines
        assert second.wait() == 0, told
    assert (folder / ".dagster" / LOCK).read_text() == ""


def killed(folder: Path, aws: LocalAws) -> tuple[int, int]:
    """The process ids of a `headrace dev` that ended by SIGKILL, and of its Dagster."""
    ours, theirs = os.pipe()
    with started(folder, aws, theirs) as headrace, os.fdopen(ours, encoding="utf-8") as lines:
        list(until(lines, "UI at"))
        headrace.kill()
        headrace.wait()
        return headrace.pid, the_dagster(folder)


def test_a_dagster_storage_that_cant_be_used_is_told_in_a_sentence_and_dagster_is_stopped_all_the_same(
    folder: Path, aws: LocalAws
):
    """As on a full disk. Each step of the end that looks into the storage fails."""
    (folder / ".dagster").mkdir()
    (folder / ".dagster" / "dagster.yaml").write_text("nonsense: 1\n")
    ours, theirs = os.pipe()
    with started(folder, aws, theirs) as headrace, os.fdopen(ours, encoding="utf-8") as lines:
        told = [*until(lines, "UI at")]
        headrace.send_signal(signal.SIGTERM)
        told += lines
        assert headrace.wait() == 0, told
    assert (folder / "asked").exists()
    assert not [line for line in told if "Traceback" in line]
    assert [line for line in told if f"Dagster's storage in {folder}/.dagster can't be used" in line]


def test_headrace_dev_fails_if_dagster_dies(folder: Path, aws: LocalAws):
    ours, theirs = os.pipe()
    with started(folder, aws, theirs) as headrace, os.fdopen(ours, encoding="utf-8") as lines:
        told = [*until(lines, "UI at")]
        os.kill(the_dagster(folder), signal.SIGKILL)
        told += lines
        assert headrace.wait() == 75, told
    assert " died. The other processes are stopped" in told[-1]


def status(instance: DagsterInstance, run: DagsterRun) -> DagsterRunStatus:
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    return found.status


def test_a_spark_that_needs_a_person_first_is_no_reason_for_a_supervisor_to_start_it_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    settings = tmp_path / "headrace.yaml"
    settings.write_text("application: shop\nstreams: [{name: orders}]\n", encoding="utf-8")
    environment = {**os.environ, "HEADRACE_CONFIG": str(settings), "JAVA_HOME": "/nowhere"}
    environment.pop("SPARK_LOCAL_CONNECT_DISCOVERY", None)
    environment["DAGSTER_HOME"] = str(tmp_path / "dagster")
    with pytest.raises(BadSetting, match="Dagster wasn't started"):
        warmed(environment)
    assert "Spark needs Java 17 or newer, and JAVA_HOME is /nowhere" in capfd.readouterr().err


def test_an_interrupt_while_spark_starts_is_told_in_one_line_and_leaves_no_traceback(
    folder: Path, aws: LocalAws, tmp_path: Path
):
    """A Java that never listens, so that the start lasts until the interrupt."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        '#!/bin/sh\ncase "$*" in *-version*) echo \'openjdk version "17.0.1"\' >&2; exit 0;; esac\ntouch "$JAVA_HOME/began"; exec sleep 600\n'
    )
    java.chmod(0o755)
    settings = folder / "h.yaml"
    settings.write_text(settings.read_text().replace(", spark: {remote: 'sc://127.0.0.1:1'}", ""))
    ours, theirs = os.pipe()
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "headrace.pipeline.cli",
            "dev",
            "--config",
            "h.yaml",
            "--port",
            str(free_port()),
        ],
        cwd=folder,
        env={
            **os.environ,
            **aws.environment,
            "PYTHONPATH": str(services.ROOT),
            "JAVA_HOME": str(tmp_path / "jdk"),
        },
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as headrace:
        os.close(theirs)
        try:
            with os.fdopen(ours, encoding="utf-8") as lines:
                eventually((tmp_path / "jdk" / "began").exists, "the start of Spark has begun")
                headrace.send_signal(signal.SIGINT)
                told = list(lines)
            assert headrace.wait() == 0, told
        finally:
            headrace.kill()
    assert "Traceback" not in "".join(told)
    assert told[-1].startswith("headrace: interrupted before Dagster was started")
