"""`headrace import` writes a settings file that Headrace reads."""

from pathlib import Path

import pytest

from headrace.pipeline.cli import main
from headrace.pipeline.settings.file import read_settings

PROPERTIES = """
executableName = sample_kclpy_app.py
streamName = words
applicationName = PythonKCLSample
initialPositionInStream = TRIM_HORIZON
RetrievalMode = POLLING
"""


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    file = tmp_path / "kcl.properties"
    file.write_text(PROPERTIES)
    return file


def test_the_written_file_can_be_used_and_notes_go_aside(
    properties: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = properties.with_name("headrace.yaml")
    assert main(["import", str(properties), "-o", str(output)]) == 0
    settings = read_settings(output, {}).settings
    assert (settings.application, settings.streams[0].name) == ("PythonKCLSample", "words")
    assert settings.processors[0].command == "python -m headrace.kclpy sample_kclpy_app.py"
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "line 6, RetrievalMode" in printed.err


def test_without_a_file_the_settings_are_printed_alone(
    properties: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(properties)]) == 0
    assert capsys.readouterr().out.startswith("application: PythonKCLSample\nstreams:\n  - name: words\n")


def test_a_file_that_is_there_is_left_as_it_is(properties: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = properties.with_name("headrace.yaml")
    output.write_text("mine")
    assert main(["import", str(properties), "-o", str(output)]) == 2
    assert output.read_text() == "mine"


def test_a_value_that_headrace_refuses_is_told_before_a_file_is_written(
    properties: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    properties.write_text(f"{PROPERTIES}tableName = a b\n")
    output = properties.with_name("headrace.yaml")
    assert main(["import", str(properties), "-o", str(output)]) == 2
    line = len(PROPERTIES.splitlines()) + 1
    assert f"{properties}:{line}: tableName became" in (told := capsys.readouterr().err)
    assert "coordination.lease_table" in told
    assert not output.exists()
