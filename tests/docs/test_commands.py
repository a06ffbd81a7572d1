"""Each command in the documents exists, with its options, and each link has a target.

These tests run no command. tests/docs/test_safe_commands.py runs the commands that change nothing, and tests/demo and
tests/e2e run those that start something long.
"""

import re
import shlex
from pathlib import Path

import pytest

from headrace.pipeline.cli import COMMANDS, _parser
from headrace.pipeline.settings.component_file import Component
from headrace.pipeline.settings.file import parse_settings, read_settings
from tests.docs.pages import PAGES, ROOT, named

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`(make|headrace)\s+([a-z][a-z-]*)[^`]*`(?!`)")
_LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")


def blocks(language: str) -> list[tuple[str, str]]:
    return [
        (named(p), body) for p in PAGES for lang, body in _BLOCK.findall(p.read_text()) if lang == language
    ]


def commands(name: str) -> list[list[str]]:
    lines = (line for _, body in blocks("sh") for line in body.splitlines())
    words = (shlex.split(line, comments=True) for line in lines)
    return [[w for w in said if "=" not in w or said.index(w)] for said in words if name in said[:2]]


def targets() -> list[str]:
    return re.findall(r"^([a-z-]+)(?= *[:a-z])", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("said", commands("make"), ids=" ".join)
def test_every_make_target_in_the_documents_exists(said: list[str]) -> None:
    assert said[said.index("make") + 1] in targets()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_named_in_a_sentence_exists(page: Path) -> None:
    known = {"make": set(targets()), "headrace": set(COMMANDS)}
    said = _INLINE.findall(page.read_text())
    assert [each for each in said if each[1] not in known[each[0]]] == []


@pytest.mark.parametrize("said", commands("headrace"), ids=" ".join)
def test_every_headrace_command_in_the_documents_parses(said: list[str]) -> None:
    words = said[said.index("headrace") + 1 :]
    assert _parser(words[0]).parse_args(words).command == words[0]


def test_the_documents_mention_make_demo_and_make_test() -> None:
    assert ["make", "demo"] in commands("make")
    assert ["make", "test"] in commands("make")


@pytest.mark.parametrize(("page", "text"), blocks("yaml"))
def test_every_settings_example_in_the_readme_is_valid(page: str, text: str, tmp_path: Path) -> None:
    if text.startswith("type: "):
        if "application:" in text:
            file = tmp_path / "defs.yaml"
            file.write_text(text)
            filled_in = Component(0, lambda _: "orders")
            assert read_settings(file, {}, component=filled_in).settings.application
    elif "application:" in text:
        assert parse_settings(text, {}, name=page).settings.application


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_has_a_target(page: Path) -> None:
    dead = [to for to in _LINK.findall(page.read_text()) if not (page.parent / to).exists()]
    assert dead == []
