"""Runs `headrace beat` beside `headrace dev`, and starts it again when it has died."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.settings.processor_application import beaten_applications

if TYPE_CHECKING:
    from headrace.pipeline.settings.model import Settings

_LOOK_EVERY = 1.0
"""Seconds: a lease may go without a beat for ten."""


@contextmanager
def beater_beside(
    settings: Settings, config: Path, *, env: Mapping[str, str], say: Callable[[str], None]
) -> Iterator[None]:
    """While the `with` block runs, `headrace beat` runs too, where the settings ask for it."""
    if not beaten_applications(settings):
        yield
        return
    over = threading.Event()
    watcher = threading.Thread(
        target=keep_beating, args=(beat_command(config), env, over, say), name="headrace-beat-watch"
    )
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def beat_command(config: Path) -> list[str]:
    command = [sys.executable, "-m", "headrace.pipeline.cli", "beat", "--config", str(config.resolve())]
    return [*command, "--ends-with-input"]


def keep_beating(
    command: list[str], env: Mapping[str, str], over: threading.Event, say: Callable[[str], None]
) -> None:
    """Start the command again whenever it has ended, until `over` is set."""
    while not over.is_set():
        # Its standard input ends with this process, even by SIGKILL, and a Ctrl-C at the terminal doesn't reach it: it
        # beats until the workers have given up their leases.
        process = subprocess.Popen(command, env=dict(env), stdin=subprocess.PIPE, start_new_session=True)
        while not over.wait(_LOOK_EVERY):
            if process.poll() is not None:
                say(f"`headrace beat` ended with code {process.returncode}; it is started again")
                break
        process.kill()  # it has nothing to clean up
        process.communicate()
