"""requirements.lock pins all that pyproject.toml asks for, with hashes."""

import re
import tomllib

import pytest

from bin.setup import ROOT, only

LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKED = re.findall(r"^([a-z0-9-]+)==", LOCK, re.MULTILINE)

DECLARED = [
    *PYPROJECT["build-system"]["requires"],
    *PYPROJECT["project"]["dependencies"],
    *(line for extra in PYPROJECT["project"]["optional-dependencies"].values() for line in extra),
    *(line for group in PYPROJECT["dependency-groups"].values() for line in group),
]


def test_the_lock_names_no_index_host_link_or_file():
    strange = [
        line
        for line in LOCK.splitlines()
        if not re.fullmatch(r"[a-z0-9-]+==[\w.]+( ; [^\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?", line)
    ]
    assert not strange
    assert "://" not in LOCK


@pytest.mark.parametrize("requirement", DECLARED)
def test_every_declared_package_is_locked(requirement):
    name = re.match(r"[\w-]+", requirement)
    assert name
    assert name[0].lower() in LOCKED


def test_every_locked_package_has_a_hash():
    without = [name for name in LOCKED if "--hash=sha256:" not in only({name}, LOCK)]
    assert not without


def test_all_packages_of_dagster_are_of_one_release():
    versions = {
        name: re.findall(rf"^{name}==1\.13\.(\d+)", LOCK, re.MULTILINE)
        for name in ("dagster", "dagster-webserver")
    }
    assert len({tuple(found) for found in versions.values()}) == 1
    assert all(versions.values())
