"""The job `<application>_prove` on a real table: its metadata, and that it fails where something is wrong."""

from pathlib import Path

import dagster as dg
import pytest

from headrace.pipeline.proof.wiring import ProofWiring
from tests.dagster.fixtures import MakeWorld
from tests.proof.proofs import LEFT, Family


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Family:
    made = Family(tmp_path)
    monkeypatch.setattr(ProofWiring, "proving", lambda _: made.proving())
    return made


def test_the_job_shows_the_proof_in_its_metadata(family: Family, make_world: MakeWorld):
    done = _run(make_world)
    (output,) = (event for event in done.all_events if event.is_successful_output)
    told = output.step_output_data.metadata
    assert {name: told[name].value for name in ("records proved", "things not proved", "mistakes")} == {
        "records proved": 53,
        "things not proved": 0,
        "mistakes": 0,
    }
    assert "proved: 53 records of 5 shards" in str(told["in short"].value)


def test_the_job_fails_where_something_is_wrong_and_names_it(family: Family, make_world: MakeWorld):
    family.change_rows(LEFT, 37, lambda row: [{**row, "sequence_number": "36"}])
    done = _run(make_world)
    assert not done.success
    (failure,) = (event for event in done.all_events if event.is_step_failure)
    assert "shardId-000000000002 36 is there 2 times" in str(failure.step_failure_data.user_failure_data)


def test_the_job_reads_all_rows_anew_if_it_is_asked_to(family: Family, make_world: MakeWorld):
    assert _rows_read(_run(make_world)) == 53
    assert _rows_read(_run(make_world)) == 0
    assert _rows_read(_run(make_world, {"all": True})) == 53


def _run(make_world: MakeWorld, config: dict[str, object] | None = None) -> dg.ExecuteInProcessResult:
    world = make_world()
    app = world.settings.application
    run_config = {"ops": {f"prove_{app}": {"config": config}}} if config else {}
    return world.defs.resolve_job_def(f"{app}_prove").execute_in_process(
        run_config=run_config, raise_on_error=False
    )


def _rows_read(done: dg.ExecuteInProcessResult) -> object:
    (output,) = (event for event in done.all_events if event.is_successful_output)
    return output.step_output_data.metadata["rows read"].value
