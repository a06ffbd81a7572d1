"""The engine as a zip that Spark's workers import.

Spark's workers, on a cluster or a Connect server, don't have this project installed. The zip's name contains the hash
of the sources, so that two versions in one session are never mistaken for each other.

The zip holds each module twice: as source, and compiled. Python keeps no compiled form of modules that it imports from
a zip: each worker would compile them anew. A worker whose Python has another version imports the source.

The local server starts with the zip on its workers' path, and announces that in its configuration. Sessions with the
same engine can then share its Python workers (`headrace.pipeline.lake.spark.session`). A session with another version,
as after an upgrade, gets its own.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
import tempfile
from functools import lru_cache
from importlib.util import MAGIC_NUMBER, source_hash
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import headrace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE = Path(headrace.__file__).parent
_EXECUTORS_NEED = (
    "__init__.py",
    "kclpy",
    "pipeline/__init__.py",
    "pipeline/aws",
    "pipeline/clock.py",
    "pipeline/core",
    "pipeline/duties",  # what is made of the lake table has its duties beside its tasks, and each module in the zip can be imported
    "pipeline/encoding",
    "pipeline/errors.py",
    "pipeline/kcl",
    "pipeline/lake",
    "pipeline/lineage",
    "pipeline/ports",
    "pipeline/processors",
    "pipeline/proof",
    "pipeline/settings",
    "pipeline/source",
    "pipeline/task_identity.py",
    "pipeline/typed",
    "pipeline/upkeep",
    "pipeline/windows",
)
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The oldest time that a zip can hold."""

ON_SERVER = "spark.headrace.engine"
"""Key in the configuration of a server that has the engine on its workers' path. The value is the zip's name."""

_sent: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
"""The names of the zips that a session has got."""


def ship(session: SparkSession) -> str:
    """Make sure that this session's workers can import Headrace's code. Returns the name of the zip, which is
    sent once per session.
    """
    zipped = engine_zip()
    if zipped.name not in _sent.get(session, ()):
        if is_connect(session) and session.conf.get(ON_SERVER, "") == zipped.name:
            _sent.setdefault(session, set()).add(zipped.name)
        else:
            send_zip(session, zipped)
    return zipped.name


def send_zip(session: SparkSession, zipped: Path) -> None:
    """Let this session's workers import from the zip file. Its name tells its content, so it is sent once per
    session.
    """
    sent = _sent.setdefault(session, set())
    if zipped.name in sent:
        return
    if is_connect(session):
        session.addArtifacts(str(zipped), pyfile=True)
    else:
        session.sparkContext.addPyFile(str(zipped))
    # PySpark lets this process import from the zip, too, and would hide a module that has changed since.
    sys.path[:] = [entry for entry in sys.path if Path(entry).name != zipped.name]
    sent.add(zipped.name)


def is_connect(session: SparkSession) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


@lru_cache(maxsize=1)
def engine_name() -> str:
    """The name of the zip file, made of a digest of its content, so that changed code gets another name."""
    return f"headrace-{_digest()}"


@lru_cache(maxsize=1)
def engine_zip() -> Path:
    """The zip file, built once per process. Processes with the same engine share it."""
    path = private_folder("ship") / f"{engine_name()}.zip"
    if not path.exists():
        # Written under another name first: a process that finds the zip never finds half of it.
        begun = path.with_suffix(f".{os.getpid()}")
        begun.write_bytes(_zip_bytes())
        begun.replace(path)
    return path


def private_folder(name: str) -> Path:
    """A folder for temporary files that only this user may read and write."""
    folder = Path(tempfile.gettempdir()) / f"headrace-{os.getuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    # Fails if another user created the folder before, as an attack on /tmp would.
    folder.chmod(0o700)
    return folder


def _digest() -> str:
    """A name for the content. It is taken from the sources, because Python may spell the compiled form of one source in
    several ways."""
    # With Python's version, because the zip has compiled code, which another version can't use.
    out = hashlib.sha256(MAGIC_NUMBER)
    for source in _sources():
        out.update(f"{_in_zip(source)}\0{hashlib.sha256(source.read_bytes()).hexdigest()}\n".encode())
    return out.hexdigest()[:16]


def _in_zip(source: Path) -> str:
    return f"{_PACKAGE.name}/{source.relative_to(_PACKAGE).as_posix()}"


def _zip_bytes() -> bytes:
    out = BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:
        for source in _sources():
            name = ZipInfo(_in_zip(source), _ZIP_EPOCH)
            name.compress_type = ZIP_DEFLATED
            archive.writestr(name, source.read_bytes())
            compiled = ZipInfo(f"{name.filename}c", _ZIP_EPOCH)
            compiled.compress_type = ZIP_DEFLATED
            archive.writestr(compiled, _compiled(source, name.filename))
    return out.getvalue()


def _compiled(source: Path, name: str) -> bytes:
    """The content of the module's .pyc file. It is valid without a look at the source (PEP 552): the zip holds both,
    and never changes."""
    module = compile(source.read_bytes(), name, "exec", dont_inherit=True)
    unchecked = (1).to_bytes(4, "little")
    return MAGIC_NUMBER + unchecked + source_hash(source.read_bytes()) + marshal.dumps(module)


def _sources() -> list[Path]:
    paths: list[Path] = []
    for name in _EXECUTORS_NEED:
        path = _PACKAGE / name
        paths += path.rglob("*.py") if path.is_dir() else [path]
    return sorted(paths, key=lambda path: path.relative_to(_PACKAGE).parts)
