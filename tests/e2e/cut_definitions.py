"""The product's definitions with a hook at each step of a wave, for runs in processes of their own (`dagster -m`
loads this module).

A test writes files into the folder that E2E_CUT names:

kill    the name of a step: the next process that comes to it dies by SIGKILL, once

hold    the name of a step: the process that comes to it writes `holding` and waits until `hold` is deleted
"""

import os
import signal
from pathlib import Path
from threading import Event

from pipeline.definitions import build_definitions
from pipeline.duties.wave import Arrow
from pipeline.settings.file import read_settings
from tests.e2e.processes import CUT


def _on_arrow(arrow: Arrow, keys: tuple[str, ...]) -> None:
    folder = Path(os.environ[CUT])
    if keys and _content_of(folder / "kill") == arrow:
        (folder / "kill").rename(folder / "killed")
        os.kill(os.getpid(), signal.SIGKILL)
    if keys and _content_of(folder / "hold") == arrow:
        (folder / "holding").write_text(str(os.getpid()))
        while (folder / "hold").exists():
            Event().wait(0.05)


def _content_of(file: Path) -> str | None:
    return file.read_text().strip() if file.exists() else None


defs = build_definitions(read_settings(None, os.environ).settings, on_arrow=_on_arrow)
