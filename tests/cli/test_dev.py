"""The end of `headrace dev`, whatever becomes of the terminal: a program stands in for Dagster, all else is real."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pipeline.cli import services
from pipeline.local.endpoint import LocalAws
from tests.stand_in import aws

__all__ = ["aws"]

DAGSTER = """
import os, sys
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
    open("asked", "w").close()
"""
HEADRACE = f"""
import sys
from pipeline.cli import main, services
services.dagster_command = lambda workspace, port: [sys.executable, "-c", {DAGSTER!r}, str(port)]
sys.exit(main(["dev", "--config", "h.yaml", "--port", sys.argv[1]]))
"""


@pytest.fixture
def folder(tmp_path: Path, aws: LocalAws) -> Iterator[Path]:
    (tmp_path / "h.yaml").write_text(
        f"{{application: my-app, streams: [{{name: s}}], aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}}}",
        encoding="utf-8",
    )
    yield tmp_path
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(the_dagster(tmp_path), signal.SIGKILL)


def the_dagster(folder: Path) -> int:
    return int((folder / "dagster").read_text())


def until_its_up(output: int) -> Iterator[str]:
    with open(output, encoding="utf-8", closefd=False) as lines:
        for line in lines:
            yield line
            if "UI at" in line:
                return


@pytest.mark.parametrize(
    ("output", "number"),
    [(os.openpty, signal.SIGHUP), (os.pipe, signal.SIGTERM)],
    ids=["a closed terminal", "a pipe that nobody reads"],
)
def test_dagster_is_stopped_though_its_words_reach_nobody(
    folder: Path, aws: LocalAws, output: Callable[[], tuple[int, int]], number: int
):
    ours, theirs = output()
    port = next(port for port in range(3900, 65536) if services.is_free(port))
    headrace = subprocess.Popen(
        [sys.executable, "-c", HEADRACE, str(port)],
        cwd=folder,
        env={**os.environ, **aws.environment, "PYTHONPATH": str(services.ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    told = list(until_its_up(ours))
    os.close(ours)
    headrace.send_signal(number)
    code = headrace.wait()
    assert code == 0, told
    assert (folder / "asked").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(the_dagster(folder), 0)
