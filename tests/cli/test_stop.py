"""`headrace stop` asks workers to stop, and waits until they hold no lease. It takes no lease from them."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.aws.leases.tables import DynamoTables
from headrace.pipeline.aws.leases.workers import DynamoWorkerStore
from headrace.pipeline.cli import dev, main
from headrace.pipeline.cli.stop import Stopped, start_workers, stop_and_wait, stop_workers
from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.file import read_settings
from headrace.pipeline.settings.model import Settings
from tests.duties.world import World
from tests.stand_in import a_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TWO_MINUTES = timedelta(seconds=120)


# --- in a small world, with the real duties -----------------------------------------------------------------


@pytest.fixture
def world() -> World:
    world = World(workers=("w1", "w2"), shards=4)
    world.settle()
    assert {row.owner for row in world.leases.scan().leases} == {"w1", "w2"}
    return world


def stopping(
    world: World,
    *names: str,
    wait: timedelta = TWO_MINUTES,
    meanwhile: Callable[[], object] | None = None,
    told: list[str] | None = None,
) -> Stopped:
    """`meanwhile`: called while the command waits; by default it lets the sensors tick."""

    def pause(seconds: float) -> None:
        (meanwhile or world.tick)()
        world.clock.advance(timedelta(seconds=seconds))

    progress = (told if told is not None else []).append
    return stop_and_wait(
        world.leases,
        world.rows,
        names,
        wait=wait,
        progress=progress,
        pause=pause,
        monotonic=world.clock.monotonic,
    )


def test_a_stopped_worker_gives_up_its_leases_and_the_other_worker_gets_them(world: World):
    stopped = stopping(world, "w2")
    assert not stopped.still_held
    assert "w2 held no open lease any more" in str(stopped)
    world.tick(3)
    assert {row.owner for row in world.leases.scan().leases} == {"w1"}


def test_if_all_workers_stop_no_lease_has_an_owner_and_the_lock_is_free(world: World):
    assert not stopping(world, "w1", "w2").still_held
    world.tick()
    assert {row.owner for row in world.leases.scan().leases} == {None}
    assert world.lock.read() is None


def test_the_command_waits_for_a_wave_at_work_and_says_so(world: World):
    busy = world.leases.held_by("w2").leases[0]
    world.leases.apply(change.claim(busy, "w2", "run/1"))
    world.runs.launch("run", "w2")
    world.runs.start("run")

    def meanwhile() -> None:
        world.tick()
        world.rows.beat_run("w2", "run/1")

    told: list[str] = []
    stopped = stopping(world, "w2", wait=timedelta(seconds=40), meanwhile=meanwhile, told=told)
    assert stopped.still_held == {"w2": 1}
    assert stopped.silent == ()
    assert "may still be in a wave" in str(stopped)
    assert told[0] == "2 open leases still held (w2), waited 0 s"
    assert told[-1].startswith("1 open lease still held (w2), waited ")


def test_a_worker_without_beats_is_reported(world: World):
    stopped = stopping(world, "w1", "w2", wait=timedelta(seconds=10), meanwhile=lambda: None)
    assert stopped.still_held == {"w1": 2, "w2": 2}
    assert stopped.silent == ("w1", "w2")
    assert stopped.after >= timedelta(seconds=10)
    assert "no sensor runs for it" in str(stopped)


def test_the_command_waits_for_leases_during_their_handover_too(world: World):
    """The owner index shows these leases under their next owner."""
    for row in world.leases.held_by("w2").leases:
        world.leases.apply(change.initiate_handover(row, "w1", "a test"))
    assert world.leases.held_by("w2").leases == ()
    assert stopping(world, "w2", wait=timedelta(seconds=3), meanwhile=lambda: None).still_held == {"w2": 2}


def test_the_command_doesnt_wait_for_ended_leases(world: World):
    world.tick()
    for row in world.leases.held_by("w2").leases:
        ended = replace(row, checkpoint=replace(row.checkpoint, sequence="SHARD_END"))
        world.leases.apply(change.delete_garbage(row, "a test"))
        world.leases.apply(change.create(ended, "a test"))
    assert not stopping(world, "w2", wait=timedelta(seconds=3), meanwhile=lambda: None).still_held


def test_a_worker_without_a_run_stops_at_once(world: World):
    told: list[str] = []
    assert stopping(world, "w3", told=told).after == timedelta(0)
    assert told == []


# --- the command --------------------------------------------------------------------------------------------


class App:
    """An application on the stand-in whose coordination tables the test makes."""

    def __init__(self, folder: Path, client: "DynamoDBClient", aws: LocalAws) -> None:
        name = a_table(client, "leaseKey")
        client.delete_table(TableName=name)
        self.file = folder / "headrace.yaml"
        self.file.write_text(
            f"application: {name}\nstreams: [{{name: s}}]\nworkers: [{{id: w1}}, {{id: w2}}]\n"
            f"aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}\n",
            encoding="utf-8",
        )
        self.settings: Settings = read_settings(str(self.file), {}).settings
        self.tables = DynamoTables(client, self.settings)
        self.leases = DynamoLeaseStore(client, name)
        self.workers = DynamoWorkerStore(client, self.settings.worker_table, clock=SystemClock())

    def stopped(self) -> set[str]:
        """The workers whose rows say `stopping`."""
        return {row.worker_id for row in self.workers.listing().workers if row.stopping}

    def run_stop(self, *words: str) -> int:
        """Run `headrace stop` with these words."""
        return main(["stop", "--config", str(self.file), *words])


@pytest.fixture
def app(tmp_path: Path, dynamodb: "DynamoDBClient", aws: LocalAws) -> App:
    app = App(tmp_path, dynamodb, aws)
    app.tables.create()
    return app


def test_all_workers_of_the_settings_stop_and_work_again(app: App, capsys: pytest.CaptureFixture[str]):
    app.workers.beat("elsewhere", "x", found=None)
    assert app.run_stop("--yes") == 0
    assert app.stopped() == {"w1", "w2"}
    assert re.match(r"stopped: w1, w2 held no open lease any more after \d+ s;", capsys.readouterr().out)
    assert app.run_stop("--cancel") == 0
    assert app.stopped() == set()
    assert capsys.readouterr().out == "working again: w1, w2\n"
    assert app.run_stop("--cancel") == 0
    assert capsys.readouterr().out == "none of these workers was stopped\n"


def test_one_worker_of_another_deployment_can_be_stopped(app: App):
    app.workers.beat("elsewhere", "x", found=None)
    assert app.run_stop("--yes", "--worker", "elsewhere", "--worker", "w2") == 0
    assert app.stopped() == {"elsewhere", "w2"}


def test_cancel_lets_only_the_named_workers_work_again(app: App):
    for name in ("elsewhere", "w1", "w2"):
        app.workers.set_stopping(name, stopping=True)
    assert app.run_stop("--cancel", "--worker", "w1") == 0
    assert app.stopped() == {"elsewhere", "w2"}
    assert app.run_stop("--cancel") == 0
    assert app.stopped() == {"elsewhere"}


def test_the_error_for_an_unknown_worker_names_similar_ones(app: App, capsys: pytest.CaptureFixture[str]):
    assert app.run_stop("--yes", "--worker", "w3") == 2
    said = capsys.readouterr().err
    assert "no worker 'w3'" in said
    assert "w1" in said
    assert app.stopped() == set()


def test_without_a_terminal_the_command_needs_yes(app: App, capsys: pytest.CaptureFixture[str]):
    assert app.run_stop() == 2
    assert "--yes" in capsys.readouterr().err
    assert app.stopped() == set()


@pytest.mark.parametrize(
    ("answer", "code", "stopped"), [("y", 0, {"w1", "w2"}), ("", 2, set()), ("no", 2, set())]
)
def test_at_a_terminal_the_command_asks_for_a_confirmation(
    app: App, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, stopped: set[str]
):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    assert app.run_stop() == code
    assert app.stopped() == stopped


def test_if_the_time_is_over_the_exit_code_says_to_try_again_later(
    app: App, capsys: pytest.CaptureFixture[str]
):
    app.leases.apply(change.create(Lease("shardId-0", owner="w1"), "a test"))
    assert app.run_stop("--yes", "--wait", "1ms") == 75
    assert "w1 1" in capsys.readouterr().out


def test_the_end_of_headrace_dev_stops_its_workers_and_its_start_lets_them_work(app: App):
    told: list[str] = []
    assert not stop_workers(app.settings, wait=timedelta(seconds=1), progress=told.append).still_held
    assert app.stopped() == {"w1", "w2"}
    assert start_workers(app.settings) == ("w1", "w2")
    assert start_workers(app.settings) == ()
    assert app.stopped() == set()


def stop_workers_before_runs(settings: Settings) -> None:
    dev._stop_workers(settings, Path("nobody looks at runs"))


@pytest.mark.parametrize("step", [dev._start_workers, stop_workers_before_runs])
def test_headrace_dev_starts_and_ends_even_if_aws_doesnt_answer(
    app: App,
    aws: LocalAws,
    step: Callable[[Settings], None],
    no_backoff: None,
    capsys: pytest.CaptureFixture[str],
):
    for operation in ("Scan", "GetItem"):
        aws.inject("error", operation=operation, resource=app.settings.worker_table, count=3)
    step(app.settings)
    assert "InternalFailure" in capsys.readouterr().out


def test_headrace_dev_starts_without_tables(
    tmp_path: Path, dynamodb: "DynamoDBClient", aws: LocalAws, capsys: pytest.CaptureFixture[str]
):
    dev._start_workers(App(tmp_path, dynamodb, aws).settings)
    assert capsys.readouterr() == ("", "")


def test_headrace_dev_names_a_stream_that_is_not_there_before_dagster_starts(
    app: App, capsys: pytest.CaptureFixture[str]
):
    dev._tell_of_missing_streams(app.settings)
    said = capsys.readouterr().out
    assert "there is no stream s in " in said
    assert "reading begins once the stream is there" in said


def test_a_second_ctrl_c_skips_the_wait_and_is_no_error(app: App, monkeypatch: pytest.MonkeyPatch):
    app.leases.apply(change.create(Lease("shardId-0", owner="w1"), "a test"))

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(stop_and_wait.__kwdefaults__ or {}, "pause", interrupt)
    stop_workers_before_runs(app.settings)
    assert app.stopped() == {"w1", "w2"}


def test_status_shows_which_workers_were_asked_to_stop(app: App, capsys: pytest.CaptureFixture[str]):
    assert app.run_stop("--yes", "--worker", "w1") == 0
    capsys.readouterr()
    assert main(["status", "--config", str(app.file), "--json"]) == 0
    assert {w["worker"]: w["stopping"] for w in json.loads(capsys.readouterr().out)["workers"]} == {
        "w1": True
    }
