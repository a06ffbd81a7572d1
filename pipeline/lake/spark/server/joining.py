"""Joining the local Spark server of a folder, or starting it, however slow the machine is.

One process at a time joins, starts or ends the server of a folder. A process that joins counts as a user before
it looks for the server, so a server that is joined isn't ended, and one that is being ended isn't joined. A
server that no process can reach is replaced: the process that started it was killed before it had written the
address and the token.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake.spark.channels import uninterrupted
from headrace.pipeline.lake.spark.server import users as server_users
from headrace.pipeline.lake.spark.server import watch as server_watch
from headrace.pipeline.lake.spark.server.classes import with_archive
from headrace.pipeline.lake.spark.server.process import ADDRESS, CLASS, CONF, end, is_server, pid_of
from headrace.pipeline.lake.spark.server.users import joining_process, users_of
from headrace.pipeline.lake.spark.waiting import PATIENCE, telling, warn
from headrace.pipeline.ports.staging import OnWaiting

if TYPE_CHECKING:
    import grpc

STAYS = timedelta(minutes=5)
"""How long a server stays after its last user: the next command of a person joins it within a second."""
AUTHENTICATION = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""PySpark's environment variable: the token that a server asks for, and that its client sends. The latter reads it when
a session is made."""
_LOOK_EVERY = 0.25
_OF_CLIENTS = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
"""Variables of PySpark that would make a client of the server."""
_HOST = "localhost"  # PySpark sends a token without TLS to this host only

_log = logging.getLogger("headrace")


@dataclass(frozen=True, slots=True)
class Address:
    port: int
    token: str

    @property
    def url(self) -> str:
        return f"sc://{_HOST}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStart:
    """The options with which a server is started."""

    master: str
    conf: Mapping[str, str]
    stays: timedelta = STAYS
    patience: timedelta = PATIENCE


def bring_up(folder: Path, start: ServerStart, *, user: str, on_waiting: OnWaiting = warn) -> Address:
    """Start or join the server of this folder, and return once the server answers. From then on this process
    counts as a user of the server, by the name `user`.
    """
    # First of all: whoever ends the server looks for users under the same lock, so that a server
    # which this process is about to join isn't ended.
    server_users.use(folder, user)
    where = partial(_where_its_log_is, folder)
    with telling(on_waiting, "the local Spark server", at_most=start.patience, more=where):
        address, is_new = _joined_or_started(folder, start)
        if not is_new and not _answers(address, folder, start.patience):
            address, is_new = _joined_or_started(folder, start)  # it died just now
        if is_new and not _answers(address, folder, start.patience):
            raise _failed("it died", folder)
    return address


def stop(folder: Path) -> bool:
    """Stop the server of this folder if it runs, whoever uses it. Returns whether it ran."""
    if not folder.is_dir():
        return False
    server_users.leave(folder)
    with _alone(folder, PATIENCE):
        pid = pid_of(folder)
        is_running = pid is not None and is_server(pid, folder)
        end(folder)
    _until(lambda: not server_watch.is_watched(folder))
    return is_running


def stop_unused(folder: Path) -> bool:
    """Stop the server of this folder unless another process uses it. Returns whether no other process uses it."""
    server_users.leave(folder)
    with _alone(folder, PATIENCE):
        is_unused = not users_of(folder)
        if is_unused:
            end(folder)
    if is_unused:
        _until(lambda: not server_watch.is_watched(folder))
    return is_unused


def is_reachable(folder: Path) -> bool:
    """Whether the server of this folder has written its address into its folder, and accepts connections there."""
    address = _address(folder)
    return address is not None and _listens(address.port)


def answers(
    channel: grpc.Channel, patience: timedelta, *, is_alive: Callable[[], bool] = lambda: True
) -> bool | None:
    """Whether a gRPC server answers within `patience`; None if the server died meanwhile."""
    import grpc

    until = time.monotonic() + patience.total_seconds()
    ready = grpc.channel_ready_future(channel)
    while time.monotonic() < until:
        with suppress(grpc.FutureTimeoutError):
            ready.result(timeout=1)
            return True
        if not is_alive():
            return None
    return False


def _joined_or_started(folder: Path, start: ServerStart) -> tuple[Address, bool]:
    """The address, and whether the server was started just now."""
    with _alone(folder, start.patience):
        pid = pid_of(folder)
        is_running = pid is not None and is_server(pid, folder)
        address = _address(folder)
        if is_running and address is not None:
            # A watch that was killed leaves a server that nothing would end.
            if not server_watch.is_watched(folder):
                server_watch.start(folder, start.stays.total_seconds())
            return address, False
        if is_running:
            _log.warning(
                "stopping the local Spark server of process %s: no process can join it, since its address is missing",
                pid,
            )
        end(folder)
        return _started(folder, start), True


@contextmanager
def _alone(folder: Path, patience: timedelta) -> Iterator[None]:
    """Hold the lock of joining; wait for it while another process starts or ends the server."""
    until = time.monotonic() + patience.total_seconds()
    while True:
        with server_users.joining(folder) as is_mine:
            if is_mine:
                yield
                return
        if time.monotonic() > until:
            raise Unreachable(
                f"process {joining_process(folder)} has been starting or stopping the local Spark server in {folder} for more than "
                f"{patience.total_seconds():.0f} s; nothing was read. If that process hangs, end it, and try again"
            )
        time.sleep(_LOOK_EVERY)


def _started(folder: Path, start: ServerStart) -> Address:
    address = Address(_free_port(), str(uuid.uuid4()))
    conf = folder / CONF
    options = with_archive(start.conf, folder, _spark_home() / "jars", os.environ)
    _write_private(conf, "".join(f"{key}={_escaped(value)}\n" for key, value in options.items()))
    with _environment_of_server(address.token):
        server_watch.start(folder, start.stays.total_seconds(), *_command(start.master, address.port, conf))
    pid = pid_of(folder)
    until = time.monotonic() + start.patience.total_seconds()
    while not _listens(address.port):
        if pid is None or not _lives(pid):
            raise _failed("the server ended while it started", folder)
        if time.monotonic() > until:
            end(folder)
            raise _failed(f"the server wasn't up within {start.patience.total_seconds():.0f} s", folder)
        time.sleep(_LOOK_EVERY)
    # Last, once the server listens: a starter that is killed before leaves a server without an
    # address, which the next one to join replaces.
    _write_private(folder / ADDRESS, json.dumps(asdict(address)))
    return address


def _command(master: str, port: int, conf: Path) -> list[str]:
    program = _spark_home() / "bin" / "spark-submit"
    options = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    return [
        *(str(program), "--class", CLASS, "--name", "Spark Connect server", "--master", master),
        *(word for key, value in options.items() for word in ("--conf", f"{key}={value}")),
        # A file keeps the values off the command line, which each user of the host sees.
        *("--properties-file", str(conf)),
    ]


def _spark_home() -> Path:
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


@contextmanager
def _environment_of_server(token: str) -> Iterator[None]:
    """The environment that the server is started with."""
    before = dict(os.environ)
    for name in _OF_CLIENTS:
        os.environ.pop(name, None)
    os.environ |= {AUTHENTICATION: token, "SPARK_CONNECT_MODE": "0"}  # 1 would make a client of it, too
    try:
        yield
    finally:
        # The whole environment, and not only the names that were added: the variables that were
        # taken out have to come back, too.
        os.environ.clear()
        os.environ.update(before)


def _answers(address: Address, folder: Path, patience: timedelta) -> bool:
    """Whether the server answers by gRPC, or has died. A port that accepts connections isn't enough: the JVM may still
    be starting."""
    import grpc

    pid = pid_of(folder)
    with closing(uninterrupted(grpc.insecure_channel(f"{_HOST}:{address.port}"))) as channel:
        answered = answers(channel, patience, is_alive=lambda: pid is not None and is_server(pid, folder))
    if answered is False:
        raise _failed(f"the server didn't answer for {patience.total_seconds():.0f} s", folder)
    return bool(answered)


def _address(folder: Path) -> Address | None:
    try:
        return Address(**json.loads((folder / ADDRESS).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _until(is_so: Callable[[], bool], within: float = 5.0) -> None:
    until = time.monotonic() + within
    while not is_so() and time.monotonic() < until:
        time.sleep(_LOOK_EVERY / 10)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _escaped(value: object) -> str:
    return str(value).replace("\\", "\\\\").replace("\n", "\\n")


def _write_private(path: Path, text: str) -> None:
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
    ) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)


def _failed(why: str, folder: Path) -> Unreachable:
    return Unreachable(
        f"the local Spark server didn't start: {why}. Nothing was read; its log is {server_watch.newest_log(folder)}"
    )


def _where_its_log_is(folder: Path) -> str:
    return f". The log of the local Spark server is {server_watch.newest_log(folder)}"
