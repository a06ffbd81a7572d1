"""The engine as a zip that Spark's workers import.

Workers of a cluster or of a Connect server have never heard of this project. The zip's name is the hash of
its content: two versions in one session can't be taken for each other, and the same one isn't sent twice.

The local server starts with the zip on its workers' path, and says so. Shipping to it would give each session
a Python daemon of its own (46 MB) that lives as long as the server: a run every few minutes makes gigabytes.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE = Path(pipeline.__file__).parent
_EXECUTORS_NEED = (
    "__init__.py",
    "clock.py",
    "errors.py",
    "ports.py",
    "settings.py",
    "settings_choices.py",
    "core",
    "kcl",
    "aws",
    "lake",
)
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time that a zip can hold: the same content, the same bytes

ON_SERVER = "spark.headrace.engine"
"""Configuration of a server that has the engine on its workers' path: the zip's name."""

_shipped: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()


def ship(session: SparkSession) -> str:
    """See that this session's workers can import the engine; the zip's name. Sent once per session."""
    zipped = engine_zip()
    if session not in _shipped:
        if not is_connect(session):
            session.sparkContext.addPyFile(str(zipped))
        elif session.conf.get(ON_SERVER, "") != zipped.name:
            session.addArtifacts(str(zipped), pyfile=True)
        _shipped[session] = zipped.name
    return zipped.name


def is_connect(session: SparkSession) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


@lru_cache(maxsize=1)
def engine_zip() -> Path:
    """Built once per process; processes with the same engine share the file."""
    content = _zip_bytes()
    path = private_folder("ship") / f"headrace-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    if not path.exists():
        begun = path.with_suffix(f".{os.getpid()}")
        begun.write_bytes(content)
        begun.replace(path)
    return path


def private_folder(name: str) -> Path:
    """A folder for temporary files of this user that nobody else may read or write."""
    folder = Path(tempfile.gettempdir()) / f"headrace-{os.getuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)  # fails where somebody else made it before us
    return folder


def _zip_bytes() -> bytes:
    out = BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:
        for source in _sources():
            name = ZipInfo(f"{_PACKAGE.name}/{source.relative_to(_PACKAGE).as_posix()}", _ZIP_EPOCH)
            name.compress_type = ZIP_DEFLATED
            archive.writestr(name, source.read_bytes())
    return out.getvalue()


def _sources() -> list[Path]:
    found: list[Path] = []
    for name in _EXECUTORS_NEED:
        path = _PACKAGE / name
        found += path.rglob("*.py") if path.is_dir() else [path]
    return sorted(found, key=lambda path: path.relative_to(_PACKAGE).parts)
