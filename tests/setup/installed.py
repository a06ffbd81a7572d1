"""A clean Python environment with what a person installs: the built wheel or sdist, beside a Dagster project of the person's own.

build             hatchling makes a wheel and an sdist of this checkout
Environment       a venv whose site-packages has a link to each package of this test's own environment but Headrace, so that pip finds
                  all dependencies there and downloads nothing
the project       a distribution with packages called pipeline, assets, resources and sensors
"""

import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from tests.docs.pages import ROOT

SITE_PACKAGES = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
PROJECT_PACKAGES = ("pipeline", "assets", "kclpy", "resources", "sensors")

_PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "mill"
version = "1.0"

[tool.hatch.build.targets.wheel]
packages = ["pipeline", "assets", "kclpy", "resources", "sensors"]
"""


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist of this checkout."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder), "-t", "wheel", "-t", "sdist"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


@dataclass(frozen=True)
class Environment:
    """A venv, and the empty folder outside of the checkout in which its commands run."""

    root: Path
    folder: Path

    @classmethod
    def make(cls, root: Path) -> "Environment":
        venv.create(root / "venv", symlinks=True)
        packages = root / "venv" / SITE_PACKAGES
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if not entry.name.startswith(("headrace", "_headrace", "__pycache__")) and entry.suffix != ".pth":
                (packages / entry.name).symlink_to(entry)
        (root / "elsewhere").mkdir()
        return cls(root / "venv", root / "elsewhere")

    @property
    def packages(self) -> Path:
        return self.root / SITE_PACKAGES

    @property
    def variables(self) -> dict[str, str]:
        left_out = ("PYTHON", "HEADRACE", "DAGSTER", "VIRTUAL_ENV", "SPARK_HOME")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        return {
            **kept,
            "PATH": f"{self.root / 'bin'}{os.pathsep}{kept['PATH']}",
            "DAGSTER_DISABLE_TELEMETRY": "yes",
        }

    def pip(self, *arguments: str) -> None:
        done = self.python("-m", "pip", *arguments, "--disable-pip-version-check")
        assert done.returncode == 0, done.stdout + done.stderr

    def install(self, what: str) -> None:
        """pip refuses where a dependency is missing, or has a version that doesn't fit. pip's cache would know an sdist by its
        path alone, and install what an earlier test run had there."""
        self.pip("install", "--no-index", "--no-build-isolation", "--no-cache-dir", what)

    def add_command(self, name: str) -> None:
        """A command of a package that this environment has by a link: the package is there, and its command isn't."""
        (entry,) = entry_points(group="console_scripts", name=name)
        script = self.root / "bin" / name
        script.write_text(
            f"#!{self.root / 'bin' / 'python'}\nfrom {entry.module} import {entry.attr}\n"
            # A run's steps have processes of their own, which import the script.
            f"if __name__ == '__main__':\n    {entry.attr}()\n"
        )
        script.chmod(0o755)

    def python(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return self.command("python", *arguments, **variables)

    def command(self, name: str, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(self.root / "bin" / name) if (self.root / "bin" / name).exists() else name, *arguments],
            cwd=self.folder,
            env={**self.variables, **variables},
            capture_output=True,
            text=True,
            # On a busy machine the demo takes many minutes.
            timeout=1500,
            check=False,
        )

    def file_names(self, package: str) -> set[str]:
        """The files of an installed package, but for what Python compiles."""
        folder = self.packages / package
        return {
            str(path.relative_to(folder))
            for path in folder.rglob("*")
            if path.suffix != ".pyc" and path.is_file()
        }


def write_project(folder: Path, definitions: str) -> Path:
    """A Dagster project of a person: `definitions` is the content of its module assets.definitions."""
    for package in PROJECT_PACKAGES:
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text(f'NAME = "the mill\'s {package}"\n')
    (folder / "assets" / "definitions.py").write_text(definitions)
    (folder / "pyproject.toml").write_text(_PROJECT)
    return folder
