"""All sentences that people read are in one file, sentences.txt: whoever changes one reads it there beside the others."""

from pathlib import Path

from tests.sentences.collect import as_text, sentences, sentences_in

GOLDEN = Path(__file__).parent / "sentences.txt"


def test_the_golden_file_has_the_sentences_of_the_code():
    assert as_text(sentences()) == GOLDEN.read_text(encoding="utf-8"), (
        "sentences have changed: run `python -m tests.sentences`, and read the difference"
    )


def test_what_the_code_puts_into_a_sentence_is_shown_by_its_name():
    code = "tell(f'port {port} is taken by {other.owner}, with {counted(n, \"row\")} of {rows[0]}')"
    assert sentences_in(code) == ["port <port> is taken by <owner>, with <number> rows of <rows>"]


def test_an_error_has_its_class_before_it_and_short_texts_are_no_sentences():
    code = "raise BadSetting('this is wrong: write it ' f'as {example}') from Other('four words only here')"
    assert sentences_in(code) == ["BadSetting: this is wrong: write it as <example>"]


def test_docstrings_and_help_texts_are_no_sentences_of_ticks_and_runs():
    code = 'def f():\n    """A docstring that has many words."""\n    add("--x", help="a help text of many words")'
    assert sentences_in(code) == []


def test_a_constant_and_a_variable_stand_where_they_are_inserted_and_nowhere_else():
    code = """
SAFE = "no record of the stream is lost"
def f(port):
    why = f"the port {port} is taken by another program"
    raise BadSetting(f"{why}: {SAFE}")
"""
    assert sentences_in(code) == [
        "BadSetting: the port <port> is taken by another program: no record of the stream is lost"
    ]


def test_each_of_two_pieces_is_shown_and_one_that_may_be_missing_is_in_brackets():
    code = """
def f(count, why):
    end = f", because of {why}" if why else ""
    tell(f"the {'shards are' if count > 1 else 'shard is'} read once more" + end)
"""
    assert sentences_in(code) == ["the {shards are | shard is} read once more[, because of <why>]"]


def test_what_a_function_returns_stands_where_it_is_called_with_the_texts_that_it_is_given():
    code = """
def ended(what):
    return f"the {what} was read to its end"
def f(shard):
    tell(f"{shard}: {ended('shard')}, nothing is left")
"""
    assert sentences_in(code) == ["<shard>: the shard was read to its end, nothing is left"]


def test_what_is_added_to_a_text_stands_behind_it_in_brackets():
    code = """
def f(names, rows):
    tail = f" for the names {names}"
    if rows:
        tail += f", and {rows} rows of others"
    tell(f"the table is made{tail}")
"""
    assert sentences_in(code) == ["the table is made for the names <names>[, and <rows> rows of others]"]


def test_a_variable_whose_text_the_code_does_not_tell_is_shown_by_its_name():
    code = """
def f(names):
    text = "the names are "
    text += names
    for other in names:
        tell(f"we found out that {text} and {other}")
"""
    assert sentences_in(code) == ["we found out that <text> and <other>"]


def test_an_error_that_a_function_makes_has_its_sentence_as_a_whole():
    code = """
def refused(entry, allowed):
    return BadSetting(f"the tracker lists {entry}; allowed: {allowed}. No stream was added")
def f(entry):
    raise refused(entry, "a name, or a mapping with name")
"""
    assert sentences_in(code) == [
        "BadSetting: the tracker lists <entry>; allowed: a name, or a mapping with name. No stream was added"
    ]


def test_the_texts_of_one_call_are_on_one_line():
    code = "Diagnosis('hooks', f'{code} is no function', 'Correct the code or the setting that names it')"
    assert sentences_in(code) == [
        "hooks / <code> is no function / Correct the code or the setting that names it"
    ]


def test_what_machines_read_is_no_sentence():
    code = "table.update('SET owner = :owner AND attribute_exists(#key) OR beats = :seen')"
    assert sentences_in(code) == []


def test_an_entry_of_a_table_stands_beside_its_key():
    code = 'A, B = "number", "text"\nNAMES = {"maxRecords": Name(A, "10000", why="KCL takes it as a request to poll")}'
    assert sentences_in(code) == ["maxRecords / number / 10000 / KCL takes it as a request to poll"]


def test_what_a_function_inserts_into_its_own_sentence_is_no_sentence():
    code = """
def asking(what):
    tell(f"there is no answer about {what}, and nothing was changed")
def f(name):
    asking(f"an earlier metadata file of the table {name}")
"""
    assert sentences_in(code) == ["there is no answer about <what>, and nothing was changed"]
