"""A .properties file is read as Java reads it."""

import pytest

from headrace.pipeline.multilang.properties import Property, properties_in


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("streamName = words", "streamName", "words"),
        ("streamName:words", "streamName", "words"),
        ("streamName words ", "streamName", "words"),
        ("  streamName=words\r\n", "streamName", "words"),
        ("stream\\u004eame=wo\\u0072ds", "streamName", "words"),
        ("executableName = python \\\n    my_app.py", "executableName", "python my_app.py"),
        ("a\\=b = c\\\\d", "a=b", "c\\d"),
        ("streamName", "streamName", ""),
        ("url = http://127.0.0.1:4567/#x", "url", "http://127.0.0.1:4567/#x"),
    ],
)
def test_an_entry_has_the_name_and_the_value_that_java_reads(text: str, name: str, value: str) -> None:
    assert [(entry.name, entry.value) for entry in properties_in(text)] == [(name, value)]


def test_comments_and_empty_lines_are_no_entries_and_count_as_lines() -> None:
    text = "# one\n\n! two\\\nstreamName=words\nb=\\\n\n#x=1\n"
    assert list(properties_in(text)) == [Property("streamName", "words", 4), Property("b", "", 5)]
