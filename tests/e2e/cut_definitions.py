"""The product's definitions with a hook at each step of a wave, for runs in processes of their own (`dagster -m`
loads this module).

A test writes files into the folder that E2E_CUT names:

kill    the name of a step: the next process that comes to it dies by SIGKILL, once. The steps of a window's run begin with
        `window` and end with a number: `window staged 2` is the second time that the run has staged. Before and after a commit of rows are
        `window deciding 1` and `window decided 1`; before and after the window counts as done, `window noting` and `window noted`

hold    the name of a step: the process that comes to it writes `holding` and waits until `hold` is deleted
"""

import os
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from headrace.pipeline.building import build_definitions
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.settings.file import read_settings
from headrace.pipeline.windows.copy import Replaying
from headrace.pipeline.windows.ports import WindowStore
from headrace.pipeline.windows.process import WindowProcessing
from headrace.pipeline.windows.replace import Replacing
from headrace.pipeline.windows.unpack import Unpacking
from headrace.pipeline.windows.window import KeptWindow, ReplayWindow, Word
from headrace.pipeline.windows.wiring import WindowWiring
from tests.e2e.processes import CUT
from tests.killed import Cut, die
from tests.lake.tables import patch

WindowDuty = Replaying | Replacing | Unpacking | WindowProcessing


def _on_step(step: WaveStep, keys: tuple[str, ...]) -> None:
    folder = Path(os.environ[CUT])
    if keys:
        _cut().at(step)
    if keys and _content_of(folder / "hold") == step:
        (folder / "holding").write_text(str(os.getpid()))
        while (folder / "hold").exists():
            Event().wait(0.05)


def _cut() -> Cut:
    return Cut(_content_of(Path(os.environ[CUT]) / "kill") or "", act=_die_once)


def _die_once() -> None:
    folder = Path(os.environ[CUT])
    (folder / "kill").rename(folder / "killed")
    die()


def _content_of(file: Path) -> str | None:
    return file.read_text().strip() if file.exists() else None


@dataclass(frozen=True, slots=True)
class _CutStore(WindowStore):
    """The window store of a run that may die when the window counts as done."""

    store: WindowStore

    def all(self) -> tuple[KeptWindow, ...]:
        return self.store.all()

    def keep(self, window: ReplayWindow) -> None:
        self.store.keep(window)

    def say(self, window: str, word: Word, *, by: str) -> None:
        _cut().at("window noting")
        self.store.say(window, word, by=by)
        _cut().at("window noted")


@dataclass(frozen=True, slots=True)
class _WindowArrows:
    duty: WindowDuty
    _times: Counter[str] = field(default_factory=Counter)

    def __call__(self, step: str) -> None:
        self._times[step] += 1
        number = self._times[step]
        _cut().at(f"window {step} {number}")
        if step == "staged":
            # From here on, the next commit is that of the wave's rows.
            _cut().around_next_commit(
                self.duty.ports.table.catalog,  # type: ignore[attr-defined]
                before=f"window deciding {number}",
                after=f"window decided {number}",
            )


_redoing = WindowWiring.redoing


def _cut_redoing(
    wiring: WindowWiring,
    window: ReplayWindow,
    run_id: str,
    *,
    patience: int = 1,
    accepts_difference: bool = False,
) -> WindowDuty:
    duty = _redoing(wiring, window, run_id, patience=patience, accepts_difference=accepts_difference)
    return replace(duty, windows=_CutStore(duty.windows), on_step=_WindowArrows(duty))


patch(WindowWiring, "redoing", _cut_redoing)
defs = build_definitions(read_settings(None, os.environ).settings, on_step=_on_step)
