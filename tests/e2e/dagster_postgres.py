"""Dagster's storage on Postgres, which Headrace itself doesn't need."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest


def installed_or_skip(folder: Path) -> Path:
    """Install dagster-postgres in the version of this Dagster into the folder, which `PYTHONPATH` may name."""
    packages = (f"dagster-postgres=={version('dagster-aws')}", "psycopg2-binary")
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder))
    done = subprocess.run((*install, *packages), capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        pytest.skip(f"dagster-postgres can't be installed: {errors[-1] if errors else 'pip failed'}")
    return folder
