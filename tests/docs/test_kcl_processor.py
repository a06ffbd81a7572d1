"""docs/start/kcl-processor.md, walked from its first command to its last by real processes."""

from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_start import WithoutDagster, reader
from tests.docs.walk import steps_of

STEPS = steps_of((ROOT / "docs" / "start" / "kcl-processor.md").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.usefixtures("joined_spark")
def test_each_step_from_a_properties_file_to_a_working_processor_prints_what_the_page_shows(tmp_path: Path):
    with reader(tmp_path, WithoutDagster) as walk:
        for step in STEPS:
            walk.take(step)
