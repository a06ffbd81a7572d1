"""Schemas in DDL, by our own parser: what is wrong is told with its word and its place, and what is right are Spark's types."""

import pytest

from headrace.pipeline.lake.table.schema import DAY
from headrace.pipeline.settings.ddl import WrongDdl, read_ddl
from headrace.pipeline.settings.rules.schema import OWN_COLUMNS
from headrace.pipeline.typed.json.column_types import ddl_of, struct_of_fields
from headrace.pipeline.typed.table import PROVENANCE

WRONG = [
    ("id BIGINT, d DECIMAL(40,2)", "DECIMAL(40,2)", "a decimal has 1 to 38 digits, and this one has 40"),
    ("id BIGINT, d DECIMAL(4,5)", "DECIMAL(4,5)", "can't have 5 digits after its point"),
    ("id BIGINT, d DECIMAL(4,2,1)", "DECIMAL(4,2,1)", "two numbers at most"),
    ("d DECIMAL(4,-2)", "-", "within backquotes"),
    ("id BIGINTT", "BIGINTT", "can't have this type; allowed: BOOLEAN, TINYINT"),
    ("id BIGINT, typ", "", "the type of the column typ is missing"),
    ("id BIGINT,", "", "a column's name is needed here"),
    ("id BIGINT name STRING", "name", "a comma is missing before this word"),
    ("id INT DEFAULT 3", "DEFAULT", "after a type only NOT NULL and COMMENT '...' can stand"),
    ("id BIGINT, Id INT", "Id", "the column Id is there and id too; capital letters make no difference"),
    ("s STRUCT<a: INT, a: INT>", "a", "the column a is there twice"),
    ("s STRUCT<>", "STRUCT", "a STRUCT needs a field"),
    ("s STRUCT<a: INT", "", "a comma or a > is missing"),
    ("l ARRAY<INT NOT NULL>", "NOT", "except for a field of a STRUCT there"),
    ("l ARRAY", "", "a < is missing after ARRAY"),
    ("m MAP<STRING>", ">", "a , is missing"),
    ("id INT NOT", "", "NULL is missing after NOT"),
    ("id INT COMMENT id", "id", "a text in quotes is needed after COMMENT"),
    ("id INT COMMENT 'x", "'", "this quote has no end"),
    ("id INT /* x", "/", "this comment has no end"),
    ("name VARCHAR(10)", "VARCHAR(10)", "write STRING"),
    ("at TIME, id INT", "TIME", "can't have this type"),
    ("id INT(3)", "INT(3)", "can't have this type"),
    ("1d INT", "1d", "a column's name is needed here"),
    ("`a.b` INT", "`a.b`", "a dot in a name would mean a part of a struct"),
    ("`` INT", "``", "can't be empty"),
    ("x-y INT", "-", "only be in a name within backquotes"),
    ("x " + "ARRAY<" * 101 + "INT" + ">" * 101, "ARRAY", "more than 100 levels"),
    (" -- nothing\n", "", "names no column"),
]


@pytest.mark.parametrize(("text", "word", "why"), WRONG)
def test_what_is_wrong_is_told_with_its_word(text: str, word: str, why: str):
    with pytest.raises(WrongDdl) as told:
        read_ddl(text)
    assert why in told.value.why
    assert told.value.word == word
    if word:
        assert text[told.value.offset :].replace(" ", "").startswith(word)


def test_comments_quotes_and_capital_letters_are_read_as_spark_reads_them():
    text = """-- of the shop
    ID bigint Not Null COMMENT 'it''s the "id"' 'too', /* a
    long one */ `order``s` struct<x: int NOT NULL COMMENT "a\\"b", `y z` DECIMAL( 5 , 2 )>, m map<string, Float>"""
    columns = read_ddl(text)
    assert [(each.name, each.required, each.comment) for each in columns] == [
        ("ID", True, 'it\'s the "id"too'),
        ("order`s", False, ""),
        ("m", False, ""),
    ]
    told = ddl_of(struct_of_fields([each.field for each in columns]))
    assert (
        told
        == "ID BIGINT NOT NULL, `order``s` STRUCT<x: INT NOT NULL, `y z`: DECIMAL(5,2)>, m map<STRING, FLOAT>"
    )
    assert [each.field["type"] for each in read_ddl(told)] == [
        "long",
        {
            "type": "struct",
            "fields": [
                {"name": "x", "type": "integer", "nullable": False, "metadata": {}},
                {"name": "y z", "type": "decimal(5,2)", "nullable": True, "metadata": {}},
            ],
        },
        columns[2].type,
    ]


def test_each_column_of_a_typed_table_is_taken():
    assert {*PROVENANCE, DAY} <= OWN_COLUMNS
