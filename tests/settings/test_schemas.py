"""Mistakes in the schemas and filters of targets are told when the settings are read, each with its file, its line and the wrong word."""

from pathlib import Path

import pytest

from headrace.pipeline.errors import BadSetting, WrongSettings
from headrace.pipeline.settings.file import parse_settings, read_settings

HEAD = "application: my-app\nstreams: [{name: s}]\nparse:\n"


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ('    schema: "id INT, d DECIMAL(40,2)"', 6),
        ("    schema: id INT, d DECIMAL(40,2)", 6),
        ("    schema: id INT,\n      name STRING,\n\n      d DECIMAL(40,2)\n    version: '2'", 9),
        ("    schema: >-\n      id INT,\n      d DECIMAL(40,2)", 8),
        ("    schema: |\n\n      id INT,\n      d DECIMAL(40,2), e INT", 9),
        ("    schema: 'id INT,\n      d DECIMAL(40,2)'", 7),
        ('    schema: "id INT, \\\n      d DECIMAL(40,2)"', 7),
    ],
)
def test_a_wrong_word_has_its_line_however_yaml_writes_the_text(lines: str, line: int):
    with pytest.raises(WrongSettings) as told:
        parse_settings(f"{HEAD}  - name: orders\n    table: lake.orders\n{lines}\n", {}, name="h.yaml")
    assert str(told.value).startswith(
        f"h.yaml:{line}: parse.0.schema of the target orders is wrong at 'DECIMAL(40,2)': a decimal has 1 to 38 digits"
    )


def test_each_wrong_schema_is_told_at_once_and_names_its_target():
    entries = [
        ("one", "id BIGINTT"),
        ("two", "shard_id STRING"),
        ("three", "id BIGINT, typ"),
        ("four", "m MAP<INT, STRUCT<a: MAP<STRING, INT>>>"),
        ("five", "id INT, x DOUBLE"),
    ]
    text = "".join(f'  - {{name: {name}, table: lake.{name}, schema: "{ddl}"}}\n' for name, ddl in entries)
    text = text.replace('x DOUBLE"', 'x DOUBLE", unique: {by: x, within: 1h}')
    with pytest.raises(WrongSettings) as told:
        parse_settings(HEAD + text, {}, name="h.yaml")
    lines = str(told.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == [f"h.yaml:{n}" for n in range(4, 9)]
    for line, (name, _) in zip(lines, entries, strict=True):
        assert f"of the target {name}" in line
    assert "at 'shard_id': Headrace itself gives the table a column shard_id" in lines[1]
    assert "the keys of a MAP can only be STRING" in lines[3]
    assert "unique.by of the target five: the key names x, whose type is double" in lines[4]


def test_a_variable_with_a_wrong_schema_is_named():
    text = f"{HEAD}  - {{name: o, table: lake.o, schema: id INT}}\n"
    with pytest.raises(
        WrongSettings,
        match=r"^HEADRACE__PARSE__0__SCHEMA: parse\.0\.schema of the target o is wrong at 'INTT'",
    ):
        parse_settings(text, {"HEADRACE__PARSE__0__SCHEMA": "id INTT"}, name="h.yaml")


def test_a_map_with_other_keys_is_allowed_where_a_function_makes_it():
    text = (
        f"{HEAD}  - {{name: o, table: lake.o, format: callable, callable: a:b, schema: 'm MAP<INT, INT>'}}\n"
    )
    assert parse_settings(text, {}, name="h.yaml").settings.parse[0].schema == "m MAP<INT, INT>"


def test_a_schema_and_a_filter_may_be_in_files_and_mistakes_there_have_their_lines(tmp_path: Path):
    settings = tmp_path / "h.yaml"
    settings.write_text(f"{HEAD}  - {{name: o, table: lake.o, schema: o.ddl, filter: o.sql}}\n")
    (tmp_path / "o.ddl").write_text("id BIGINT NOT NULL, -- as sold\n\n  name STRING\n")
    with pytest.raises(
        BadSetting, match=r"the filter file .*o\.sql of the target o can't be read \(FileNotFoundError\)"
    ):
        read_settings(settings, {})
    (tmp_path / "o.sql").write_text(" \n")
    with pytest.raises(BadSetting, match="is empty, so that no record could be judged"):
        read_settings(settings, {})
    (tmp_path / "o.sql").write_text("partition_key = 'a'\n")
    target = read_settings(settings, {}).settings.parse[0]
    assert (target.schema, target.filter) == (
        "id BIGINT NOT NULL, -- as sold\n\n  name STRING\n",
        "partition_key = 'a'\n",
    )
    assert target.called("filter") == f"`filter` of the target o ({settings}:4)"
    assert target.written.folder == str(tmp_path)
    (tmp_path / "o.ddl").write_text("id BIGINT,\nname STRINK\n")
    with pytest.raises(
        BadSetting, match=r"o\.ddl:2: the schema of the target o is wrong at 'STRINK': .*Nothing was written"
    ):
        read_settings(settings, {})
