"""Functions of a user that parse, through a real Spark."""

import gzip
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.errors import BadSetting, Unreachable, WrongShape
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.settings.blocks.parse import Written
from headrace.pipeline.settings.choices import Compression, ParseFormat
from tests.typed.parsings import A, Bed
from tests.typed.spark_parsings import of_a_callable, parsing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


def test_a_callable_makes_rows_sets_some_aside_and_drops_others(spark: "SparkSession", tmp_path: Path):
    bed = Bed(tmp_path)
    bed.land(A, {1: b"one", 2: b"bad", 3: b"skip", 4: b"two"})
    made = parsing(bed, spark, **of_a_callable("upper", schema="name STRING, by STRING", version="7"))
    wave = made.wave()
    assert (wave.landed, wave.aside, wave.dropped) == (2, 1, {"callable": 1})
    rows = sorted((row["name"], row["by"]) for row in read.rows(bed.typed()).to_pylist())
    assert rows == [("ONE", "7"), ("TWO", "7")]
    (aside,) = read.rows(bed.quarantine()).to_pylist()
    assert (aside["data"], aside["reason"]) == (b"bad", "it is bad")


def test_a_redrive_takes_what_a_callable_has_set_aside_as_it_is_also_where_payloads_have_to_be_compressed(
    spark: "SparkSession", tmp_path: Path
):
    """The callable gets inflated payloads, and puts what it can't read into quarantine like that."""
    bed = Bed(tmp_path)
    bed.land(A, {1: gzip.compress(b"bad"), 2: gzip.compress(b"one")[:-2], 3: gzip.compress(b"one")})
    settings = of_a_callable("upper", schema="name STRING, by STRING", compression=Compression.GZIP)
    wave = parsing(bed, spark, **settings).wave()
    assert (wave.landed, wave.aside) == (1, 2)
    corrected = parsing(bed, spark, **{**settings, **of_a_callable("tolerant", version="2")})
    (portion,) = replace(bed.redriving(), ports=corrected.ports).portions()
    assert (portion.rows, portion.landed) == (2, 1)
    assert {row["name"] for row in read.rows(bed.typed()).to_pylist()} == {"ONE", "BAD"}
    (aside,) = read.rows(bed.quarantine()).to_pylist()
    assert "its end is missing" in aside["reason"]


def test_a_callable_that_returns_rows_twice_fails_or_disagrees_with_its_schema_moves_nothing(
    spark: "SparkSession", tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    bed = Bed(tmp_path)
    bed.land(A, {1: b"one"})
    with pytest.raises(WrongShape, match="came back twice"):
        parsing(bed, spark, **of_a_callable("twice", schema="name STRING, by STRING")).wave()
    with pytest.raises(Unreachable, match="no such currency"):
        parsing(bed, spark, **of_a_callable("fails", schema="name STRING")).wave()
    with pytest.raises(
        Unreachable, match="a time in the column seen that is before the year 1 or after the year 9999"
    ):
        parsing(bed, spark, **of_a_callable("far_away", schema="seen ARRAY<TIMESTAMP>")).wave()
    with pytest.raises(BadSetting, match=r"the column by int in its schema, and .* returned string"):
        parsing(bed, spark, **of_a_callable("upper", schema="name STRING, by INT")).wave()
    with pytest.raises(BadSetting, match="can't be imported"):
        parsing(bed, spark, **of_a_callable("nothing", schema="name STRING")).wave()
    with pytest.raises(
        BadSetting, match="is wrong at 'STRIN': a column of an Iceberg table can't have this type"
    ):
        parsing(bed, spark, schema="name STRIN").wave()
    with pytest.raises(BadSetting, match="at 'ID': the column ID is there and id too"):
        parsing(bed, spark, schema="id INT, ID STRING").wave()
    for wrong in ("id > 3", "record IS NULL AND (", "1"):
        with pytest.raises(
            BadSetting,
            match=r"can't read the filter of the target orders: .*correct `filter` of the target orders",
        ):
            parsing(bed, spark, schema="id INT", filter=wrong).wave()
    # Spark's own log has the JVM's whole stack; the sentence says what is wrong.
    assert "QueryContextLogger" not in capfd.readouterr().err
    with pytest.raises(BadSetting, match="at 'stream': Headrace itself gives"):
        parsing(bed, spark, schema="stream STRING").wave()
    with pytest.raises(BadSetting, match="a dot in a name"):
        parsing(bed, spark, schema="`a.b` INT").wave()
    assert "by" in bed.typed().open().schema().column_names
    assert bed.typed().load().positions.of(A) is None
    assert bed.parsed() == bed.set_aside() == []


def test_the_function_in_the_documentation_does_what_the_page_says(spark: "SparkSession", tmp_path: Path):
    page = (Path(__file__).parents[2] / "docs" / "use" / "typed-formats.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "my_parsers.py").write_text(code)
    bed = Bed(tmp_path)
    bed.land(A, {1: b"sensor-7;21.5", 2: b"sensor-7", 3: b"sensor-8;warm"})
    settings: dict[str, Any] = {"callable": "my_parsers:readings", "schema": "sensor STRING, celsius DOUBLE"}
    settings["written"] = Written(str(tmp_path))
    wave = parsing(bed, spark, format=ParseFormat.CALLABLE, **settings).wave()
    assert (wave.landed, wave.aside, wave.dropped) == (1, 2, {})
    (row,) = read.rows(bed.typed()).to_pylist()
    assert (row["sensor"], row["celsius"]) == ("sensor-7", 21.5)
    reasons = {row["reason"] for row in read.rows(bed.quarantine()).to_pylist()}
    assert reasons == {"no number after the semicolon"}
