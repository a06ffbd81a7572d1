"""Parts of other engines that these tests need and this machine may lack: Java libraries, a Python package in a venv of its own.

They are kept in `artifacts/engines`, so that they are fetched once for a folder.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_KEPT = Path(__file__).parents[2] / "artifacts" / "engines"
_SECONDS = 900.0
_CUT_OFF = (
    # What Maven says when its repository can't be reached, in different versions.
    *("Could not transfer", "Could not resolve", "Unknown host", "Non-resolvable", "was not found in"),
    # What pip says.
    *("No matching distribution found", "Could not find a version", "Connection", "timed out"),
)


class NotAtHand(Exception):
    """A part can't be fetched here, so that nothing can be said about the other engine."""


@contextmanager
def or_skip(what: str) -> Iterator[None]:
    """Skip the test with a sentence where a part isn't at hand."""
    try:
        yield
    except NotAtHand as reason:
        pytest.skip(f"{what} isn't at hand: {reason}")


def class_path(name: str) -> str:
    """The class path of the libraries that `<name>.pom.xml` names."""
    if shutil.which("java") is None:
        raise NotAtHand("java is not on the PATH")
    pom = _HERE / f"{name}.pom.xml"
    found = _KEPT / f"{name}.classpath"

    def fetch() -> None:
        if shutil.which("mvn") is None:
            raise NotAtHand("mvn is not on the PATH")
        goals = ["dependency:build-classpath", f"-Dmdep.outputFile={found}"]
        _run("Maven Central", ["mvn", "-B", "-q", "-f", str(pom), *goals])

    def is_there() -> bool:
        is_new = found.exists() and found.stat().st_mtime >= pom.stat().st_mtime
        return is_new and all(Path(jar).exists() for jar in found.read_text().strip().split(":"))

    _once(name, is_there, fetch)
    return found.read_text().strip()


def python_with(package: str, version: str) -> Path:
    """The Python of a venv that has this package and nothing of the project."""
    venv = _KEPT / f"{package}-{version}"
    is_complete = venv / "complete"

    def make() -> None:
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=_SECONDS)
        pip = [str(venv / "bin" / "pip"), "install", "--quiet", f"{package}=={version}"]
        _run("PyPI", pip)
        is_complete.touch()

    _once(venv.name, is_complete.exists, make)
    return venv / "bin" / "python"


def _once(name: str, is_there: Callable[[], bool], make: Callable[[], None]) -> None:
    """Make a part unless it is there. Of several test processes, one makes it and the others wait."""
    _KEPT.mkdir(parents=True, exist_ok=True)
    with (_KEPT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_there():
            make()


def _run(source: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    said = f"{done.stdout}{done.stderr}"
    if done.returncode and any(words in said for words in _CUT_OFF):
        raise NotAtHand(f"{source} didn't give it")
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{said}")
