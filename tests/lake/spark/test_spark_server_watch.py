"""A local Spark server ends by itself after its last user. Processes that live as long as they are wanted stand for JVM and users."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.lake.spark.server import watch as server_watch
from headrace.pipeline.lake.spark.server.facts import servers_of_user
from headrace.pipeline.lake.spark.server.joining import stop_unused
from headrace.pipeline.lake.spark.server.process import PID, end, end_process, is_server, pid_of
from headrace.pipeline.lake.spark.server.users import joining, leave, use, users_of
from tests.eventually import eventually
from tests.spark_servers import a_server

STAYS = 0.2
"""Seconds that the servers of these tests stay without a user."""
ROOT = Path(__file__).parents[3]
_USER = (
    "import signal, sys; from pathlib import Path; from headrace.pipeline.lake.spark.server.users import use;"
    "use(Path(sys.argv[1]), 'a run'); print('uses', flush=True); signal.pause()"
)


def has_ended(folder: Path, pid: int) -> bool:
    return not is_server(pid, folder)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "server"
    made.mkdir()
    yield made
    leave(made)
    end(made)


class Users:
    """Processes that use the server of a folder."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def start(self, folder: Path) -> "subprocess.Popen[str]":
        process = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", _USER, str(folder)],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        self._stack.callback(process.kill)
        assert process.stdout is not None
        assert process.stdout.readline() == "uses\n"
        return process


@pytest.fixture
def users() -> Iterator[Users]:
    with ExitStack() as stack:
        yield Users(stack)


def await_one_stay(tmp_path: Path) -> None:
    """Wait until a server without users, started now, has ended: each other one without users has ended before."""
    other = tmp_path / "other"
    pid = a_server(other, STAYS)
    eventually(lambda: has_ended(other, pid), "the server without users has ended", every=0.02)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_ends_by_itself_after_its_last_user_however_that_one_ended(
    folder: Path, users: Users, how: signal.Signals
):
    first, last = users.start(folder), users.start(folder)
    server = a_server(folder, STAYS)
    first.kill()
    first.wait()
    assert [user.pid for user in users_of(folder)] == [last.pid]
    assert not has_ended(folder, server)
    last.send_signal(how)
    last.wait()
    eventually(lambda: has_ended(folder, server), "the server has ended", every=0.02)
    eventually(lambda: not server_watch.is_watched(folder), "the watch has ended, too", every=0.02)
    assert {path.name for path in folder.iterdir()} == {"join.lock", "watch.lock", "users"}
    assert list((folder / "users").iterdir()) == []


def test_a_user_that_was_stopped_keeps_its_server(tmp_path: Path, folder: Path, users: Users):
    user = users.start(folder)
    server = a_server(folder, STAYS)
    user.send_signal(signal.SIGSTOP)
    await_one_stay(tmp_path)
    assert not has_ended(folder, server)
    user.kill()
    eventually(lambda: has_ended(folder, server), "the server has ended", every=0.02)


def test_a_server_whose_starter_was_killed_before_the_server_was_up_ends_by_itself(
    folder: Path, users: Users
):
    """Without an address nobody can join it."""
    starter = users.start(folder)
    server = a_server(folder, STAYS)
    assert not (folder / "connect.json").exists()
    starter.kill()
    eventually(lambda: has_ended(folder, server), "the server has ended", every=0.02)


def test_a_server_whose_folder_was_deleted_ends_after_its_last_user(
    tmp_path: Path, folder: Path, users: Users
):
    """Nobody can join it, and nothing is left by which a person or a command would find it."""
    user = users.start(folder)
    server = a_server(folder, STAYS)
    shutil.rmtree(folder)
    try:
        await_one_stay(tmp_path)
        assert not has_ended(folder, server), "a process still uses it"
        user.kill()
        user.wait()
        eventually(lambda: has_ended(folder, server), "the server has ended", every=0.02)
    finally:
        end_process(server, folder)


def test_a_server_whose_folder_was_deleted_and_made_anew_ends_and_leaves_the_next_server_alone(folder: Path):
    first = a_server(folder, STAYS)
    shutil.rmtree(folder)
    use(folder, "the test")
    try:
        second = a_server(folder, STAYS)
        eventually(lambda: has_ended(folder, first), "the first server has ended", every=0.02)
        assert not has_ended(folder, second)
        assert server_watch.is_watched(folder)
        assert pid_of(folder) == second
    finally:
        end_process(first, folder)


def test_a_watch_that_can_write_no_file_ends_its_server_all_the_same(folder: Path):
    """As on a full disk. A folder with the name of the file that tells people when the server will end makes each write fail."""
    (folder / "unused.begun").mkdir()
    server = a_server(folder, STAYS)
    eventually(lambda: has_ended(folder, server), "the server has ended", every=0.02)


def test_a_server_that_a_process_joins_while_it_is_about_to_end_goes_on(tmp_path: Path, folder: Path):
    server = a_server(folder, STAYS)
    with joining(folder) as is_mine:
        assert is_mine
        await_one_stay(tmp_path)
        assert not has_ended(folder, server), "the watch ends no server while a process joins"
        use(folder, "the test")
    await_one_stay(tmp_path)
    assert not has_ended(folder, server)


def test_a_server_that_a_process_has_joined_since_the_watch_last_looked_goes_on(folder: Path):
    use(folder, "the test")
    server = a_server(folder, STAYS)
    assert not server_watch.ServerWatch(folder, STAYS, None, 0, 0).end_if_unused()
    assert not has_ended(folder, server)


def test_a_server_whose_watch_was_killed_is_watched_by_another_one(folder: Path):
    use(folder, "the test")
    server = a_server(folder, STAYS)
    watch = parent_of(server)
    os.kill(watch, signal.SIGKILL)
    eventually(lambda: not server_watch.is_watched(folder), "the watch is gone", every=0.02)
    server_watch.start(folder, STAYS)
    assert server_watch.is_watched(folder)
    assert not has_ended(folder, server)
    leave(folder)
    eventually(lambda: has_ended(folder, server), "the server has ended", every=0.02)


def parent_of(pid: int) -> int:
    shown = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(shown.stdout)


def test_an_old_process_id_that_the_server_of_another_project_has_by_now_ends_nothing(
    tmp_path: Path, folder: Path
):
    use(folder, "the test")
    server = a_server(folder, STAYS)
    other = tmp_path / "other"
    other.mkdir()
    (other / PID).write_text(str(server))
    assert not is_server(server, other)
    end(other)
    assert not has_ended(folder, server)


def test_a_command_that_ends_stops_the_server_only_if_no_other_process_uses_it(folder: Path, users: Users):
    user = users.start(folder)
    server = a_server(folder, STAYS)
    use(folder, "headrace dev")
    assert not stop_unused(folder)
    assert not has_ended(folder, server)
    user.kill()
    user.wait()
    assert stop_unused(folder)
    assert has_ended(folder, server)
    assert not server_watch.is_watched(folder)


def test_the_server_is_in_a_session_of_its_own_that_no_signal_of_its_starters_terminal_reaches(folder: Path):
    server = a_server(folder, STAYS)
    assert os.getsid(server) != os.getsid(0)
    assert os.getpgid(server) != os.getpgid(0)


def test_people_are_told_who_uses_a_server_and_when_it_ends(folder: Path, users: Users, capsys: Any):
    user = users.start(folder)
    server = a_server(folder, 60)

    def told() -> str:
        [one] = [one for one in servers_of_user() if one.is_own(folder)]
        return str(one)

    assert told().startswith(f"process {server}, since ")
    assert f"used by a run (process {user.pid}); it ends 5 minutes after its last user" in told()
    user.kill()
    user.wait()
    os.kill(parent_of(server), signal.SIGKILL)
    assert "used by no process; the process that would end it was killed" in eventually(
        lambda: told() if "was killed" in told() else None, "the missing watch is told", every=0.02
    )
    server_watch.start(folder, 60)
    assert "used by no process; it ends by itself at 2" in eventually(
        lambda: told() if " at 2" in told() else None, "the time of the end is told", every=0.02
    )


def test_folders_of_servers_that_ended_long_ago_are_deleted(folder: Path):
    """A day ago by their times, which the watch of a server that runs renews."""
    old, used, watched = (folder / name for name in ("old", "used", "watched"))
    for made in (old, used, watched):
        made.mkdir()
    use(used, "the test")
    use(watched, "the test")
    server = a_server(watched, STAYS)
    leave(watched)
    for made in (old, used, watched):
        os.utime(made, (0, 0))
    server_watch.delete_old(folder)
    assert (old.exists(), used.exists()) == (False, True)
    assert watched.exists()
    leave(used)
    eventually(lambda: has_ended(watched, server), "the server has ended", every=0.02)
