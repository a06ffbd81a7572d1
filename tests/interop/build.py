"""Build the Java worker with one version of KCL, by the Maven of this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).parent / "java"
_BUILT = Path(__file__).parents[2] / "artifacts" / "interop"
_SECONDS = 900.0
# What Maven says when its repository can't be reached, in different versions.
_CUT_OFF = ("Could not transfer", "Could not resolve", "Unknown host", "Non-resolvable", "was not found in")


class NotAtHand(Exception):
    """Java, Maven or Maven Central can't be reached, so that nothing can be said about interoperation."""


def class_path(kcl: str) -> str:
    """The class path of the Java worker with a version of KCL. The worker is built if that hasn't been done."""
    for tool in ("mvn", "java"):
        if shutil.which(tool) is None:
            raise NotAtHand(f"{tool} is not on the PATH")
    built = _BUILT / kcl
    marker = built / "classpath"
    if not marker.exists() or marker.stat().st_mtime < _newest_source():
        _build(kcl, built, marker)
    return f"{built / 'classes'}:{marker.read_text().strip()}"


def _build(kcl: str, built: Path, marker: Path) -> None:
    built.mkdir(parents=True, exist_ok=True)
    goals = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={marker}"]
    command = ["mvn", "-B", "-q", f"-Dkcl={kcl}", f"-Dbuilt={built}", *goals]
    done = subprocess.run(command, cwd=_SOURCE, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode == 0 and marker.exists():
        marker.touch()  # Maven builds nothing if nothing has changed
        return
    said = f"{done.stdout}{done.stderr}"
    if any(words in said for words in _CUT_OFF):
        raise NotAtHand(f"Maven Central gave no KCL {kcl}")
    raise RuntimeError(f"the worker on KCL {kcl} was not built:\n{said}")


def _newest_source() -> float:
    return max(path.stat().st_mtime for path in _SOURCE.rglob("*") if path.is_file())
