"""Which local Spark server a process may join: the one of its project, started in the same environment.

A server and its Python workers keep the environment that the server was started with: credentials of AWS and its
endpoint, the installed packages, the engine. So all of these are in the key, and a process that differs in one of them
starts a server of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

import headrace

FILE = "key.json"
_ROOT = str(Path(headrace.__file__).parents[1])
_VARIABLES = {
    # where AWS's configuration lies, unless AWS's own variables tell
    "HOME",
    # the way to AWS
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "BOTO_CONFIG"),
    # the workers' Python and Spark
    *("PYSPARK_PYTHON", "SPARK_HOME", "SPARK_CONF_DIR"),
}
_OF_AWS = "AWS_"
_PYTHONPATH = "PYTHONPATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKey:
    settings: str
    """The settings file with its full path; empty where there is none."""
    dagster_home: str
    engine: str
    """The hash of Headrace's code, and so its version."""
    python: str
    packages: str
    """A hash of the installed packages with their versions. Spark is one of them."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Name of each variable that counts -> a hash of its value, which may be a secret."""

    @property
    def name(self) -> str:
        """The name of the server's folder."""
        return _hash(json.dumps(asdict(self), sort_keys=True))

    def differences(self, candidate: ServerKey) -> tuple[str, ...]:
        """What differs between the servers of these two keys, in words for people, such as `the installed packages`."""
        words = {"engine": "Headrace's version", "python": "Python", "packages": "the installed packages"}
        names = sorted({*self.environment, *candidate.environment})
        return (
            *(
                word
                for attribute, word in words.items()
                if getattr(self, attribute) != getattr(candidate, attribute)
            ),
            *(name for name in names if self.environment.get(name) != candidate.environment.get(name)),
        )

    def is_of_project(self, candidate: ServerKey) -> bool:
        places = (self.settings, self.dagster_home)
        return self.settings != "" and places == (candidate.settings, candidate.dagster_home)


def key_of(
    environ: Mapping[str, str], engine: str, *, settings: Path | None = None, dagster_home: Path | None = None
) -> ServerKey:
    """The key of a process with this environment. Without `settings` and `dagster_home` these are the ones of the
    environment."""
    file = settings or Path(environ.get("HEADRACE_CONFIG") or "headrace.yaml")
    is_there = file.is_file()
    home = (
        dagster_home
        or environ.get("DAGSTER_HOME")
        or (file.resolve().parent / ".dagster" if is_there else "")
    )
    return ServerKey(
        settings=str(file.resolve()) if is_there else "",
        dagster_home=str(Path(home).resolve()) if home else "",
        engine=engine,
        # Not the executable: `python` and `python3.11` of one environment are the same Python.
        python=f"{sys.prefix} {sys.version.split()[0]}",
        packages=_installed(),
        environment={name: _hash(value) for name, value in _counting(environ)},
    )


def write(key: ServerKey, folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / FILE).write_text(json.dumps(asdict(key), indent=2), encoding="utf-8")


def read(folder: Path) -> ServerKey | None:
    """The key of the server in this folder; None where no key is written there, or one of another version."""
    try:
        return ServerKey(**json.loads((folder / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _counting(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in environ.items():
        if name in _VARIABLES or name.startswith(_OF_AWS):
            yield name, value
    # `headrace dev` puts this project's own folder on the path of its processes. The engine's code counts by its hash.
    entries = [entry for entry in environ.get(_PYTHONPATH, "").split(os.pathsep) if entry not in {"", _ROOT}]
    if entries:
        yield _PYTHONPATH, os.pathsep.join(entries)


@lru_cache(maxsize=1)
def _installed() -> str:
    """A hash of the names and versions of the installed packages, which are the names of their folders of metadata."""
    folders = [Path(entry) for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    names = {path.name for folder in folders if folder.is_dir() for path in folder.glob("*.dist-info")}
    return _hash("\n".join(sorted(names)))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
