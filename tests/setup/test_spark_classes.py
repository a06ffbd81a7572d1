"""Java's options with which the Spark servers of tests start."""

import os
import subprocess
from pathlib import Path

from tests.spark_classes import options_of_tests

JAVA = Path(os.environ.get("JAVA_HOME", "/usr"), "bin", "java")


def said_by_java(archive: Path) -> str:
    command = [str(JAVA), *options_of_tests(archive).split(), "-version"]
    said: str = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return said.lower()


def test_java_does_without_an_archive_that_isnt_its_own_and_says_nothing_about_it(tmp_path: Path):
    plain = said_by_java(tmp_path / "none.jsa")
    (tmp_path / "damaged.jsa").write_bytes(b"written by another Java")
    assert "spark" not in options_of_tests(tmp_path / "none.jsa")
    assert f"{tmp_path}/damaged.jsa" in options_of_tests(tmp_path / "damaged.jsa")
    assert "openjdk" in plain or "java" in plain
    assert said_by_java(tmp_path / "damaged.jsa").replace(", sharing", "") == plain.replace(", sharing", "")
