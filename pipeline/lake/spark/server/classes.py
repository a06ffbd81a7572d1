"""An archive of the Java classes that a local Spark server loads: with it the next server starts in about half of the CPU time.

    no archive yet      the server that starts first writes one when it ends ──► kept under the name of this Java and these jars
    an archive          each server of this user starts with it
    anything fails      servers start as they do without one

Java takes an archive only where it was written by the same Java for the same jars, and does without it otherwise. It lies in
the user's folder for caches, where there is one: a container has none, and would write an archive that nobody ever reads.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

OPTIONS = "spark.driver.extraJavaOptions"
_SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
_OWN = re.compile(r"-Xshare|Archive")
"""Options by which a user says which archive is taken."""
_WRITES = "classes.txt"
"""In the folder of a server: the path of the archive that it writes at its end."""
_TRIED_AGAIN = 24 * 3600.0
"""Seconds until another server tries to write an archive, where the one that was to write it was killed."""
_UNUSED = 30 * 24 * 3600.0
"""Seconds after which an archive is deleted that no server has started with."""


def with_archive(
    conf: Mapping[str, str], folder: Path, jars: Path, environ: Mapping[str, str]
) -> dict[str, str]:
    """The configuration of a server that is about to start, with Java's options for the archive added. `folder`:
    the folder of the server. `jars`: the folder of Spark's jars.
    """
    (folder / _WRITES).unlink(missing_ok=True)
    given = conf.get(OPTIONS, "")
    if _OWN.search(f"{given} {environ.get(_SUBMIT_OPTIONS, '')}"):
        return dict(conf)
    try:
        option = _option(folder, jars, environ)
    except OSError:
        # A slower start, and nothing else.
        option = ""
    # Java would tell of each class that an archive can't hold. What the user lets Java log comes after that, and stays.
    quiet = "-Xlog:disable -Xlog:all=error:stderr"
    return {**conf, OPTIONS: f"{quiet} {option} {given}".strip()} if option else dict(conf)


def keep(folder: Path) -> None:
    """Put the archive that the server of this folder has written at its end among the user's archives, if there
    is one.
    """
    with suppress(OSError):
        begun = Path((folder / _WRITES).read_text(encoding="utf-8"))
        (folder / _WRITES).unlink()
        if begun.stat().st_size:
            begun.replace(begun.with_suffix(".jsa"))
            _delete_unused(begun.parent)


def is_to_write(folder: Path) -> bool:
    """Whether the server of this folder writes an archive at its end, so that its end takes long."""
    return (folder / _WRITES).exists()


def caches(environ: Mapping[str, str]) -> Path | None:
    """The user's folder for caches; None where there is none."""
    home = environ.get("HOME", "")
    usual = Path(home, "Library", "Caches") if sys.platform == "darwin" else Path(home, ".cache")
    folder = Path(environ.get("XDG_CACHE_HOME") or usual)
    return folder if folder.is_absolute() and folder.is_dir() else None


def _option(folder: Path, jars: Path, environ: Mapping[str, str]) -> str:
    place, java = caches(environ), _java(environ)
    if place is None or java is None:
        return ""
    archives = place / "headrace"
    archives.mkdir(mode=0o700, exist_ok=True)
    if archives.stat().st_uid != os.getuid():
        # A folder for all users of a host. Java runs what an archive says.
        return ""
    archive = archives / f"spark-{_digest(java, jars)}.jsa"
    if archive.exists():
        # The time says when it was last used.
        os.utime(archive)
        # Java compares the checksums. It would crash with an archive of which a host that lost its power has kept a part only.
        return f'-XX:+VerifySharedSpaces "-XX:SharedArchiveFile={archive}"'
    begun = archive.with_suffix(".begun")
    if begun.exists() and time.time() - begun.stat().st_mtime < _TRIED_AGAIN:
        # Another server writes it.
        return ""
    begun.write_bytes(b"")
    (folder / _WRITES).write_text(str(begun), encoding="utf-8")
    return f'"-XX:ArchiveClassesAtExit={begun}"'


def _java(environ: Mapping[str, str]) -> Path | None:
    home = environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH"))
    return None if program is None else Path(program).resolve(strict=True)


def _digest(java: Path, jars: Path) -> str:
    return hashlib.sha256("\n".join(_facts(java, jars)).encode()).hexdigest()[:16]


def _facts(java: Path, jars: Path) -> Iterator[str]:
    release = java.parents[1] / "release"
    yield from (str(java), str(java.stat().st_mtime_ns), release.read_text() if release.is_file() else "")
    yield str(jars)
    for jar in sorted(jars.iterdir()):
        facts = jar.stat()
        yield f"{jar.name} {facts.st_size} {facts.st_mtime_ns}"


def _delete_unused(archives: Path) -> None:
    for archive in archives.glob("spark-*"):
        with suppress(FileNotFoundError):
            if time.time() - archive.stat().st_mtime > _UNUSED:
                archive.unlink()
