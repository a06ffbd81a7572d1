"""A window goes through a record processor by Dagster's job, on Spark, beside the live processor: its run dies by SIGKILL, and another run
finishes it. Each record counts once in the window's table, and the live table has what the live processor made of it."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from headrace.assets.names import slug
from headrace.pipeline.app.wiring import Wiring, wire
from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.lake.table.plain_read import rows
from headrace.pipeline.windows.window import ReplayWindow
from headrace.pipeline.windows.windows import WindowRequest
from tests.e2e.app import App
from tests.e2e.conftest import MakeApp
from tests.e2e.windows import Windows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

CODE = """
def rows(records, state):
    count = (state or 0)
    made = []
    for record in records:
        count += 1
        made.append({"word": record.binary_data.decode(), "place": count})
    return made, count
"""
PROCESSOR = {
    "name": "places",
    "callable": "places:rows",
    "table": "lake.places",
    "schema": "word STRING, place BIGINT",
    "records": 1,
}


def process(app: App) -> list[tuple[str, int]]:
    """The live processor catches up. Returns what its table has."""
    wiring = wire(app.settings)
    try:
        assert [*wiring.processors.processing(app.settings.processors[0], "a test").waves()][-1].is_last
        return made_in(wiring, "lake.places")
    finally:
        wiring.ports.close()


def made_in(wiring: Wiring, name: str) -> list[tuple[str, int]]:
    (processor,) = wiring.settings.processors
    table: Any = wiring.ports.processing(replace(processor, table=name), "a test").table
    names = ("shard_id", "sequence_number", "word", "place")
    found = rows(table, names).to_pylist() if table.exists() else []
    found.sort(key=lambda row: (row["shard_id"], int(row["sequence_number"])))
    return [(row["word"], row["place"]) for row in found]


def window_of(wiring: Wiring) -> ReplayWindow:
    """A window of all that has landed, for the processor."""
    return wiring.windows.windowing("a test").create(
        WindowRequest(ALL, how="a test", processor="places", into="lake.places_again")
    )


@pytest.mark.parametrize("place", ["begun 1", "staged 1", "deciding 1", "decided 1", "noting"])
def test_a_killed_run_of_a_window_through_a_processor_counts_each_record_once(make_app: MakeApp, place: str):
    app = make_app(more={"processors": [PROCESSOR]})
    (app.home / "places.py").write_text(CODE)
    app.settle()
    app.produce(20)
    app.read_all()
    live = process(app)
    assert sorted(word for word, _ in live) == sorted(app.put)
    windows, wiring = Windows(app), wire(app.settings)
    window = window_of(wiring)

    windows.kill_run(window, place)

    # What lands and is processed in between is of the live table alone.
    put = list(app.put)
    app.produce(6)
    app.read_all()
    after = process(app)
    assert after != live
    for _ in range(2):  # the second run finds nothing left to do
        assert windows.run(window).success
        assert made_in(wiring, "lake.places_again") == live
        assert windows.is_done(window)
    assert Counter(word for word, _ in made_in(wiring, "lake.places_again")) == Counter(put)
    assert made_in(wiring, "lake.places") == after
    proof = windows.prove()
    assert proof.holds, proof.lines()
    (told,) = [table for table in proof.tables if table.name == "lake.places_again"]
    assert "20 records processed into 20 rows, 0 in quarantine" in str(told)
    wiring.ports.close()


def test_the_job_makes_a_window_for_a_processor_by_its_config(make_app: MakeApp):
    app = make_app(more={"processors": [PROCESSOR]})
    (app.home / "places.py").write_text(CODE)
    app.settle()
    app.produce(8)
    app.read_all()
    job = app.defs.resolve_job_def(f"{slug(app.name)}_replay")
    config = {"from": "2020-01-01", "processor": "places", "into": "lake.places_again"}
    ran = job.execute_in_process(
        instance=app.instance,
        run_config={"ops": {f"replay_{slug(app.name)}": {"config": config}}},
        raise_on_error=False,
    )
    assert ran.success
    wiring = wire(app.settings)
    assert sorted(word for word, _ in made_in(wiring, "lake.places_again")) == sorted(app.put)
    assert made_in(wiring, "lake.places") == []
    (kept,) = wiring.windows.windowing("a test").windows.all()
    assert kept.window.into == "lake.places_again"
    wiring.ports.close()
