"""Our own parser of DDL beside Spark's: what ours takes, Spark takes with the same types; what Spark refuses, ours refuses."""

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.settings.ddl import WrongDdl, read_ddl
from tests.settings.test_ddl import WRONG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

NAMES = st.sampled_from(
    [
        "a",
        "B",
        "_x",
        "1_a",
        "9z",
        "select",
        "not",
        "date",
        "struct",
        "null",
        "comment",
        "`a b`",
        "`é`",
        "`x``y`",
        "`1`",
    ]
)
PLAIN = st.sampled_from([
    *("BOOLEAN", "tinyint", "BYTE", "smallint", "SHORT", "INT", "integer", "BIGINT", "long", "FLOAT", "real", "DOUBLE", "STRING"),
    *("binary", "DATE", "timestamp", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DECIMAL", "dec(7)", "NUMERIC(38, 38)", "Decimal(12,2)"),
])  # fmt: skip
COMMENTS = st.sampled_from(
    ["", "", " COMMENT 'x'", " comment \"it's\" 'so'", " COMMENT 'it''s'", r" COMMENT 'a\'b\n'"]
)
NOT_NULL = st.sampled_from(["", "", " NOT NULL", " not  null"])
SPACES = st.sampled_from([", ", ",", " ,\n", ", -- so\n", " /* x */ , "])


@st.composite
def fields(draw: Any, kinds: Any, colon: str) -> str:
    parts = draw(st.lists(st.tuples(NAMES, kinds, NOT_NULL, COMMENTS), min_size=1, max_size=3))
    return str(draw(SPACES)).join(
        f"{name}{colon}{kind}{required}{comment}" for name, kind, required, comment in parts
    )


TYPES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.builds("ARRAY<{}>".format, inner),
        st.builds("map<{}, {}>".format, PLAIN, inner),
        st.builds("STRUCT<{}>".format, fields(inner, ": ")),
        st.builds("struct< {}>".format, fields(inner, " ")),
    ),
    max_leaves=5,
)
DDL = fields(TYPES, " ")
TOKENS = re.compile(r"`[^`]*`|'[^']*'|\w+|\s+|.", re.DOTALL)
SPOILS = ["", ",", ">", "<", "(", "INT", "BIGINTT", "NOT", "NULL", "'x'", "a", "40", "DECIMAL(40,2)", "DECIMAL(3,4)", ";", "-", ".", ":", "`"]  # fmt: skip


@st.composite
def spoiled(draw: Any) -> str:
    """A schema in which one token is another one, or is missing."""
    tokens = TOKENS.findall(draw(DDL))
    place = draw(st.integers(0, len(tokens) - 1))
    return "".join([*tokens[:place], draw(st.sampled_from(SPOILS)), *tokens[place + 1 :]])


def of_spark(spark: "SparkSession", text: str) -> Any:
    """The columns that Spark makes of it, as it writes types in JSON; None where Spark refuses it, or takes it for a type without a name."""
    from pyspark.errors import PySparkException

    try:
        client: Any = spark._client  # type: ignore[attr-defined]
        found = client._analyze(method="ddl_parse", ddl_string=text).parsed.jsonValue()
    except PySparkException:
        return None
    is_columns = isinstance(found, dict) and found["type"] == "struct" and not _NAMELESS.match(text)
    return found if is_columns else None


_NAMELESS = re.compile(r"\s*struct\s*<", re.IGNORECASE)


def ours(text: str) -> Any:
    try:
        return {"type": "struct", "fields": [each.field for each in read_ddl(text)]}
    except WrongDdl as wrong:
        return wrong


OWN_RULES = re.compile(
    r"twice|capital letters|can't have this type|write STRING|a STRUCT needs|1 to 38 digits|dot in a name|can't be empty|names no column"
)
"""What Spark takes, and no Iceberg table of ours can have."""


def check(spark: "SparkSession", text: str) -> bool:
    """Whether both take it."""
    mine, theirs = ours(text), of_spark(spark, text)
    if isinstance(mine, WrongDdl):
        assert theirs is None or OWN_RULES.search(mine.why), (text, str(mine), theirs)
        return False
    assert mine == theirs, text
    return True


@given(text=DDL)
def test_what_spark_reads_we_read_in_the_same_way(spark: "SparkSession", text: str):
    if not check(spark, text):
        # Only names that are there twice.
        assert re.search("twice|capital letters", str(ours(text)))


@given(text=spoiled())
def test_what_spark_refuses_we_refuse(spark: "SparkSession", text: str):
    check(spark, text)


@pytest.mark.parametrize(("text", "word", "why"), WRONG)
def test_each_mistake_that_we_name_is_one_for_spark_or_for_the_table(
    spark: "SparkSession", text: str, word: str, why: str
):
    assert word is not None
    assert why
    if "more than 100 levels" not in why:
        assert not check(spark, text)
