"""An instance lives as long as its run keeps the claim on the shard: it goes on from wave to wave, and ends before the row is
released."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.core.leases.lag import lag_of
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.ports.tasks import Job, Work
from headrace.pipeline.processors.application.kept import begun, keeper_place, met
from headrace.pipeline.processors.application.places import (
    LONGEST_LOG,
    OLDEST_LOG,
    forget_old_logs,
    log_of,
    name_log,
    shorten_log,
)
from headrace.pipeline.processors.values import ChildSpec
from headrace.pipeline.settings.choices import OnProcessorError
from tests.duties.world import STREAM
from tests.eventually import eventually
from tests.memory.leases import MemoryLeaseStore
from tests.memory.tasks import LocalTasks
from tests.processors.application.conftest import OwnKeeper
from tests.processors.application.test_lost_answers import RepeatedTasks
from tests.processors.application.worlds import ApplicationWorld


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApplicationWorld]:
    monkeypatch.setenv("RECORDED", str(tmp_path / "recorded"))
    world = ApplicationWorld(shards=1, log=tmp_path / "recorded", keeps=True)
    world.settle()
    yield world
    # A process that is still kept would wait for the next wave.
    world.stage.let_go(world.stage._kept.copy())  # type: ignore[attr-defined]


def processes(world: ApplicationWorld) -> int:
    return len({call["process"] for call in world.recorded()})


def test_an_instance_goes_on_from_wave_to_wave_and_ends_with_the_run(world: ApplicationWorld):
    attempt = world.a_run()
    world.say("a", "leave")
    assert not attempt.wave().problems
    world.say("leave", "b")
    assert not attempt.wave().problems
    # What isn't checkpointed isn't handed out again to the instance that has it.
    assert world.calls() == ["initialize", "a", "leave", "leave", "b"]
    attempt.let_go()
    assert world.calls()[5:] == ["shutdown_requested", "lease_lost"]
    assert processes(world) == 1
    assert world.row().checkpoint.sequence == world.recorded("record")[-1]["number"][0]
    assert world.row().run_claim is None


def test_an_instance_is_found_again_whatever_the_tasks_write_rows_with(world: ApplicationWorld):
    attempt = world.a_run()
    world.say("a", "leave")
    attempt.wave()
    # As with keys that were renewed between two waves.
    world.store = SimpleNamespace(get=world.store.get, apply=world.store.apply)  # type: ignore[assignment]
    world.say("b")
    attempt.wave()
    assert world.calls() == ["initialize", "a", "leave", "b"]


def test_a_wave_asks_for_the_records_alone_where_a_process_is_kept(world: ApplicationWorld):
    """No read of the row that the run has handed over, and no request for an iterator."""
    rows = CountsReads(world.store)
    world.stage = replace(world.stage, task_rows=lambda: lambda: rows)  # type: ignore[type-var]
    attempt = world.a_run()
    for word in ("a", "b", "leave", "c"):
        world.say(word)
        assert not attempt.wave().problems
    assert rows.count == 1, "when the process began"
    last = [call["number"][0] for call in world.recorded("record")]
    assert [batch.iterator for batch in world.begun] == [None, *map(str, last[:3])]
    assert world.calls() == ["initialize", "a", "b", "leave", "c"]


@dataclass
class CountsReads:
    """The rows as a task sees them."""

    store: MemoryLeaseStore
    count: int = 0

    def get(self, key: str) -> Lease | None:
        self.count += 1
        return self.store.get(key)

    def apply(self, change: Change) -> Applied | Refused:
        return self.store.apply(change)


def test_a_task_that_spark_repeats_goes_on_with_the_kept_instance(world: ApplicationWorld):
    """It has the row as it was before the task worked the first time."""
    world.stage = replace(world.stage, tasks=RepeatedTasks(world.clock))  # type: ignore[type-var]
    world.say("a", "leave")
    attempt = world.a_run()
    assert not attempt.wave().problems
    assert world.calls()[:3] == ["initialize", "a", "leave"]
    assert processes(world) == 1


def test_a_shard_that_was_quiet_for_hours_isnt_hours_behind_while_its_records_are_processed(
    world: ApplicationWorld,
):
    world.say("a")
    world.wave()
    world.clock.advance(timedelta(hours=3))
    attempt = world.a_run()
    for word in ("b", "c"):
        world.say(word)
        attempt.wave()
        # The run keeps the row, so that nobody but the task has written it.
        lag = lag_of(world.row(), world.clock.now())
        assert lag is not None
        assert lag <= timedelta(seconds=1)


def test_an_instance_outlives_waves_without_a_record_until_its_shard_was_quiet_for_long(
    world: ApplicationWorld,
):
    attempt = world.a_run()
    world.say("a")
    attempt.wave()
    idle = world.settings.times.idle
    world.clock.advance(idle / 2)
    attempt.wave()
    assert world.calls() == ["initialize", "a"]
    world.clock.advance(idle / 2)
    attempt.wave()
    assert world.calls() == ["initialize", "a", "shutdown_requested", "lease_lost"]
    assert world.row().run_claim is None


@pytest.mark.slow
def test_what_an_instance_checkpoints_when_its_run_ends_counts(world: ApplicationWorld):
    world.processor = replace(world.processor, callable="recording:AtShutdown")
    world.begin_process()
    attempt = world.a_run()
    world.say("a", "b")
    attempt.wave()
    assert world.row().checkpoint.sequence == "TRIM_HORIZON"
    attempt.let_go()
    assert world.row().checkpoint.sequence == world.recorded("record")[-1]["number"][0]


@pytest.mark.slow
def test_a_handover_gives_the_instance_its_time_before_the_lease_goes(world: ApplicationWorld):
    world.processor = replace(world.processor, callable="recording:AtShutdown")
    world.begin_process()
    attempt = world.a_run()
    world.say("a", "b")
    attempt.wave()
    row = world.row()
    world.store._rows[row.key] = replace(row, owner="kcl", checkpoint_owner="w1")
    attempt.look()
    assert (world.row().owner, world.row().checkpoint_owner) == ("kcl", None)
    assert world.calls()[-2:] == ["shutdown_requested", "lease_lost"]
    assert world.row().checkpoint.sequence == world.recorded("record")[-1]["number"][0]


@pytest.mark.slow
def test_an_instance_hears_that_its_lease_was_lost_where_the_row_has_another_checkpoint(
    world: ApplicationWorld,
):
    attempt = world.a_run()
    world.say("a", "leave", "b", "leave")
    attempt.wave()
    row, numbers = world.row(), [call["number"][0] for call in world.recorded("record")]
    attempt.claims.held.clear()
    world.begin_process()
    # Another worker had the lease meanwhile, and gave it back.
    world.store._rows[row.key] = replace(row, run_claim=None, checkpoint=Checkpoint(numbers[3]))
    world.say("c")
    world.wave(run="second")
    assert world.calls()[5:] == ["lease_lost", "initialize", "c", "shutdown_requested", "lease_lost"]
    assert world.recorded("initialize")[1]["at"] == [numbers[3], 0]


@pytest.mark.slow
def test_the_next_run_goes_on_with_the_instance_of_a_run_that_was_killed(world: ApplicationWorld):
    attempt = world.a_run()
    world.say("a", "leave")
    attempt.wave()
    row = world.row()
    world.begin_process()
    world.store._rows[row.key] = replace(row, run_claim=None)
    world.say("b")
    world.wave(run="second")
    assert world.words() == ["a", "leave", "b"]
    assert (processes(world), len(world.recorded("initialize"))) == (1, 1)


@pytest.mark.slow
def test_an_instance_of_a_stream_that_was_made_anew_gets_no_record_of_the_new_one(world: ApplicationWorld):
    """Its row is at TRIM_HORIZON, as that of the new stream's shard is."""
    attempt = world.a_run()
    world.say("leave", "leave")
    attempt.wave()
    attempt.claims.held.clear()
    world.source.delete_stream(STREAM)
    world.clock.advance(timedelta(seconds=30))
    world.source.create_stream(STREAM, shards=1)
    world.begin_process()
    world.settle()
    assert world.row().checkpoint.sequence == "TRIM_HORIZON"
    world.say("a")
    report = world.wave(run="second")
    assert not report.problems
    assert world.calls()[3:6] == ["lease_lost", "initialize", "a"]


@pytest.mark.slow
def test_an_instance_whose_task_was_killed_has_its_grace_and_no_checkpoint(
    world: ApplicationWorld, tmp_path: Path
):
    """As Spark ends the task of a cancelled run: by SIGKILL, in the middle of a call."""
    marker = tmp_path / "steal"
    world.processor = replace(world.processor, callable="recording:AtShutdown")
    world.begin_process()
    world.say("a", f"steal:{marker}")
    task = os.fork()
    if not task:
        world.a_run().wave()
        os._exit(0)
    eventually(marker.exists, "the processor is at work")
    os.kill(task, signal.SIGKILL)
    os.waitpid(task, 0)
    marker.unlink()
    eventually(lambda: world.recorded("refused", "lease_lost")[1:], "the instance has ended")
    assert world.calls()[3:] == ["shutdown_requested", "refused", "lease_lost"]
    assert world.recorded("refused")[0]["error"] == "ShutdownException"


@pytest.mark.slow
def test_changed_code_gets_a_new_instance(world: ApplicationWorld):
    attempt = world.a_run()
    world.say("a")
    attempt.wave()
    row = world.row()
    world.processor = replace(world.processor, callable="recording:AtShutdown")
    world.begin_process()
    world.store._rows[row.key] = replace(row, run_claim=None)
    world.say("b")
    world.wave(run="second")
    assert world.calls()[:5] == ["initialize", "a", "lease_lost", "initialize", "b"]


@pytest.mark.slow
def test_an_instance_that_fails_with_records_of_an_earlier_wave_begins_anew_in_the_next_one(
    world: ApplicationWorld, tmp_path: Path
):
    world.processor = replace(
        world.processor, on_error=OnProcessorError.RETRY, backoff=world.settings.times.worker_tick * 0
    )
    world.begin_process()
    attempt = world.a_run()
    world.say("a", "leave")
    attempt.wave()
    once = f"once:{tmp_path / 'once'}"
    world.say(once)
    report = attempt.wave()
    assert not report.problems
    attempt.wave()
    attempt.let_go()
    assert world.words() == ["a", "leave", once, "leave", once]
    assert world.row().checkpoint.sequence == world.recorded("record")[-1]["number"][0]


def without_a_keepers_host(world: ApplicationWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Python that can't start a keeper, as on a host that is short of something."""
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\ncat >/dev/null\necho starting >>{}\necho 'out of handles' >&2\nexit 3\n".format(
            tmp_path / "starts"
        )
    )
    python.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(python))


def test_a_keeper_that_cant_start_stops_its_shard_alone_and_says_why(
    world: ApplicationWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    without_a_keepers_host(world, monkeypatch, tmp_path)
    world.say("a")
    (problem,) = world.wave().problems
    assert problem.lease_key == world.shard(0).shard_id
    assert (
        "its process couldn't be started: its keeper couldn't be started on this host; its last words: out of handles"
        in problem.why
    )
    assert world.row().checkpoint.sequence == "TRIM_HORIZON"


def test_a_keeper_that_cant_start_is_tried_as_often_as_on_error_says(
    world: ApplicationWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    without_a_keepers_host(world, monkeypatch, tmp_path)
    world.processor = replace(
        world.processor,
        on_error=OnProcessorError.RETRY,
        tries=2,
        backoff=world.settings.times.worker_tick * 0,
    )
    world.begin_process()
    world.say("a")
    assert world.wave().problems
    assert len((tmp_path / "starts").read_text().splitlines()) == 2


_STARTS_A_KEEPER = """
import sys
from pathlib import Path
from headrace.pipeline.processors.application.kept import begun
from headrace.pipeline.processors.values import ChildSpec

with begun(Path(sys.argv[1]), ChildSpec(code="", command=("cat",)), grace=1, idle=60) as lines:
    lines.keep(None)
"""


def test_a_task_whose_stderr_is_a_pipe_ends_while_its_keeper_stays(tmp_path: Path):
    place = tmp_path / "place"
    # Both ends wait for the end of the pipes, which a keeper that had one would hold open.
    done = subprocess.run(
        (sys.executable, "-c", _STARTS_A_KEEPER, str(place)), capture_output=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    with met(place, grace=0) as lines:
        assert lines is not None


def test_a_kept_process_that_no_task_can_meet_any_more_ends_at_once(tmp_path: Path):
    """Another one has its place: a task that was frozen comes back to it, after a second task has waited in vain."""
    place, pids = tmp_path / "place", tmp_path / "pids"
    pids.touch()
    spec = ChildSpec(command=("sh", "-c", f"echo $$ >>{pids}; exec cat"))
    for count in (1, 2):
        with begun(place, spec, grace=0, idle=3600) as lines:
            lines.keep(None)
        eventually(lambda: len(pids.read_text().split()) == count, "the process has begun")  # noqa: B023
    first, second = pids.read_text().split()
    eventually(lambda: not Path(f"/proc/{first}").exists(), "the first process has ended", within=60)
    assert Path(f"/proc/{second}").exists()
    with met(place, grace=0) as lines:
        assert lines is not None


def test_each_process_has_the_environment_of_the_task_that_began_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    words = tmp_path / "words"
    words.touch()
    spec = ChildSpec(command=("sh", "-c", f"echo $WORD >>{words}; exec cat"))
    for count, word in enumerate(("first", "second"), start=1):
        monkeypatch.setenv("WORD", word)
        with begun(tmp_path / word, spec, grace=0, idle=60):
            eventually(lambda: len(words.read_text().split()) == count, "the process has begun")  # noqa: B023
    assert words.read_text().split() == ["first", "second"]


def test_the_next_wave_begins_at_the_checkpoint_where_the_keeper_has_died(
    own_keeper: OwnKeeper, world: ApplicationWorld
):
    attempt = world.a_run()
    world.say("a", "leave")
    assert not attempt.wave().problems
    own_keeper.kill()
    world.say("b")
    assert not attempt.wave().problems
    # The record that wasn't checkpointed comes again.
    assert world.calls() == ["initialize", "a", "leave", "initialize", "leave", "b"]
    assert world.recorded("initialize")[1]["at"] == world.recorded("record")[0]["number"]
    assert world.row().checkpoint.sequence == world.recorded("record")[-1]["number"][0]


def test_instances_that_couldnt_be_told_to_end_are_told_of_once(
    world: ApplicationWorld, caplog: pytest.LogCaptureFixture
):
    attempt = world.a_run()
    world.say("a")
    attempt.wave()
    keys = world.stage._kept.copy()  # type: ignore[attr-defined]
    away = replace(world.stage, tasks=TasksAway(world.clock), _kept=keys.copy())  # type: ignore[type-var]
    for _ in range(2):
        away.let_go(keys)  # type: ignore[attr-defined]
        away._kept.update(keys)  # type: ignore[attr-defined]
    (warning,) = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert "the processes of 1 shard couldn't be told to end (Spark doesn't answer" in warning
    assert "what they haven't checkpointed comes again" in warning


class TasksAway(LocalTasks):
    def run(self, count: int, work: Work, job: Job) -> list[bytes]:
        raise Unreachable("Spark doesn't answer. Nothing is known of the job")


def test_a_person_finds_the_log_of_a_shard_by_its_names(world: ApplicationWorld):
    name = f"orders-{os.getpid()}"  # the folder is that of all tests
    world.processor = replace(world.processor, application=name)
    world.begin_process()
    world.say("fail")
    attempt = world.a_run()
    attempt.wave()
    log = keeper_place().with_name(f"{name}-w1-shardId-000000000000.log")
    try:
        assert "no such word" in log.read_text()
    finally:
        attempt.let_go()
        log.unlink()


def test_the_name_of_a_log_leads_to_the_place_that_was_named_last(tmp_path: Path):
    names = ("orders-app", "w1", "orders:1/shardId-000000000000")
    for place in (tmp_path / "0af3", tmp_path / "1be4", tmp_path / "1be4"):  # each wave names it
        log_of(place).write_text(place.name)
        name_log(place, *names)
    # The lease table is elsewhere now, or asked as somebody else: the process is kept at another place.
    assert (tmp_path / "orders-app-w1-orders_1_shardId-000000000000.log").read_text() == "1be4"
    assert len(list(tmp_path.iterdir())) == 3


def test_each_shard_has_a_log_of_its_own_however_long_the_names_are(tmp_path: Path):
    shards = [f"123456789012:{'s' * 128}:1767225600:shardId-{n:012d}" for n in range(2)]
    for n, shard in enumerate(shards):
        place = tmp_path / f"0af{n}"
        log_of(place).write_text(shard)
        name_log(place, "注文" * 60, "w1", shard)
        (link,) = tmp_path.glob(f"*shardId-{n:012d}.log")
        assert link.read_text() == shard


def test_a_log_that_has_become_too_long_keeps_its_newer_half_and_its_process_writes_on(tmp_path: Path):
    place = tmp_path / "p"
    line = b"x" * 1023 + b"\n"
    with log_of(place).open("ab", buffering=0) as log:
        log.write(b"the first line\n" + line * (LONGEST_LOG // len(line)) + b"the last line\n")
        shorten_log(place)
        log.write(b"a later line\n")
    lines = log_of(place).read_bytes().splitlines()
    assert lines[0] == b"(older lines of this log were deleted)"
    assert lines[-2:] == [b"the last line", b"a later line"]
    assert log_of(place).stat().st_size < 0.6 * LONGEST_LOG
    before = log_of(place).read_bytes()
    shorten_log(place)
    assert log_of(place).read_bytes() == before
    shorten_log(tmp_path / "nothing")


def test_logs_of_processes_that_have_long_ended_are_deleted_with_their_names(tmp_path: Path):
    now = 1e9
    for name, age in (("ended", 2 * OLDEST_LOG), ("alive", 2 * OLDEST_LOG), ("lately", 60.0)):
        place = tmp_path / name
        log_of(place).write_text(name)
        name_log(place, "app", name)
        for file in (log_of(place), place.with_name(f"app-{name}.log")):
            os.utime(file, (now - age, now - age), follow_symlinks=False)
    (tmp_path / "alive").touch()
    # Their names are told to go by the next look, which finds that the log isn't there.
    forget_old_logs(tmp_path, now)
    forget_old_logs(tmp_path, now)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"alive", "alive.log", "app-alive.log", "lately.log", "app-lately.log"}
