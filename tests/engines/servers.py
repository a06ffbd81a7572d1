"""Servers of other catalogs, started for the tests of one process: a private Postgres, and Iceberg's own REST catalog."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from tests.engines.parts import NotAtHand, class_path, or_skip
from tests.eventually import eventually

_HERE = Path(__file__).parent
_SECONDS = 120.0


class Postgres:
    """A cluster in a folder of its own, reached by a socket in that folder and by no port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._server: subprocess.Popen[bytes] | None = None
        command = [_program("initdb"), "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-N"]
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            timeout=_SECONDS,
            user=_user(),
            cwd=folder,
            env=_english(),
        )

    def start(self) -> None:
        options = ("listen_addresses=", f"unix_socket_directories={self.folder}", "fsync=off")
        settings = [word for option in options for word in ("-c", option)]
        self._server = subprocess.Popen(
            [_program("postgres"), "-D", str(self.folder / "data"), *settings],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=_user(),
            cwd=self.folder,
        )
        eventually(self._answers, "Postgres answers")

    def stop(self) -> None:
        """Stop the cluster at once, as a crash does: clients lose their connections, and the next start recovers."""
        assert self._server is not None
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait(timeout=_SECONDS)

    def catalog(self, folder: Path, database: str = "postgres") -> dict[str, str]:
        """The properties of a catalog in a database, with its tables' files in a folder of this machine."""
        warehouse = folder / "warehouse"
        warehouse.mkdir(exist_ok=True)
        return {"type": "sql", "uri": self.uri(database), "warehouse": str(warehouse)}

    def new_database(self) -> str:
        name = f"d{uuid4().hex[:12]}"
        engine = create_engine(self.uri("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return name

    def uri(self, database: str) -> str:
        return f"postgresql+psycopg2://postgres@/{database}?host={self.folder}"

    def _answers(self) -> bool:
        engine = create_engine(self.uri("postgres"))
        try:
            with engine.connect():
                return True
        except OperationalError:
            return False
        finally:
            engine.dispose()


class Rest:
    def __init__(self, uri: str) -> None:
        self.uri = uri

    def catalog(self) -> dict[str, str]:
        return {"type": "rest", "uri": self.uri}


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with or_skip("Postgres"), private_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rest]:
    with or_skip("Iceberg's REST catalog"), rest_catalog(tmp_path_factory.mktemp("rest")) as server:
        yield server


@contextmanager
def private_postgres() -> Iterator[Postgres]:
    # Pytest's folders may be entered by their owner only: root can't run Postgres, and another user does it for root.
    folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
    try:
        if user := _user():
            shutil.chown(folder, user)
        server = Postgres(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


@contextmanager
def rest_catalog(folder: Path) -> Iterator[Rest]:
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    arguments = [str(folder / "rest.db"), str(folder / "warehouse")]
    command = ["java", *options, "-cp", class_path("rest"), str(_HERE / "RestCatalog.java"), *arguments]
    with (
        (folder / "rest.log").open("w") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as java,
    ):
        assert java.stdin is not None
        assert java.stdout is not None
        try:
            word, _, port = java.stdout.readline().strip().partition(" ")
            if word != "port":
                raise RuntimeError(f"the REST catalog didn't start: {(folder / 'rest.log').read_text()}")
            yield Rest(f"http://127.0.0.1:{port}")
        finally:
            java.stdin.close()


def _program(name: str) -> str:
    found = shutil.which(name) or next(
        (str(path) for path in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)), None
    )
    if found is None:
        raise NotAtHand(f"there is no program {name} (Debian's package postgresql has it)")
    return found


def _user() -> str | None:
    """The user that runs Postgres, which refuses to run as root."""
    return "nobody" if os.geteuid() == 0 else None


def _english() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C"}
