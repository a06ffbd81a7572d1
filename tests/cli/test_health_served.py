"""`headrace health --serve`: a process that answers probes until it is told to stop."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from headrace.pipeline.local.endpoint import LocalAws
from tests.cli.test_health import settings_file
from tests.eventually import eventually


def asked(port: int, path: str) -> tuple[int, dict[str, Any]]:
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    answer = connection.getresponse()
    content: dict[str, Any] = json.loads(answer.read())
    connection.close()
    return answer.status, content


def test_a_process_answers_probes_until_it_is_told_to_stop(aws: LocalAws, tmp_path: Path) -> None:
    """Of an application without tables: its health can't be told, and the process lives."""
    file = settings_file(aws, tmp_path, "health-served")
    command = [sys.executable, "-m", "headrace.pipeline.cli", "health", "--config", str(file)]
    with subprocess.Popen([*command, "--serve", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:(\d+)/health", process.stdout.readline())
            assert found is not None
            port = int(found[1])
            assert asked(port, "/alive") == (200, {"alive": True})
            eventually(lambda: len(asked(port, "/health")[1]["checks"]) > 1, "the first look is done")
            status, content = asked(port, "/health")
            assert (status, content["health"]) == (503, "unknown")
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 130
        finally:
            process.kill()
