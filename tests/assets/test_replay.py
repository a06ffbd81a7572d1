"""The job that copies a window, or replace its rows in a typed table."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from headrace.assets.names import parsed_key
from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.windows.window import ReplayWindow, Word
from headrace.pipeline.windows.windows import WindowRequest
from tests.dagster.fixtures import MakeInstance
from tests.typed.parsings import SETTINGS as PARSE
from tests.typed.parsings import A, B, good
from tests.windows.deployment import PortsOfBed, as_ports
from tests.windows.replacements import ReplaceBed
from tests.windows.windows import SETTINGS


@dataclass
class Deployment:
    bed: ReplaceBed
    instance: dg.DagsterInstance
    job: dg.JobDefinition

    def run(self, window: str) -> dg.ExecuteInProcessResult:
        return self.ask({"window": window})

    def ask(self, config: dict[str, Any], *, first_run: str | None = None) -> dg.ExecuteInProcessResult:
        return self.job.execute_in_process(
            instance=self.instance,
            run_config={"ops": {"replay_windows_app": {"config": config}}},
            tags={} if first_run is None else {"dagster/root_run_id": first_run},
            raise_on_error=False,
        )


@pytest.fixture
def deployment(make_instance: MakeInstance, tmp_path: Path) -> Deployment:
    from headrace.pipeline.building import build_definitions

    bed = ReplaceBed(tmp_path / "lake")
    ports = as_ports(PortsOfBed(bed))
    job = build_definitions(replace(SETTINGS, parse=(PARSE,)), ports=ports).resolve_job_def(
        "windows_app_replay"
    )
    return Deployment(bed, make_instance(), job)


def told(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (done,) = [event for event in result.all_events if event.is_successful_output]
    return {name: value.value for name, value in done.step_output_data.metadata.items()}


def a_window(deployment: Deployment) -> ReplayWindow:
    deployment.bed.land(A, {1: good(1), 2: good(2)})
    deployment.bed.land(B, {7: good(7)})
    return deployment.bed.windowing().create(WindowRequest(ALL, how="a test"))


def test_a_run_copies_the_window_and_tells_its_rows_and_its_table(deployment: Deployment):
    window = a_window(deployment)
    result = deployment.run(window.id)
    assert result.success
    assert told(result) == {
        "window": window.id,
        "range": "a test",
        "table": f"lake.records_window_{window.id}",
        "rows": 3,
        "waves": 1,
        "notes": "none",
    }
    assert deployment.bed.copied(window) == deployment.bed.lake_rows()
    assert not result.get_asset_materialization_events(), "the table of a window has no asset"


def test_each_run_has_the_tag_by_which_dagster_can_limit_replays(deployment: Deployment):
    window = a_window(deployment)
    (run,) = [deployment.instance.get_run_by_id(deployment.run(window.id).run_id)]
    assert run is not None
    assert run.tags["headrace/replay"] == "windows-app"


def test_a_second_run_copies_nothing_more(deployment: Deployment):
    window = a_window(deployment)
    deployment.run(window.id)
    assert deployment.run(window.id).success
    assert deployment.bed.copied(window) == deployment.bed.lake_rows()


def test_a_run_of_a_cancelled_window_fails_and_says_how_to_go_on(deployment: Deployment):
    window = a_window(deployment)
    deployment.bed.windowing().say(window.id, Word.CANCELLED)
    result = deployment.run(window.id)
    assert not result.success
    failed = next(event for event in result.all_events if event.is_step_failure)
    assert "--resume" in str(failed.step_failure_data.user_failure_data)


def test_a_run_of_a_window_for_a_target_replaces_its_rows_in_the_typed_table(deployment: Deployment):
    bed = deployment.bed
    bed.parser.fixes = {good(2): good(102)}
    a_window(deployment)
    bed.catch_up()
    bed.parser.fixes = {}
    result = deployment.run(bed.window(ALL).id)
    assert result.success
    (made,) = result.get_asset_materialization_events()
    assert made.asset_key == parsed_key(SETTINGS, PARSE)
    assert made.materialization.metadata["range"].value == "a test"
    assert made.materialization.metadata["table"].value == "lake.orders"
    assert made.materialization.metadata["rows"].value == 3
    assert "lake.orders before still have the older rows" in str(made.materialization.metadata["notes"].value)
    assert bed.values() == {1: 1, 2: 2, 7: 7}


def test_a_run_of_a_window_that_is_done_leaves_no_event(deployment: Deployment):
    bed = deployment.bed
    a_window(deployment)
    bed.catch_up()
    window = bed.window(ALL)
    assert deployment.run(window.id).get_asset_materialization_events()
    assert not deployment.run(window.id).get_asset_materialization_events()


@pytest.mark.parametrize("config", [None, {"ops": {"replay_windows_app": {"config": {"window": ""}}}}])
def test_a_run_without_a_window_does_nothing_and_says_how_to_get_one(deployment: Deployment, config: Any):
    result = deployment.job.execute_in_process(
        instance=deployment.instance, run_config=config, raise_on_error=False
    )
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    assert "`headrace window create` makes one" in str(failed.step_failure_data.user_failure_data)


# --- windows that the run makes itself ------------------------------------------------------------------------


def test_a_run_makes_the_window_that_its_config_asks_for_and_copies_it(deployment: Deployment):
    a_window(deployment)
    result = deployment.ask({"from": "2026-01-01", "to": "2026-03-01"})
    assert result.success
    (window,) = [
        kept.window
        for kept in deployment.bed.windowing().windows.all()
        if kept.window.by == f"run {result.run_id}"
    ]
    assert told(result)["window"] == window.id
    assert window.how == (
        "ranges with records that arrived from 2026-01-01T00:00:00+00:00 to 2026-03-01T00:00:00+00:00"
    )
    assert deployment.bed.copied(window) == deployment.bed.lake_rows()


def test_a_run_copies_all_records_of_the_shard_in_its_config(deployment: Deployment):
    a_window(deployment)
    assert told(deployment.ask({"shard": A.shard_id}))["rows"] == 2


def test_a_run_that_is_executed_again_goes_on_with_the_window_of_the_first_one(deployment: Deployment):
    a_window(deployment)
    first = deployment.ask({"shard": A.shard_id})
    again = deployment.ask({"shard": A.shard_id}, first_run=first.run_id)
    assert told(again)["window"] == told(first)["window"]
    assert told(again)["rows"] == 0


def test_a_run_replaces_the_rows_of_the_target_in_its_config(deployment: Deployment):
    bed = deployment.bed
    bed.parser.fixes = {good(2): good(102)}
    a_window(deployment)
    bed.catch_up()
    bed.parser.fixes = {}
    result = deployment.ask({"from": "2026-01-01", "replace": PARSE.name})
    assert result.success
    (made,) = result.get_asset_materialization_events()
    assert made.asset_key == parsed_key(SETTINGS, PARSE)


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({}, "says neither"),
        ({"stream": "orders"}, "says neither"),
        ({"from": "yesterday"}, "isn't a time such as"),
        ({"from": "2026-02-01", "to": "2026-01-01"}, "an end after the beginning"),
        ({"from": "2030-01-01"}, "no range of records for this"),
        ({"window": "4f0c2a91", "from": "2026-01-01"}, "names a window and has from"),
        ({"shard": A.shard_id, "from": "2026-01-01"}, "`shard` and a time"),
        ({"from": "2026-01-01", "replace": "typo"}, "no target 'typo'"),
        ({"from": "2026-01-01", "replace": PARSE.name, "from_stream": True}, "choose one of both"),
    ],
)
def test_a_wrong_config_is_a_sentence_and_nothing_is_made(
    deployment: Deployment, config: dict[str, Any], word: str
):
    deployment.bed.land(A, {1: good(1)})
    result = deployment.ask(config)
    assert not result.success
    failed = next(event for event in result.all_events if event.is_step_failure)
    assert word in str(failed.step_failure_data.user_failure_data or failed.step_failure_data.error)
    assert list(deployment.bed.windowing().windows.all()) == []
