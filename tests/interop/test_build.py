"""If real KCL workers can't be built because something is missing, one sentence says so. If the build itself fails,
that is an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop import build
from tests.interop.build import NotAtHand, class_path


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A PATH with a Java and a Maven made by the test."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setattr(build, "_BUILT", tmp_path / "built")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def put(name: str, script: str) -> None:
        tool = folder / name
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)

    put("java", "exit 0")
    return put


def test_without_maven_make_interop_is_skipped_with_one_sentence():
    done = subprocess.run(
        [sys.executable, "-m", "tests.interop"],
        env={**os.environ, "PATH": "/nonexistent"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "make interop was skipped: mvn is not on the PATH, and real KCL workers can't be built without it.\n"
    )


@pytest.mark.parametrize("said", [
    "Could not transfer artifact software.amazon.kinesis:amazon-kinesis-client:pom:3.5.1 from/to central",
    "Could not resolve dependencies for project headrace.interop:kcl-worker:jar:1",
])  # fmt: skip
def test_a_maven_that_cant_reach_its_repository_counts_as_missing(tools, said):
    tools("mvn", f"echo '[ERROR] {said}'; exit 1")
    with pytest.raises(NotAtHand, match=r"KCL 3\.5\.1"):
        class_path("3.5.1")


def test_a_worker_that_does_not_compile_is_an_error(tools):
    tools("mvn", "echo '[ERROR] Worker.java: incompatible types'; exit 1")
    with pytest.raises(RuntimeError, match="incompatible types"):
        class_path("3.5.1")


def test_a_worker_that_was_built_is_not_built_again(tools, tmp_path):
    place = '$(echo "$@" | sed "s/.*mdep.outputFile=//; s/ .*//")'
    tools("mvn", f'echo /some.jar > {place}; echo built >> "{tmp_path}/times"')
    assert class_path("3.5.1") == class_path("3.5.1") == f"{tmp_path}/built/3.5.1/classes:/some.jar"
    assert class_path("2.7.2").startswith(f"{tmp_path}/built/2.7.2/classes:")
    assert (tmp_path / "times").read_text().split() == ["built", "built"]
