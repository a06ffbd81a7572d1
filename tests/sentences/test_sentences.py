"""All sentences that people read are in one file, sentences.txt: whoever changes one reads it there beside the others."""

import ast
from pathlib import Path

from tests.sentences.collect import as_text, sentences, sentences_in

GOLDEN = Path(__file__).parent / "sentences.txt"


def of_code(code: str) -> list[str]:
    return list(sentences_in(ast.parse(code), None))


def test_the_golden_file_has_the_sentences_of_the_code():
    assert as_text(sentences()) == GOLDEN.read_text(encoding="utf-8"), (
        "sentences have changed: run `python -m tests.sentences`, and read the difference"
    )


def test_what_the_code_puts_into_a_sentence_is_shown_by_its_name():
    code = "tell(f'port {port} is taken by {other.owner}, with {counted(n, \"row\")} of {rows[0]}')"
    assert of_code(code) == ["port <port> is taken by <owner>, with <number> rows of <rows>"]


def test_an_error_has_its_class_before_it_and_short_texts_are_no_sentences():
    code = "raise BadSetting('this is wrong: write it ' f'as {example}') from Other('four words only here')"
    assert of_code(code) == ["BadSetting: this is wrong: write it as <example>"]


def test_docstrings_and_help_texts_are_no_sentences_of_ticks_and_runs():
    code = 'def f():\n    """A docstring that has many words."""\n    add("--x", help="a help text of many words")'
    assert of_code(code) == []
