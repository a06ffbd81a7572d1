"""One keeper holds the processes of all shards of a host. What one of them does harms only its own shard; all end with the
keeper."""

import os
import resource
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

from headrace.kclpy.open_files import open_more_files
from headrace.pipeline.processors.application.kept import KeptLines, begun, keeper_place, met
from headrace.pipeline.processors.application.places import bound, log_of
from headrace.pipeline.processors.child import ChildFailed
from headrace.pipeline.processors.values import ChildSpec
from tests.eventually import eventually
from tests.processors.application.conftest import OwnKeeper

_ANSWERS = """while read -r line; do echo '{"action":"status"}'; done"""


def answering(pids: Path) -> ChildSpec:
    return ChildSpec(command=("sh", "-c", f"echo $$ >>{pids}; {_ANSWERS}"))


def ask(lines: KeptLines) -> None:
    lines.say({"action": "initialize"})
    assert lines.hear(within=60) == {"action": "status"}


def number_in(pids: Path) -> int:
    eventually(lambda: pids.exists() and pids.read_text().endswith("\n"), "the process has begun")
    return int(pids.read_text().split()[-1])


def is_there(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_processes_of_all_places_have_one_keeper(own_keeper: OwnKeeper, tmp_path: Path):
    for name in ("first", "second", "third"):
        with begun(tmp_path / name, answering(tmp_path / "pids"), grace=0) as lines:
            ask(lines)
            lines.keep(name)
    assert len(own_keeper.numbers()) == 1
    for name in ("third", "first", "second"):
        with met(tmp_path / name, grace=0) as kept:
            assert kept is not None
            assert kept.memory == name
            ask(kept)


def test_a_keeper_without_a_process_ends(
    own_keeper: OwnKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headrace.pipeline.processors.application.kept._KEEPER_IDLE", 5.0)
    with begun(tmp_path / "place", answering(tmp_path / "pids"), grace=0) as lines:
        ask(lines)
    eventually(lambda: not own_keeper.numbers(), "the keeper has ended")
    assert not is_there(number_in(tmp_path / "pids"))


def test_a_process_that_is_killed_harms_no_other_one(own_keeper: OwnKeeper, tmp_path: Path):
    with (
        begun(tmp_path / "killed", answering(tmp_path / "killed.pid"), grace=0) as killed,
        begun(tmp_path / "other", answering(tmp_path / "other.pid"), grace=0) as other,
    ):
        ask(killed)
        os.kill(number_in(tmp_path / "killed.pid"), signal.SIGKILL)
        killed.say({"action": "processRecords"})
        with pytest.raises(ChildFailed, match="ended by SIGKILL"):
            killed.hear(within=60)
        ask(other)
        killed.end(grace=0)
        # The other one was begun beside it, and goes on when its thread has ended.
        eventually(lambda: not (tmp_path / "killed").exists(), "the keeper has let it go")
        ask(other)


def test_a_process_that_stands_still_harms_no_other_one(own_keeper: OwnKeeper, tmp_path: Path):
    with (
        begun(tmp_path / "frozen", answering(tmp_path / "frozen.pid"), grace=0) as frozen,
        begun(tmp_path / "other", answering(tmp_path / "other.pid"), grace=0) as other,
        ThreadPoolExecutor() as pool,
    ):
        ask(frozen)
        os.kill(number_in(tmp_path / "frozen.pid"), signal.SIGSTOP)
        # More than the pipe to the process has room for.
        frozen.say({"action": "processRecords", "records": ["x" * 1_000_000]})
        waiting = pool.submit(frozen.hear, within=3)
        for _ in range(10):
            ask(other)
        with pytest.raises(ChildFailed, match="hasn't answered within 3 s"):
            waiting.result()


_NOISE = ChildSpec(command=("sh", "-c", "cat /dev/zero >&2 & tr '\\0' x </dev/zero & yes"))


def test_a_process_that_prints_for_ever_in_a_call_harms_no_other_one(own_keeper: OwnKeeper, tmp_path: Path):
    with (
        begun(tmp_path / "noisy", _NOISE, grace=0) as noisy,
        begun(tmp_path / "other", answering(tmp_path / "other.pid"), grace=0) as other,
        ThreadPoolExecutor() as pool,
    ):
        waiting = pool.submit(noisy.hear, within=3)
        for _ in range(10):
            ask(other)
        with pytest.raises(ChildFailed):
            waiting.result()
        ask(other)


def test_a_process_that_prints_for_ever_between_waves_harms_no_other_one(
    own_keeper: OwnKeeper, tmp_path: Path
):
    with begun(tmp_path / "noisy", _NOISE, grace=0) as noisy:
        noisy.keep(None)
    with begun(tmp_path / "other", answering(tmp_path / "other.pid"), grace=0) as other:
        for _ in range(10):
            ask(other)


def test_the_processes_end_with_their_keeper_and_others_begin(own_keeper: OwnKeeper, tmp_path: Path):
    with begun(tmp_path / "kept", answering(tmp_path / "kept.pid"), grace=0) as kept:
        ask(kept)
        kept.keep(None)
    with begun(tmp_path / "asked", answering(tmp_path / "asked.pid"), grace=0) as asked:
        ask(asked)
        own_keeper.kill()
        with pytest.raises(ChildFailed, match="the processor's keeper has ended"):
            ask(asked)
    for name in ("kept.pid", "asked.pid"):
        eventually(lambda: not is_there(number_in(tmp_path / name)), "the process has ended")  # noqa: B023
    with met(tmp_path / "kept", grace=0) as lines:
        assert lines is None
    with begun(tmp_path / "kept", answering(tmp_path / "kept.pid"), grace=0) as kept:
        ask(kept)


def test_a_task_that_asks_for_nothing_keeps_nobody_waiting(own_keeper: OwnKeeper, tmp_path: Path):
    from headrace.pipeline.processors.application.kept import _client, _open_keeper, keeper_place

    with begun(tmp_path / "place", answering(tmp_path / "pids"), grace=0) as lines, _client(60) as silent:
        _open_keeper(keeper_place(), silent)
        with begun(tmp_path / "other", answering(tmp_path / "pids"), grace=0) as other:
            ask(other)
        ask(lines)
        silent.close()


def test_a_process_whose_task_dies_while_it_writes_has_its_grace(own_keeper: OwnKeeper, tmp_path: Path):
    heard = tmp_path / "heard"
    code = f"""while read -r line; do for action in shutdownRequested leaseLost; do case "$line" in *$action*)
        echo $action >>{heard}; echo '{{"action":"status","responseFor":"'$action'"}}';; esac; done; done"""
    with begun(tmp_path / "place", ChildSpec(command=("sh", "-c", code)), grace=60) as lines:
        lines.keep(None)
    with socket.socket(socket.AF_UNIX) as task:
        task.connect(str(tmp_path / "place"))
        task.sendall(b'{"say": {"action": "processRecords", "records": [')
    eventually(lambda: not (tmp_path / "place").exists(), "the process has ended")
    assert heard.read_text().split() == ["shutdownRequested", "leaseLost"]


def test_a_log_that_cant_be_written_harms_no_process(own_keeper: OwnKeeper, tmp_path: Path):
    log_of(tmp_path / "place").symlink_to("/dev/full")
    code = f"""echo told >&2; {_ANSWERS}"""
    with begun(tmp_path / "place", ChildSpec(command=("sh", "-c", code)), grace=0) as lines:
        for _ in range(3):
            ask(lines)


def test_a_task_that_gives_up_leaves_no_connection_open(own_keeper: OwnKeeper, tmp_path: Path):
    """A keeper that would find it could keep a process for nobody. What the task fails by lives on, as in the report of a run."""
    with bound(keeper_place()) as door:
        visitors = list[socket.socket]()

        def answer_half() -> None:
            for _ in range(2):
                visitor, _ = door.accept()
                visitor.sendall(b'{"memory": ')
                visitor.shutdown(socket.SHUT_WR)
                visitors.append(visitor)

        keeper = Thread(target=answer_half)
        keeper.start()
        with (
            pytest.raises(ChildFailed, match="the processor's keeper has ended") as failed,
            begun(tmp_path / "place", ChildSpec(command=("true",)), grace=0),
        ):
            pass
        keeper.join()
        for visitor in visitors:
            with visitor:
                visitor.settimeout(5)
                while visitor.recv(1 << 16):
                    # The request.
                    pass
    assert failed.value is not None


def test_a_keeper_opens_as_many_files_as_may_be_also_where_no_limit_is_stated():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    asked = list[tuple[int, int]]()

    def of_macos(_limit: int, numbers: tuple[int, int]) -> None:
        asked.append(numbers)
        if numbers[0] != 10_240:
            raise ValueError("current limit exceeds maximum limit")

    open_more_files(of_macos)
    assert asked == [(most, most), (10_240, most)]
    asked.clear()
    open_more_files(lambda _limit, numbers: asked.append(numbers))
    assert asked == [(most, most)]
