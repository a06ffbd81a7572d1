"""The local Spark Connect server of one deployment: started before Dagster, stopped when the deployment ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace.pipeline.cli.services import Group, undisturbed
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake.local_server import end, is_server
from headrace.pipeline.lake.private_files import make_folder
from headrace.pipeline.lake.session import DISCOVERY, discovery_in

WARM = [sys.executable, "-m", "headrace.pipeline.cli.warm"]


@contextmanager
def spark_of_its_own(dagster: Path) -> Iterator[None]:
    """Give the deployment a local Connect server of its own, and stop the server at the end, whichever process started it.

    PySpark by itself would use one server for all processes of the user. But a server keeps the AWS credentials that it was
    started with, so each deployment has a server of its own, and one that a killed `headrace dev` left is stopped first.
    """
    folder = discovery_in(dagster).parent
    make_folder(folder, private=True)
    folder.chmod(
        0o700
    )  # the folder holds the server's token, with which anybody on this host could run code in it
    before = os.environ.get(DISCOVERY)
    os.environ[DISCOVERY] = str(discovery_in(dagster))
    try:
        _stop_spark(folder)
        yield
    finally:
        with undisturbed():
            _stop_spark(folder)
        if before is None:
            del os.environ[DISCOVERY]
        else:
            os.environ[DISCOVERY] = before


def warmed(env: Mapping[str, str]) -> None:
    """Wait until the local Spark server is up, in a child process that prints its progress on this terminal.

    `headrace dev` waits before it starts Dagster, so that a Spark that can't start, as without Java, is told on the terminal
    at once and not by the first run.
    """
    starter = Group(WARM, env=env)
    try:
        code = starter.wait()
    except BaseException:
        starter.stop()
        raise
    if code != 0:
        raise Unreachable("the local Spark server didn't start, for the reason above; Dagster wasn't started")


def _stop_spark(folder: Path) -> None:
    """Stop the servers whose process ids Spark's start script wrote into the folder: also one that was still starting."""
    for file in folder.glob("spark-*.pid"):
        pid = int(file.read_text(encoding="utf-8"))
        if is_server(pid):
            end(pid)
        file.unlink()
    (folder / "connect.json").unlink(missing_ok=True)
