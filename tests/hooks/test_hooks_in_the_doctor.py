"""`headrace doctor` names code of hooks that isn't there: ticks tell it only once."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.pipeline.doctor.case import Case
from headrace.pipeline.doctor.diagnosis import Health
from headrace.pipeline.doctor.hooks import hooks_can_be_imported

SETTINGS = """
application: shop
streams_mode: multi
streams: [{name: orders}]
hooks: 'doctored_hooks:%s'
discovery: {tracker: 'doctored_hooks:streams'}
"""


@pytest.mark.parametrize(("name", "health"), [("Hooks", Health.WELL), ("Gone", Health.ILL)])
def test_code_that_cant_be_imported_is_an_illness(name: str, health: Health, tmp_path: Path) -> None:
    (tmp_path / "doctored_hooks.py").write_text("class Hooks: ...\ndef streams(): return []\n")
    file = tmp_path / "headrace.yaml"
    file.write_text(SETTINGS % name)
    of_hooks, of_tracker = hooks_can_be_imported(Case.of(str(file), {}))
    assert of_hooks.health is health
    assert f"doctored_hooks:{name}" in of_hooks.sentence
    assert of_tracker.health is Health.WELL
