"""The sensor that watches the application: checks, observations and complete hours, and how few events they are."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest
from dagster._core.loader import LoadingContextForTest

from headrace.assets import planned
from headrace.assets.checks import evaluation_of
from headrace.assets.names import hours_key, leases_key, proof_key, records_key, stream_key
from headrace.pipeline.checking.verdict import Verdict
from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.errors import TablesMissing, Throttled
from headrace.pipeline.settings.blocks.dagster import CheckSettings, DagsterSettings
from headrace.sensors.results import state_of_cursor
from tests.dagster.fixtures import MakeWorld
from tests.dagster.world import DagsterWorld, key
from tests.docs.pages import ROOT
from tests.lake.tables import patch


class Ahead(SystemClock):
    """The host's clock, and how far the test has moved it."""

    by = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.by

    def monotonic(self) -> float:
        return super().monotonic() + self.by.total_seconds()


@dataclass
class Watched:
    world: DagsterWorld
    clock: Ahead
    told: list[dg.AssetCheckEvaluation] = field(default_factory=list)
    """The evaluations of the last tick."""

    def tick(self, after: timedelta = timedelta(minutes=1)) -> dg.SensorResult:
        self.clock.by += after
        self.told = []
        # The worker lives: it has ticked all the while, and does it again.
        rows = self.world.world.rows._rows
        rows["w1"] = replace(rows["w1"], ticked_at=self.clock.now())
        self.world.tick("worker_w1")
        result = self.world.tick("watch")
        for event in result.asset_events:
            self.world.instance.report_runless_asset_event(event)
        return result

    def checks(self, _result: dg.SensorResult) -> dict[str, bool]:
        """The checks that the tick has told of."""
        return {event.check_name: event.passed for event in self.told}

    def observed(self, result: dg.SensorResult) -> dict[dg.AssetKey, dg.AssetObservation]:
        return {e.asset_key: e for e in result.asset_events if isinstance(e, dg.AssetObservation)}


@pytest.fixture
def watched(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> Watched:
    world = make_world()
    clock = Ahead()
    world.ports.clock = clock
    # Workers' rows are stamped by the same clock.
    world.world.rows._clock = clock
    world.settings = replace(
        world.settings,
        dagster=DagsterSettings(
            complete_from=datetime.now(UTC) - timedelta(hours=3), checks=CheckSettings(blocking=("no_gaps",))
        ),
    )
    world.world.settings = world.settings
    world.settle()
    world.world.produce(0)
    assert world.read().success
    watched = Watched(world, clock)
    write = planned.tell_check

    def noting(instance: dg.DagsterInstance, evaluation: dg.AssetCheckEvaluation, run: str | None) -> None:
        watched.told.append(evaluation)
        write(instance, evaluation, run)

    monkeypatch.setattr("headrace.sensors.told_checks.tell_check", noting)
    return watched


def test_each_check_is_told_at_first_and_then_only_after_a_change_or_some_hours(watched: Watched):
    first = watched.checks(watched.tick())
    assert len(first) == 11
    assert all(first.values()), first
    assert watched.checks(watched.tick()) == {}
    assert watched.checks(watched.tick(timedelta(hours=6))) != {}


def test_a_check_counts_as_evaluated_also_after_a_further_materialization_of_the_same_run(watched: Watched):
    """Else Dagster would show each check as not evaluated for as long as records flow."""
    world = watched.world
    watched.tick()
    made = world.instance.get_latest_materialization_event(world.records)
    assert made is not None
    world.instance.report_dagster_event(made.get_dagster_event(), made.run_id)
    check = dg.AssetCheckKey(world.records, "lag")
    (record,) = world.instance.event_log_storage.get_asset_check_execution_history(check, limit=5)
    assert asyncio.run(record.targets_latest_materialization(LoadingContextForTest(world.instance)))


def test_a_new_run_that_changes_the_table_has_its_checks_told_once(watched: Watched):
    watched.tick()
    watched.world.world.produce(0)
    assert watched.world.read().success
    told = watched.checks(watched.tick())
    assert len(told) == 8
    assert watched.checks(watched.tick()) == {}


def test_a_check_that_fails_is_told_at_once_and_each_hour_and_again_when_it_holds(watched: Watched):
    watched.tick()
    store = watched.world.world.leases
    row = store.get(key(1))
    assert row is not None
    store._rows[key(1)] = replace(row, failure=Failure(datetime.now(UTC), "access denied"))
    result = watched.tick()
    assert watched.checks(result) == {"shards_read": False}
    (event,) = watched.told
    assert event.metadata["offenders"].value.records[0].data["what"] == key(1)  # type: ignore[union-attr]
    assert result.skip_reason is not None
    told = str(result.skip_reason.skip_message)
    assert told.startswith("watch: shards_read fails: 1 shard can't be read"), (
        "a list of ticks shows the beginning"
    )
    assert "; 10 of 11 checks hold; " in told
    assert watched.checks(watched.tick()) == {}
    again = watched.checks(watched.tick(timedelta(hours=1)))
    assert again["shards_read"] is False
    store._rows[key(1)] = row
    assert watched.checks(watched.tick())["shards_read"] is True


def test_the_pages_sensor_alerts_once_where_a_check_begins_to_fail_and_once_where_it_holds_again(
    watched: Watched, capsys: pytest.CaptureFixture[str]
):
    page = (ROOT / "docs" / "use" / "dagster.md").read_text(encoding="utf-8")
    (block,) = (
        code
        for code in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        if "check_alerts" in code
    )
    names: dict[str, Any] = {}
    exec(block, names)
    defs = dg.Definitions.merge(watched.world.defs, dg.Definitions(sensors=[names["check_alerts"]]))
    cursor: str | None = None

    def alerts() -> list[str]:
        nonlocal cursor
        context = dg.build_sensor_context(
            instance=watched.world.instance, cursor=cursor, repository_def=defs.get_repository_def()
        )
        capsys.readouterr()
        names["check_alerts"](context)
        cursor = context.cursor
        return capsys.readouterr().out.splitlines()

    name = f"{watched.world.records.to_user_string()}:shards_read"
    assert alerts() == []
    watched.tick()
    assert alerts() == []
    store = watched.world.world.leases
    row = store.get(key(1))
    assert row is not None
    store._rows[key(1)] = replace(row, failure=Failure(datetime.now(UTC), "access denied"))
    watched.tick()
    (sentence,) = alerts()
    assert sentence.startswith(f"WARN {name}: 1 shard can't be read")
    watched.tick()
    assert alerts() == []
    store._rows[key(1)] = row
    watched.tick()
    assert alerts() == [f"{name} holds again"]


def test_a_lease_that_is_gone_leaves_hash_keys_that_nobody_reads(watched: Watched):
    watched.tick()
    del watched.world.world.leases._rows[key(1)]
    assert watched.checks(watched.tick())["hash_keys_covered"] is False


def test_the_stream_is_observed_with_lag_and_shards_each_five_minutes_while_something_moves(watched: Watched):
    seen = watched.observed(watched.tick())[stream_key("orders")].metadata
    app = watched.world.settings.application
    assert seen[f"{app}: open shards"].value == 2
    assert seen[f"{app}: lag (seconds)"].value == 0.0
    assert watched.observed(watched.tick()) == {}
    assert watched.observed(watched.tick(timedelta(minutes=6))) == {}, "nothing has moved"
    assert watched.observed(watched.tick(timedelta(hours=1))) != {}


def test_the_observation_of_the_lake_table_has_its_totals(watched: Watched):
    seen = watched.observed(watched.tick())[records_key(watched.world.settings)].metadata
    assert seen["dagster/row_count"].value == 10


def test_the_lease_table_is_observed_with_its_leases(watched: Watched):
    seen = watched.observed(watched.tick())[leases_key(watched.world.settings)].metadata
    assert {name: value.value for name, value in seen.items()} == {
        "rows": 2,
        "open leases": 2,
        "open leases without an owner": 0,
        "workers with leases": 1,
        "handovers under way": 0,
    }


def test_a_proof_that_did_not_hold_is_a_failing_check_until_the_next_one_holds(watched: Watched):
    world = watched.world
    proof = proof_key(world.settings)
    watched.tick()
    said = {"in short": "not proved: 2 rows are there twice"}
    world.instance.report_runless_asset_event(dg.AssetObservation(proof, metadata=said))
    assert watched.checks(watched.tick()) == {"last_proof": False}
    (event,) = watched.told
    assert (event.description, event.severity) == (said["in short"], dg.AssetCheckSeverity.ERROR)
    world.instance.report_runless_asset_event(dg.AssetMaterialization(proof))
    assert watched.checks(watched.tick()) == {"last_proof": True}


def test_six_hours_at_rest_leave_few_events(watched: Watched):
    first = len(watched.tick().asset_events) + len(watched.told)
    events = 0
    for _ in range(6 * 12):
        events += len(watched.tick(timedelta(minutes=5)).asset_events) + len(watched.told)
    assert events <= first + 12 + 6 + 6


def test_a_person_evaluates_all_checks_from_the_ui(watched: Watched):
    job = watched.world.defs.resolve_implicit_global_asset_job_def()
    keys = watched.world.defs.resolve_asset_graph().asset_check_keys
    result = job.get_subset(asset_check_selection=set(keys)).execute_in_process(
        instance=watched.world.instance
    )
    assert result.success
    found = {event.check_name: event for event in result.get_asset_check_evaluations()}
    assert len(found) == 11
    assert found["no_gaps"].blocking
    assert not found["lag"].blocking


def test_the_lag_is_a_number_that_dagster_can_plot_also_where_the_check_holds(watched: Watched):
    verdict = Verdict(
        check="lag", sentence="the shard that is furthest behind is 1 min behind", behind=timedelta(minutes=1)
    )

    evaluation = evaluation_of(watched.world.settings, verdict)

    assert evaluation.passed
    assert evaluation.metadata["seconds behind"] == dg.MetadataValue.float(60.0)


def test_where_nothing_can_be_looked_at_each_check_says_so_and_the_tick_keeps_its_cursor(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
):
    def refuses() -> None:
        raise Throttled("DynamoDB throttles")

    cursor = watched.tick().cursor
    monkeypatch.setattr(watched.world.world.leases, "scan", refuses)
    result = watched.tick()
    assert str(result.skip_reason).count("nothing was checked: DynamoDB throttles") == 1
    assert state_of_cursor(result.cursor) == state_of_cursor(cursor)
    assert str(result.cursor).startswith("nothing was checked: DynamoDB throttles | ")
    assert watched.told == []
    job = watched.world.defs.resolve_implicit_global_asset_job_def()
    keys = watched.world.defs.resolve_asset_graph().asset_check_keys
    run = job.get_subset(asset_check_selection=set(keys)).execute_in_process(instance=watched.world.instance)
    assert run.success
    assert {event.passed for event in run.get_asset_check_evaluations()} == {False}


def test_checks_that_nobody_can_look_at_stop_holding_after_three_looks_and_say_so_once(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
):
    """A check that stayed green while no look works would hide whatever happens meanwhile."""
    watched.tick()
    with monkeypatch.context() as away:
        away.setattr(watched.world.world.leases, "scan", _raising(Throttled("DynamoDB throttles")))
        failed_first = watched.clock.now() + timedelta(minutes=1)
        assert [watched.checks(watched.tick()) for _ in range(2)] == [{}, {}]
        told = watched.checks(watched.tick())
        assert len(told) == 11
        assert set(told.values()) == {False}
        gaps = next(event for event in watched.told if event.check_name == "no_gaps")
        assert gaps.severity is dg.AssetCheckSeverity.WARN
        assert gaps.blocking, "what depends on the table must not start as if no record were missing"
        assert gaps.description == (
            f"not known since {failed_first:%Y-%m-%d %H:%M} UTC, because nothing could be looked at: DynamoDB throttles. "
            "Before, the check held: each range of the ledgers begins where the one before ended"
        )
        assert [watched.checks(watched.tick()) for _ in range(3)] == [{}, {}, {}]
        assert len(watched.checks(watched.tick(timedelta(hours=1)))) == 11
        (gaps_again,) = (event for event in watched.told if event.check_name == "no_gaps")
        assert gaps_again.description == gaps.description, (
            "since when doesn't change, and no text is quoted twice"
        )
    again = watched.checks(watched.tick())
    assert len(again) == 11
    assert again["no_gaps"]


def test_a_single_look_that_works_begins_the_count_of_failed_looks_anew(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
):
    watched.tick()
    for _ in range(2):
        with monkeypatch.context() as away:
            away.setattr(watched.world.world.leases, "scan", _raising(Throttled("DynamoDB throttles")))
            assert [watched.checks(watched.tick()) for _ in range(2)] == [{}, {}]
        assert watched.checks(watched.tick()) == {}


def test_an_error_stays_an_error_while_nobody_can_look(watched: Watched, monkeypatch: pytest.MonkeyPatch):
    """Else an alert on errors alone would take the warning for the end of the error."""
    watched.tick()
    del watched.world.world.leases._rows[key(1)]
    assert watched.checks(watched.tick()) == {"hash_keys_covered": False}
    monkeypatch.setattr(watched.world.world.leases, "scan", _raising(Throttled("DynamoDB throttles")))
    for _ in range(3):
        watched.tick()
    (covered,) = (event for event in watched.told if event.check_name == "hash_keys_covered")
    assert covered.severity is dg.AssetCheckSeverity.ERROR
    assert "Before, the check failed: 1 stream or range of hash keys" in str(covered.description)


def test_looks_that_fail_for_a_reason_that_nobody_foresaw_leave_no_check_holding_either(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
):
    watched.tick()
    monkeypatch.setattr(watched.world.world.leases, "scan", _raising(RuntimeError("a bug")))
    for _ in range(3):
        with pytest.raises(RuntimeError, match="a bug"):
            watched.tick()
    assert {event.passed for event in watched.told} == {False}
    assert len(watched.told) == 11


def _raising(error: Exception) -> Callable[[], Any]:
    def refuses() -> None:
        raise error

    return refuses


def test_before_the_leader_has_made_the_tables_the_sensor_waits_and_nothing_is_wrong(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
):
    def refuses() -> None:
        raise TablesMissing("the table orders doesn't exist")

    monkeypatch.setattr(watched.world.world.leases, "scan", refuses)
    said = "watch: waits for the leader's next tick, which makes the coordination tables"
    assert said in str(watched.tick().skip_reason)


def test_an_asset_after_the_records_is_started_by_a_landing_and_not_by_checks_or_observations(
    watched: Watched,
):
    world = watched.world

    @dg.asset(
        deps=[world.records],
        automation_condition=dg.AutomationCondition.any_deps_updated()
        & ~dg.AutomationCondition.in_progress(),
    )
    def report() -> None: ...

    defs = dg.Definitions.merge(world.defs, dg.Definitions(assets=[report]))
    cursor: Any = None

    def asks() -> int:
        nonlocal cursor
        result = dg.evaluate_automation_conditions(defs, world.instance, cursor=cursor)
        cursor = result.cursor
        return result.total_requested

    asks()
    watched.tick()
    assert (asks(), asks()) == (0, 0)
    world.world.produce(1)
    assert world.read().success
    watched.tick()
    assert (asks(), asks()) == (1, 0)


def test_runs_that_land_records_evaluate_no_check(watched: Watched):
    assert [node.name for node in watched.world.job.nodes] == ["__".join(watched.world.records.path)]


def state_through(watched: Watched, through: datetime) -> None:
    """The lake table states that it has all records that arrived before this."""
    table = watched.world.world.table
    state = replace(table.load(), through={watched.world.world.stream: through})
    patch(table, "load", lambda: state)


def test_an_hour_is_told_once_when_the_table_has_all_its_records(watched: Watched):
    world, now = watched.world, datetime.now(UTC)
    state_through(watched, now)
    result = watched.tick()
    told = [e.partition for e in result.asset_events if isinstance(e, dg.AssetMaterialization)]
    assert told == [(now - timedelta(hours=n)).strftime("%Y-%m-%d-%H:00") for n in (3, 2, 1)]
    assert world.instance.get_materialized_partitions(hours_key(world.settings)) == set(told)
    assert "3 hours reported as complete" in str(result.skip_reason)
    for cursor in (result.cursor, None):
        world.cursors = dict.fromkeys(world.cursors, cursor)
        assert not [e for e in watched.tick().asset_events if isinstance(e, dg.AssetMaterialization)]
