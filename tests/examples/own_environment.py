"""An environment for an example that has a requirements.txt of its own, beside what this test's environment has.

The environment sees the packages of this one, so that pip installs only what is missing here or has another version here. It
stays in .venv for later runs of the tests, until the requirements or Python change.
"""

import hashlib
import os
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.docs.pages import ROOT


def environment_of(example: str) -> Path:
    """The folder with the environment's programs. Skips the test, in one line, where pip can't install the packages."""
    requirements = ROOT / "examples" / example / "requirements.txt"
    lock = (ROOT / "requirements.lock").read_bytes()
    form = hashlib.sha256(requirements.read_bytes() + lock + sys.version.encode()).hexdigest()[:16]
    folder = ROOT / ".venv" / "examples" / f"{example}-{form}"
    if not (folder / "installed").exists():
        venv.create(folder, symlinks=True, clear=True)
        python = folder / "bin" / "python"
        here = sysconfig.get_path("purelib")
        packages = (
            folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        )
        (packages / "here.pth").write_text(f"import site; site.addsitedir({here!r})\n")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "--python",
                str(python),
                "install",
                "--quiet",
                "-r",
                str(requirements),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            told = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            pytest.skip(
                f"the packages of examples/{example} can't be installed: {told[-1] if told else 'pip failed'}"
            )
        (entry,) = entry_points(group="console_scripts", name="dagster")
        # The packages of this test's environment are seen, and their commands aren't.
        script = folder / "bin" / "dagster"
        script.write_text(
            f"#!{python}\nfrom {entry.module} import {entry.attr}\n"
            f"if __name__ == '__main__':\n    {entry.attr}()\n"
        )
        script.chmod(0o755)
        (folder / "installed").touch()
    return folder / "bin"


def with_programs(variables: dict[str, str], programs: Path) -> dict[str, str]:
    """The variables of a terminal in which this environment is active."""
    return {**variables, "PATH": os.pathsep.join([str(programs), variables["PATH"]])}
