"""The targets of the Makefile that people and CI use."""

import re
import subprocess

from bin.setup import ROOT

TARGETS = [
    "help",
    "setup",
    "fmt",
    "check",
    "test",
    "test-all",
    "coverage",
    "vectors",
    "wire",
    "interop",
    "contract",
    "sim",
    "local",
    "dev",
    "demo",
    "bench",
]


def make(target):
    return subprocess.run(["make", "-C", ROOT, target], capture_output=True, text=True, check=False)


def test_help_has_a_line_for_every_target():
    said = make("help").stdout
    assert [target for target in TARGETS if not re.search(rf"^  make {target} +\S", said, re.MULTILINE)] == []


def test_ci_calls_the_same_targets_as_people():
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert re.findall(r"^make (.+)$", script, re.MULTILINE) == ["check", "test", "demo"]


def test_the_module_that_make_check_lets_dagster_load_exists():
    named = re.search(r"HEADRACE_CONFIG=(\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert named
    assert (ROOT / named[1]).is_file()
