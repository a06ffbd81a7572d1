"""The user's modules on Spark's workers, by the settings of a user: one process takes up a changed module with its next run."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipeline.app.wiring import Wiring, wire
from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.settings.file import read_settings
from headrace.pipeline.typed.done_wave import Wave
from tests.typed.parsings import A, Bed

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.usefixtures("joined_spark"),
]

SETTINGS = """
application: own-code
streams: [{{name: orders}}]
aws: {{region: eu-west-1}}
landing: {{home: {home}}}
parse:
  - name: orders
    table: lake.orders
    format: callable
    callable: own_rows:rows
    schema: name STRING NOT NULL, number INT
    filter: own.sql
"""
MODULE = """
from pyspark.sql import DataFrame, functions as F

from own_helper import SIGN, shout

# What PySpark makes while the module is imported, in which the process has no session yet.

TEXT = F.col("data").cast("string")


@F.udf("string")
def as_it_is(text):
    return text


def rows(records: DataFrame, context) -> DataFrame:
    @F.udf("string")
    def named(data):
        import own_late

        return None if data == b"none" else shout(bytes(data).decode()) + own_late.END

    return records.where(as_it_is(TEXT) != "skip").select(
        "record", named("data").alias("name"), F.lit(SIGN).alias("number")
    )
"""
HELPER = "SIGN = {}\n\n\ndef shout(text):\n    return text.upper() + '!' * SIGN\n"


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    (tmp_path / "headrace.yaml").write_text(SETTINGS.format(home=tmp_path / "home"))
    (tmp_path / "own_rows.py").write_text(MODULE)
    (tmp_path / "own_helper.py").write_text(HELPER.format(1))
    (tmp_path / "own_late.py").write_text("END = '?'\n")
    (tmp_path / "own.sql").write_text(
        "-- wholesale has a process of its own\nCAST(data AS STRING) NOT LIKE 'w%'\n"
    )
    return Bed(tmp_path / "home")


@pytest.fixture
def wiring(bed: Bed, tmp_path: Path) -> Iterator[Wiring]:
    assert bed.lake.iceberg.exists()
    wiring = wire(read_settings(tmp_path / "headrace.yaml", {}).settings)
    yield wiring
    wiring.ports.close()


def wave(wiring: Wiring, run: str) -> Wave:
    return wiring.targets.parsing(wiring.settings.parse[0], run).wave()


def test_a_changed_helper_reaches_the_workers_of_the_next_run_in_the_same_process(
    bed: Bed, wiring: Wiring, tmp_path: Path
):
    told = []
    for number in (1, 2):
        (tmp_path / "own_helper.py").write_text(HELPER.format(number))
        payloads = (b"one", b"none", b"skip", b"whole", b"two")
        bed.land(A, dict(enumerate(payloads, start=10 * number)))
        done = wave(wiring, f"run-{number}")
        told.append((done.landed, done.aside, done.dropped))
    # The filter and the function are counted apart.
    assert told == [(2, 1, {"filter": 1, "callable": 1})] * 2
    names = sorted((row["name"], row["number"]) for row in read.rows(bed.typed()).to_pylist())
    assert names == [("ONE!!?", 2), ("ONE!?", 1), ("TWO!!?", 2), ("TWO!?", 1)]
    assert {row["data"] for row in read.rows(bed.quarantine()).to_pylist()} == {b"none"}
    ledgers = [read_accounting(each.account) for page in bed.typed().pages() for each in page.ranges]
    codes = [each.code.partition(", schema")[0] for each in ledgers]
    assert len(set(codes)) == 2
    assert all(code.startswith("own_rows:rows, code ") for code in codes)


def test_a_module_that_cant_be_imported_makes_no_table_and_is_told_also_with_nothing_to_parse(
    bed: Bed, wiring: Wiring, tmp_path: Path
):
    (tmp_path / "own_helper.py").write_text("SIGN = 1\n")
    with pytest.raises(
        BadSetting, match=r"can't be imported \(ImportError: cannot import name 'shout'.*headrace\.yaml:10"
    ):
        wave(wiring, "run")
    assert not bed.typed().exists()
    assert not bed.quarantine().exists()


def test_what_a_filter_cant_judge_goes_to_quarantine_and_what_it_leaves_out_is_counted(
    bed: Bed, tmp_path: Path
):
    """With a function of the user, which never sees these records."""
    text = (tmp_path / "headrace.yaml").read_text()
    condition = "get_json_object(CAST(data AS STRING), '$.n') + 0 > 1"
    (tmp_path / "headrace.yaml").write_text(text.replace("own.sql", json.dumps(condition)))
    payloads = [b'{"n": 2}', b'{"n": 1}', b'{"m": 2}', b'{"n": "two"}', b"no json", b'{"n": 3}']
    bed.land(A, dict(enumerate(payloads)))
    wiring = wire(read_settings(tmp_path / "headrace.yaml", {}).settings)
    try:
        done = wave(wiring, "run")
    finally:
        wiring.ports.close()
    assert (done.landed, done.aside, done.dropped) == (2, 2, {"filter": 2})
    assert {row["data"]: row["reason"] for row in read.rows(bed.quarantine()).to_pylist()} == {
        b'{"n": "two"}': "the filter fails on the payload",
        b"no json": "the filter looks for JSON, and the payload isn't JSON",
    }
    bed_rows = {number for _, number, _ in bed.parsed()}
    assert bed_rows == {0, 5}
