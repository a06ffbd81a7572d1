"""A run that a person terminates in Dagster's UI sends its last values."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_terminated_sends_its_last_values(tmp_path: Path, number: signal.Signals) -> None:
    """Dagster terminates a run by SIGINT, and Kubernetes a pod by SIGTERM."""
    file = tmp_path / "sent.json"
    command = [sys.executable, "-m", "tests.metrics.terminated_process", str(file)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "at work\n"
            process.send_signal(number)
            _, trouble = process.communicate(timeout=60)
        finally:
            process.kill()
    assert "Interrupted" in trouble
    assert json.loads(file.read_text()) == {"RecordsProcessed": 7}
