"""Processes that end by SIGKILL at a named place of their work, for tests that look at what such a process leaves behind.

The process kills itself when it comes to the place, so that a test waits for nothing but the end of the process:

    killed("tests.windows.window_process", folder, "copy", "staged")      in the test: run the process, which must be killed
    finished("tests.windows.window_process", folder, "copy", NOWHERE)     in the test: run the process, which must end well
    Cut(place)                                                         in the process: dies at its place
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog

from headrace.pipeline.lake.spark.session import DISCOVERY, spark_session
from headrace.pipeline.settings.model import SparkSettings
from tests.lake.tables import after_next_swap, before_next_swap
from tests.spark import SparkServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOWHERE = "nowhere"
KILLED = -signal.SIGKILL
"""How a process that was killed has ended, as `subprocess` tells it."""
_ROOT = Path(__file__).parents[1]
_AT_MOST = 240.0
"""Seconds. No test needs so long: a process that hangs fails its test, instead of holding up all that come after it."""


# --- in the test ------------------------------------------------------------------------------------------------


def killed(module: str, *words: object, server: SparkServer | None = None) -> None:
    """Run a process that has to come to the place where it is killed."""
    assert _end_of(module, words, server) == KILLED, "the process didn't come to its place"


def finished(module: str, *words: object, server: SparkServer | None = None) -> None:
    """Run a process that has to do all of its work."""
    assert _end_of(module, words, server) == 0, "the process failed"


def _end_of(module: str, words: tuple[object, ...], server: SparkServer | None) -> int:
    """`server`: the Spark server that the process finds."""
    discovery = {} if server is None else {DISCOVERY: str(server.discovery)}
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, words)],
        env={**os.environ, **discovery, "PYTHONPATH": str(_ROOT)},
        timeout=_AT_MOST,
        check=False,
    ).returncode


# --- in the process ---------------------------------------------------------------------------------------------


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Cut:
    place: str
    act: Callable[[], object] = die
    """What ends the process."""

    def at(self, arrow: str) -> None:
        """Die if this arrow is the place."""
        if arrow == self.place:
            self.act()

    def around_next_commit(self, catalog: Catalog, *, before: str, after: str) -> None:
        """Die just before or just after the catalog takes its next commit, if the place has the one name or the other."""
        if self.place == before:
            before_next_swap(catalog, self.act)
        if self.place == after:
            after_next_swap(catalog, self.act)


@contextmanager
def a_session(engine: str) -> "Iterator[SparkSession | None]":
    """A session on the Spark server, if the engine is `spark`. It is ended before the process ends: the end of a Python process waits
    forever now and then, where its garbage collector closes a connection of gRPC whose thread has ended already.
    """
    if engine != "spark":
        yield None
        return
    session = spark_session(SparkSettings(), "headrace-test")
    try:
        yield session
    finally:
        session.stop()
