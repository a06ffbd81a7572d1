"""The local Spark Connect server of one deployment: started before Dagster, stopped when the deployment ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.pipeline.cli import DONE, STOPPED
from headrace.pipeline.cli.beside.services import Group, undisturbed
from headrace.pipeline.cli.telling import tell_aside
from headrace.pipeline.errors import BadSetting, Unreachable
from headrace.pipeline.lake.spark.server.classes import is_to_write
from headrace.pipeline.lake.spark.server.joining import stop_unused
from headrace.pipeline.lake.spark.server.process import ADDRESS, is_server, pid_of
from headrace.pipeline.lake.spark.server.users import use, users_of
from headrace.pipeline.lake.spark.session import DISCOVERY, own_folder

_WRITES = (
    "headrace: the local Spark server writes down its Java classes, once, for half a minute on a slow machine; "
    "from then on it starts in half of the time"
)
WARM = [sys.executable, "-m", "headrace.pipeline.cli.beside.warm"]


@contextmanager
def spark_of_its_own(
    dagster: Path, settings: Path | None = None, *, name: str = "headrace dev"
) -> Iterator[Path]:
    """Start or join the local Connect server of the deployment's project, and stop the server at the end,
    whichever process started it.

    A server that a killed `headrace dev` left is stopped first. A server that another process uses, such as a
    `headrace consume` of this project, is joined, and ends some minutes after its last user. Yields the server's
    folder.
    """
    # The variable may name the server of another project, which is left alone.
    before = os.environ.pop(DISCOVERY, None)
    folder = own_folder(settings=settings, dagster_home=dagster)
    os.environ[DISCOVERY] = str(folder / ADDRESS)
    try:
        stop_unused(folder)
        # The server stays between the runs of this deployment, however seldom they are.
        use(folder, name)
        yield folder
    finally:
        with undisturbed():
            if is_to_write(folder) and _ends_with_this_process(folder):
                # A terminal that was closed is no error.
                with suppress(OSError):
                    tell_aside(_WRITES)
            stop_unused(folder)
        if before is None:
            del os.environ[DISCOVERY]
        else:
            os.environ[DISCOVERY] = before


def _ends_with_this_process(folder: Path) -> bool:
    """Whether a server runs there that no other process uses."""
    pid = pid_of(folder)
    is_used = any(user.pid != os.getpid() for user in users_of(folder))
    return pid is not None and is_server(pid, folder) and not is_used


def warmed(env: Mapping[str, str]) -> None:
    """Wait until the local Spark server is up, in a child process that prints its progress on this terminal.

    `headrace dev` waits before it starts Dagster, so that a Spark that can't start, as without Java, is reported
    on the terminal at once and not by the first run.
    """
    starter = Group(WARM, env=env)
    try:
        code = starter.wait()
    except BaseException:
        # Also after a Ctrl-C: the child is in a group that the terminal doesn't reach.
        starter.stop()
        raise
    if code != DONE:
        sentence = "the local Spark server didn't start, for the reason above; Dagster wasn't started"
        # Without Java, say, another start by a supervisor would fail in the same way.
        raise BadSetting(sentence) if code == STOPPED else Unreachable(sentence)
