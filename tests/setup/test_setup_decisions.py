"""What bin/setup.py decides: which Python and Java it takes, and which steps are left to do."""

import sys
from pathlib import Path

import pytest

from bin import setup
from bin.setup import Java, Python

OLD_PYTHON = Python("/usr/bin/python3", (3, 9))
PYTHON_312 = Python("/usr/bin/python3.12", (3, 12))
JAVA_8, JAVA_17, JAVA_21, JAVA_25 = (Java(f"/jvm/{major}", major) for major in (8, 17, 21, 25))
WANTED = {"venv": "3.11 in /here", "packages": "lock", "project": "toml"}

SAID_BY_JAVA = """\
Property settings:
    java.class.version = 61.0
    java.home = /Library/Java/Virtual Machines/17/Contents/Home
    java.specification.version = 17
    java.vm.specification.version = 16
    java.vendor = Debian

openjdk version "17.0.15" 2025-04-15
"""


def test_a_finished_setup_has_nothing_to_do():
    assert not setup.steps_to_do({**WANTED, "told": "/jvm/17"}, WANTED)


def test_a_fresh_clone_does_every_step():
    assert setup.steps_to_do({}, WANTED) == ("venv", "packages", "project")


@pytest.mark.parametrize(
    ("changed", "steps"),
    [
        ("venv", ("venv", "packages", "project")),
        ("packages", ("packages", "project")),
        ("project", ("project",)),
    ],
)
def test_a_changed_input_repeats_its_step_and_all_steps_that_depend_on_it(changed, steps):
    assert setup.steps_to_do({**WANTED, changed: "as it was"}, WANTED) == steps


def test_an_interrupted_setup_goes_on_where_it_stopped():
    assert setup.steps_to_do({"venv": WANTED["venv"]}, WANTED) == ("packages", "project")


def test_the_python_that_was_called_is_taken_if_it_fits():
    called = Python("/opt/python3", (3, 14))
    assert setup.choose_python([called, PYTHON_312]) == called


def test_instead_of_an_old_python_the_first_that_fits_is_taken():
    assert setup.choose_python([OLD_PYTHON, PYTHON_312, Python("/x", (3, 11))]) == PYTHON_312


@pytest.mark.parametrize("version", [(3, 10), (3, 15)])
def test_a_python_outside_what_spark_and_dagster_take_is_not_used(version):
    assert setup.choose_python([Python("/usr/bin/python3", version)]) is None


def test_the_error_without_a_fitting_python_names_those_found_and_what_to_do():
    said = setup.no_python([OLD_PYTHON])
    assert "3.9 at /usr/bin/python3" in said
    assert "3.11 to 3.14" in said
    assert "Nothing was changed" in said
    assert "\n" not in said


def test_this_python_is_found_even_from_within_the_venv():
    first = next(iter(setup.find_pythons()))
    assert ".venv" not in first.path
    assert Path(first.path).exists()


def test_the_java_of_java_home_is_taken_even_if_another_one_is_better_tested():
    assert setup.choose_java([JAVA_25, JAVA_17], [JAVA_21]) == JAVA_25


def test_instead_of_a_java_home_that_is_too_old_the_java_on_the_path_is_taken():
    assert setup.choose_java([JAVA_8, JAVA_21], [JAVA_17]) == JAVA_21


def test_of_the_installed_javas_the_oldest_that_fits_is_taken():
    assert setup.choose_java([], [JAVA_25, JAVA_8, JAVA_17, JAVA_21]) == JAVA_17


def test_javas_that_are_too_old_count_as_missing():
    assert setup.choose_java([JAVA_8], [JAVA_8]) is None


def test_other_javas_are_not_looked_for_if_that_of_java_home_fits():
    usual = iter([JAVA_17])
    assert setup.choose_java([JAVA_21], usual) == JAVA_21
    assert next(usual) == JAVA_17


def test_home_and_version_of_a_java_are_read_from_its_output():
    assert setup.read_java(SAID_BY_JAVA) == Java("/Library/Java/Virtual Machines/17/Contents/Home", 17)


def test_the_version_of_java_8_is_understood():
    assert setup.read_java("  java.home = /jvm/8/jre\n  java.specification.version = 1.8\n") == Java(
        "/jvm/8/jre", 8
    )


def test_a_program_that_isnt_java_is_not_taken_for_one():
    assert setup.read_java("The operation couldn't be completed. Unable to locate a Java Runtime.") is None


@pytest.fixture
def home(tmp_path):
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    return str(tmp_path)


@pytest.mark.parametrize("told", ["", "/jvm/8"])
def test_a_recorded_java_is_not_looked_for_again(home, told):
    assert setup.java_is_settled(home, told, named_then="/jvm/8")


def test_make_within_make_uses_the_recorded_java(home):
    assert setup.java_is_settled(home, home, named_then="")


def test_after_a_change_of_java_home_java_is_looked_for_again(home):
    assert not setup.java_is_settled(home, "/jvm/21", named_then="/jvm/8")


def test_a_java_that_was_removed_is_looked_for_again(home):
    Path(home, "bin/java").unlink()
    assert not setup.java_is_settled(home, "", named_then="")


def test_before_the_first_setup_no_java_is_recorded():
    assert not setup.java_is_settled("", "", named_then="")


@pytest.mark.parametrize(
    ("output", "what", "then"),
    [
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "refused", "again"),
        ("OSError: [Errno 28] No space left on device", "disk is full", "free about 3 GB"),
        ("Failed to establish a new connection: Errno -3", "registry", "network is back"),
        ("ERROR: No matching distribution found for pip==26.3", "registry", "PIP_INDEX_URL"),
        ("ReadTimeoutError: Read timed out.", "registry", "network is back"),
        ("error: subprocess-exited-with-error", "failed as shown above", "correct the cause"),
    ],
)
def test_the_error_of_a_failed_pip_says_what_happened_what_is_safe_and_what_to_do(output, what, then):
    said = setup.why_pip_failed(output)
    assert what in said
    assert then in said
    assert "Nothing outside .venv was touched" in said
    assert "\n" not in said


def test_a_step_that_needs_root_is_printed_as_one_command():
    said = setup.please_install("Spark needs Java", "sudo apt-get install x")
    assert said.startswith("Spark needs Java")
    assert "`sudo apt-get install x`" in said


def test_build_tools_are_taken_from_the_lock_with_their_hashes():
    lock = "pip==26 \\\n    --hash=sha256:aa\npip-tools==7 \\\n    --hash=sha256:bb\nsetuptools==84 \\\n    --hash=sha256:cc\n"
    assert setup.only({"pip", "setuptools"}, lock) == (
        "pip==26 \\\n    --hash=sha256:aa\nsetuptools==84 \\\n    --hash=sha256:cc\n"
    )


def test_in_a_container_without_ps_ps_is_installed_because_spark_needs_it(monkeypatch):
    asked = []
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None)
    monkeypatch.setattr(setup, "apt_install", lambda need, *packages: asked.append(packages))
    setup.install_ps()
    assert asked == [("procps",)]


def test_without_ps_and_apt_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(SystemExit, match=r"Spark's start script calls ps.*Nothing was changed; install it"):
        setup.install_ps()


def test_a_venv_that_is_a_link_and_its_target_are_left_alone(tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "kept").touch()
    (tmp_path / ".venv").symlink_to(shared)
    monkeypatch.setattr(setup, "VENV", tmp_path / ".venv")
    with pytest.raises(SystemExit, match="is a link"):
        setup.make_venv(Python(sys.executable, sys.version_info[:2]))
    assert (shared / "kept").exists()
