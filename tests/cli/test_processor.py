"""`headrace processor` on a real Spark, with the settings and the code of docs/use/processors.md."""

import json
import re
from pathlib import Path

import pytest

from headrace.pipeline.cli import STOPPED, main
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.typed.table import IcebergTyped
from tests.cli.projects import enter_project, settings_in
from tests.docs.pages import ROOT
from tests.typed.parsings import A, B, Bed

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.usefixtures("joined_spark"),
]
PAGE = (ROOT / "docs" / "use" / "processors.md").read_text(encoding="utf-8")
KCL = """
import json

from amazon_kclpy import kcl
from amazon_kclpy.v3 import processor


class RecordProcessor(processor.RecordProcessorBase):
    def initialize(self, initialize_input):
        self.last = None

    def process_records(self, process_records_input):
        for record in process_records_input.records:
            json.loads(record.binary_data)
            self.last = record

    def lease_lost(self, lease_lost_input):
        pass

    def shard_ended(self, shard_ended_input):
        shard_ended_input.checkpointer.checkpoint()

    def shutdown_requested(self, shutdown_requested_input):
        last = self.last
        shutdown_requested_input.checkpointer.checkpoint(last.sequence_number, last.sub_sequence_number)


if __name__ == "__main__":
    kcl.KCLProcess(RecordProcessor()).run()
"""
READ = """

def read(data):
    if data.startswith(b"{"):
        return json.loads(data)
    customer, amount = data.decode().split()
    return {"customer": customer, "amount": int(amount)}
"""


def block(language: str, begins: str) -> str:
    """The block of code on the page that begins so."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return next(text for text in blocks if text.startswith(begins))


def order(customer: str, amount: int) -> bytes:
    return json.dumps({"customer": customer, "amount": amount}).encode()


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    bed = Bed(tmp_path / "home")
    function, of_kcl = (
        block("yaml", "processors:\n  - name: totals"),
        block("yaml", "processors:\n  - name: orders"),
    )
    processors = function + of_kcl.removeprefix("processors:\n")
    enter_project(
        tmp_path,
        monkeypatch,
        settings_in(tmp_path, processors),
        totals=block("python", "import json"),
        my_app=KCL,
    )
    bed.land(A, {1: order("ann", 5), 2: order("bob", 1)})
    bed.land(B, {10: order("ann", 7)})
    return bed


def test_the_processors_of_the_page_work_from_the_shell_until_they_have_caught_up(
    bed: Bed, capsys: pytest.CaptureFixture[str]
):
    assert main(["processor", "run"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "totals: 3 records processed into 3 rows, 0 set aside",
        "orders: 3 records processed into 0 rows, 0 set aside",
    ]
    bed.land(A, {3: order("ann", 2)})
    assert main(["processor", "status", "totals"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "totals: lake.totals, 2 shards, 1 of them behind the lake table"
    assert "the lake table is at 3" in said[1]
    assert main(["processor", "run", "totals", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["processors"]
    assert (answer["records"], answer["rows"], answer["is_behind"]) == (1, 1, False)
    table = IcebergTyped(bed.lake.properties, "lake.totals", state=bed.state, clock=bed.clock)
    rows = read.rows(table, ("customer", "total")).to_pylist()
    assert sorted((row["customer"], row["total"]) for row in rows) == [
        ("ann", 5),
        ("ann", 7),
        ("ann", 7),
        ("bob", 1),
    ]


def test_an_unknown_processor_and_a_class_without_amazon_kclpy_are_told(
    bed: Bed, capsys: pytest.CaptureFixture[str]
):
    assert main(["processor", "run", "nobody"]) == STOPPED
    assert "the settings have no processor 'nobody' under `processors`; they have totals, orders" in (
        capsys.readouterr().err
    )
    settings = Path("headrace.yaml")
    settings.write_text(settings.read_text().replace("as_amazon_kclpy: true", "as_amazon_kclpy: false"))
    assert main(["processor", "run", "orders"]) == STOPPED
    assert "No module named 'amazon_kclpy'" in capsys.readouterr().err
    assert main(["processor", "run", "orders", "--as-amazon-kclpy"]) == 0
    assert "orders: 3 records processed into 0 rows" in capsys.readouterr().out


@pytest.mark.slow
def test_records_in_quarantine_are_given_again_from_the_shell_and_the_tables_are_proved(
    bed: Bed, capsys: pytest.CaptureFixture[str]
):
    settings, code = Path("headrace.yaml"), Path("totals.py")
    settings.write_text(
        settings.read_text().replace("name: totals\n", "name: totals\n    on_error: quarantine\n")
    )
    bed.land(A, {3: b"ann 2", 4: order("ann", 1)})
    assert main(["processor", "run", "totals"]) == 0
    assert "5 records processed into 4 rows, 1 set aside" in capsys.readouterr().out
    assert main(["redrive", "--target", "totals"]) == STOPPED
    assert "`headrace redrive --processor totals` those in its quarantine table" in capsys.readouterr().err
    assert main(["redrive", "--processor", "totals", "--dry-run"]) == 0
    assert capsys.readouterr().out.endswith(
        "1 record given again: 0 processed into 0 rows, 1 still set aside\n"
    )
    code.write_text(
        code.read_text().replace("json.loads(record.binary_data)", "read(record.binary_data)") + READ
    )
    assert main(["redrive", "--processor", "totals", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["targets"]
    assert (answer["given_again"], answer["mended"], answer["still_set_aside"]) == (1, 1, 0)
    assert main(["redrive", "--processor", "totals"]) == 0
    assert "no record in lake.totals_quarantine can be given again" in capsys.readouterr().out
    assert main(["prove"]) == 0
    said = capsys.readouterr().out
    assert "5 records processed into 5 rows, 0 in quarantine" in said
    table = IcebergTyped(bed.lake.properties, "lake.totals", state=bed.state, clock=bed.clock)
    rows = read.rows(table, ("shard_id", "customer", "total")).to_pylist()
    totals = sorted(row["total"] for row in rows if (row["shard_id"], row["customer"]) == (A.shard_id, "ann"))
    # The last one is that of the redrive: with the state after the record that came later.
    assert totals == [5, 6, 8]
