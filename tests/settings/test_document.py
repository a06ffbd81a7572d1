"""docs/reference/settings.md agrees with the code."""

import re
from pathlib import Path

import pytest

from headrace.pipeline.cli.views.settings_doc import knob_tables, renewed
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.file import parse_settings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.values import knobs

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", TEXT, flags=re.DOTALL)


def test_the_committed_tables_are_up_to_date():
    assert renewed(TEXT) == TEXT, "run: headrace config --doc docs/reference/settings.md"


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_are_valid_settings(example: str):
    assert parse_settings(example, {}, name="docs/reference/settings.md").settings.application in {
        "my-app",
        "orders",
    }


def test_the_full_example_has_every_section():
    loaded = parse_settings(EXAMPLES[-1], {}, name="full")
    given = {key.partition(".")[0] for key, source in loaded.origins.items() if source.line}
    assert given == {key.partition(".")[0] for key, *_ in knobs(Settings)}


def test_the_variables_of_the_examples_take_effect():
    block = re.findall(r"```sh\n(.*?)```", TEXT, flags=re.DOTALL)[0]
    environ = {
        name: value.strip("'")
        for name, value in re.findall(r"^(HEADRACE\w+)=(.*)$", block, flags=re.MULTILINE)
    }
    loaded = parse_settings(EXAMPLES[0], environ, name="h.yaml")
    assert len(environ) == 5
    assert {str(source) for source in loaded.origins.values()} >= set(environ)


def test_every_setting_has_a_row_with_its_meaning():
    tables = knob_tables()
    for key, spec, _ in knobs(Settings, index="N"):
        assert len(re.findall(rf"^\| `{re.escape(key)}` \|.*\| \S.* \|$", tables, flags=re.MULTILINE)) == 1
        assert spec.metadata["doc"].endswith(".")


def test_each_row_has_five_cells():
    rows = [line for line in knob_tables().splitlines() if line.startswith("|")]
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {7}


def test_a_document_without_a_place_for_the_tables_is_refused():
    with pytest.raises(BadSetting, match="doesn't say where the tables belong"):
        renewed("# Settings\n")
