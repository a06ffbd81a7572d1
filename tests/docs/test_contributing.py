"""The map in CONTRIBUTING.md and the workflow of CI agree with the repository."""

import re
from typing import Any

import pytest
import yaml

from tests.docs.pages import ROOT
from tests.simulation.bugs.planted_bugs import BUGS

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MAP = TEXT.partition("\n## The map\n")[2].partition("\n## ")[0]
WORKFLOW: dict[str, Any] = yaml.safe_load(
    (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
)
_UNSHOWN = {"pipeline/clock"}
"""These modules are too small for the map."""
STEPS: list[dict[str, Any]] = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]


def test_the_map_shows_every_layer_of_the_code():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    layers = re.search(r"^layers = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    assert layers
    modules = {
        "/".join(name.removeprefix("headrace.").split(".")[:2])
        for name in re.findall(r"[a-z][a-z_.]+", layers[1])
    }
    there = {name for name in modules if (ROOT / name).is_dir() or (ROOT / f"{name}.py").exists()}
    assert len(there) > 10
    assert {name for name in there - _UNSHOWN if not re.search(rf"{name}(/|\.py)", MAP)} == set()


def test_the_bug_that_the_page_plants_is_in_the_list_of_planted_bugs():
    assert set(re.findall(r"--plant ([\w-]+)", TEXT)) <= BUGS.keys()


def test_the_workflow_runs_the_targets_of_the_ci_script_and_measures_coverage():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    targets = re.findall(r"^make .+$", script, re.MULTILINE)
    assert [step["run"] for step in STEPS if "run" in step] == [*targets, "make coverage"]


@pytest.mark.parametrize("action", sorted({step["uses"] for step in STEPS if "uses" in step}))
def test_the_actions_of_the_workflow_are_pinned_by_commit(action: str):
    assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)


def test_the_project_supports_every_python_of_the_workflows_matrix():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    oldest, beyond = re.findall(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', project)[0]
    pythons = [
        int(version.partition(".")[2]) for version in WORKFLOW["jobs"]["test"]["strategy"]["matrix"]["python"]
    ]
    assert pythons == [11, 12, 13]
    assert all(int(oldest) <= minor < int(beyond) for minor in pythons)
