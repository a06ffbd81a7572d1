"""Build the Java worker with one version of KCL, and the Java producers, by the Maven of this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_HERE = Path(__file__).parent
_BUILT = Path(__file__).parents[2] / "artifacts" / "interop"
_SECONDS = 900.0
KPL = "1.0.4"
ADAPTER = "2.0.1"
"""Of the adapter for streams of DynamoDB tables."""
# What Maven says when its repository can't be reached, in different versions.
_CUT_OFF = ("Could not transfer", "Could not resolve", "Unknown host", "Non-resolvable", "was not found in")


class NotAtHand(Exception):
    """Java, Maven or Maven Central can't be reached, so that nothing can be said about interoperation."""


def class_path(kcl: str) -> str:
    """The class path of the Java worker with a version of KCL."""
    source = "java-1x" if kcl.startswith("1.") else "java"
    return _class_path(f"KCL {kcl}", _HERE / source, _BUILT / kcl, f"-Dkcl={kcl}")


def producers_class_path() -> str:
    """The class path of the Java producers: the Kinesis Producer Library, and AWS's Java aggregator."""
    _look_for("openssl")  # for the TLS that KPL wants
    return _class_path(f"KPL {KPL}", _HERE / "java-kpl", _BUILT / f"kpl-{KPL}", f"-Dkpl={KPL}")


def adapter_class_path() -> str:
    """The class path of the Java worker that reads streams of DynamoDB tables."""
    return _class_path(
        f"adapter {ADAPTER}", _HERE / "java-ddb", _BUILT / f"adapter-{ADAPTER}", f"-Dadapter={ADAPTER}"
    )


def daemon_class_path(kcl: str) -> str:
    """The class path of KCL's MultiLangDaemon."""
    built = _BUILT / f"multilang-{kcl}"
    return _class_path(f"MultiLangDaemon {kcl}", _HERE / "java-multilang", built, f"-Dkcl={kcl}")


def _class_path(library: str, source: Path, built: Path, version: str) -> str:
    """The class path of the program in `source`, which is built if that hasn't been done."""
    _look_for("mvn", "java")
    marker = built / "classpath"
    if not marker.exists() or marker.stat().st_mtime < _newest(source):
        _build(library, source, built, version)
    return f"{built / 'classes'}:{marker.read_text().strip()}"


def _look_for(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            raise NotAtHand(f"{tool} is not on the PATH")


def _build(library: str, source: Path, built: Path, version: str) -> None:
    built.mkdir(parents=True, exist_ok=True)
    marker = built / "classpath"
    goals = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={marker}"]
    command = ["mvn", "-B", "-q", version, f"-Dbuilt={built}", *goals]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode == 0 and marker.exists():
        marker.touch()  # Maven builds nothing if nothing has changed
        return
    said = f"{done.stdout}{done.stderr}"
    if any(words in said for words in _CUT_OFF):
        raise NotAtHand(f"Maven Central gave no {library}")
    raise RuntimeError(f"the Java program with {library} was not built:\n{said}")


def _newest(source: Path) -> float:
    return max(path.stat().st_mtime for path in source.rglob("*") if path.is_file())
