"""mutmut runs on a copy of the project, so that nothing in the user's folder changes.

the project  --copy-->  a scratch folder  --mutmut-->  mutants/*.meta: the exit code of pytest for each mutant
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
COPIED = ("headrace", "tests", "bin")
"""In the copy, the links of the folder headrace are folders."""

_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",  # mutmut orders the tests by hash: in the same order on every run
    "HYPOTHESIS_PROFILE": "few",
}
KILLED = frozenset({1, 3})
"""pytest: a test failed, or pytest broke down."""
TIMED_OUT = frozenset({36, 24, -24, 152, 255})
"""The mutant never ends; the time limit of the tests notices that."""


@dataclass(frozen=True, slots=True, order=True)
class Mutant:
    """One change of one line. Its name doesn't depend on other lines of the module."""

    function: str
    was: str
    became: str


@dataclass(frozen=True, slots=True)
class Result:
    """How the mutants of one module fared."""

    module: str
    mutants: int
    timed_out: int
    survivors: tuple[Mutant, ...]


def copy_project(to: Path) -> None:
    for folder in COPIED:
        shutil.copytree(ROOT / folder, to / folder, ignore=shutil.ignore_patterns("__pycache__"))


def run_mutants(folder: Path, module: str, tests: Sequence[str], *, processes: int) -> Result:
    """Run mutmut on a module. `folder` holds a copy of the project, which is changed."""
    shutil.rmtree(folder / "mutants", ignore_errors=True)
    (folder / "pyproject.toml").write_text(
        (ROOT / "pyproject.toml").read_text(encoding="utf-8") + _configuration(module, tests),
        encoding="utf-8",
    )
    done = _mutmut(folder, "run", "--max-children", str(processes))
    meta = folder / "mutants" / "headrace" / f"{module}.meta"
    codes = json.loads(meta.read_text(encoding="utf-8"))["exit_code_by_key"] if meta.exists() else {}
    if done.returncode != 0 or not codes or None in codes.values():
        sys.exit(f"mutmut didn't come to its end on {module}:\n{done.stdout[-4000:]}")
    alive = [name for name, code in codes.items() if code not in KILLED | TIMED_OUT]
    timed_out = sum(code in TIMED_OUT for code in codes.values())
    return Result(module, len(codes), timed_out, tuple(sorted(_mutant(folder, name) for name in alive)))


def _configuration(module: str, tests: Sequence[str]) -> str:
    return f"""
[tool.mutmut]
source_paths = ["headrace"]
only_mutate = {json.dumps([f"headrace/{module}"])}
also_copy = {json.dumps([folder for folder in COPIED if folder != "headrace"])}
pytest_add_cli_args = ["-p", "no:cacheprovider"]
pytest_add_cli_args_test_selection = {json.dumps([*tests, "-m", "not slow"])}
use_git_change_detection = false
timeout_constant = 5.0
timeout_multiplier = 4.0
"""


def _mutmut(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "mutmut"), *arguments],
        cwd=folder,
        env={**os.environ, **_ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _mutant(folder: Path, name: str) -> Mutant:
    shown = _mutmut(folder, "show", name).stdout.splitlines()
    was = [line[1:].strip() for line in shown if line.startswith("-") and not line.startswith("---")]
    became = [line[1:].strip() for line in shown if line.startswith("+") and not line.startswith("+++")]
    function = (
        name.rpartition("__mutmut_")[0]
        .removeprefix("headrace.pipeline.")
        .replace("ǁ", ".")
        .replace(".x_", ".")
    )
    return Mutant(function.replace(".x.", "."), "\n".join(was), "\n".join(became))
