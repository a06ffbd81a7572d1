"""The host of kept instances: a keeper that can't start or has died, the environment of each process, and the logs by which
people find it."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

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
from tests.eventually import eventually
from tests.memory.tasks import LocalTasks
from tests.processors.application.conftest import OwnKeeper
from tests.processors.application.worlds import ApplicationWorld


@pytest.fixture
def world(keeping_world: ApplicationWorld) -> ApplicationWorld:
    return keeping_world


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
        "the processor's process couldn't be started: the processor's keeper couldn't be started on this host; its last words: out of handles"
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
