"""A process that imports the module of a processor once on a host. The processes of all shards are forks of it,
so that what was imported is in memory once.

    python -m headrace.kclpy.importer module:name [--as-amazon-kclpy]

Its standard input is a socket. Each message there has four open files: input, output and stderr of a new process,
and one on which the importer writes the process's id and, at its end, its exit code. The first line of the new
process's input has its environment and its limit of CPU.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress
from importlib import import_module

from headrace.kclpy import runner
from headrace.kclpy.alias import stand_in_for_amazon_kclpy
from headrace.kclpy.open_files import open_more_files

_FILES = 4
_PARENT_DIES = 1
"""Linux's number of the option by which a process gets a signal when its parent dies."""


def import_module_of(arguments: list[str]) -> None:
    if runner.AS_AMAZON_KCLPY in arguments:
        stand_in_for_amazon_kclpy()
    try:
        import_module(arguments[0].partition(":")[0])
    except (Exception, SystemExit):  # noqa: BLE001 - the module is the user's code
        # Each process then imports it by itself, and tells of the error where its shard's errors are told.
        traceback.print_exc()
    # What is there by now is never collected, so that no collection copies its pages.
    gc.collect()
    gc.freeze()


def serve(door: socket.socket) -> None:
    """Fork processes on request, and exit once no process can send a request any more. Returns in each forked
    process.
    """
    woken, waking = os.pipe()
    for end in (woken, waking):
        os.set_blocking(end, False)
    # After the import: the module may have set handlers of its own.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking)
    forks: dict[int, int] = {}
    """Where the end of each process is told."""
    while True:
        ready, _, _ = select.select([door.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 1 << 12)
            _tell_ends(forks)
        if door.fileno() in ready and _begin(door, forks, (woken, waking)):
            return


def _begin(door: socket.socket, forks: dict[int, int], own: tuple[int, ...]) -> bool:
    """Fork the process that is asked for. Whether this is that process. `own`: files that it doesn't get."""
    message, files, _, _ = socket.recv_fds(door, 1, _FILES)
    if not message:
        sys.exit()
    importer, number = os.getpid(), _forked(files)
    if number is not None:
        told = files.pop()
        if not number:
            signal.set_wakeup_fd(-1)
            for file in (*own, told, *forks.values()):
                os.close(file)
            door.close()
            _become_process(importer, files)
            return True
        # Before anybody knows the number, by which the whole group is ended.
        with suppress(OSError):
            os.setpgid(number, number)
        forks[number] = told
        _tell(told, number)
    for file in files:
        os.close(file)
    return False


def _forked(files: list[int]) -> int | None:
    """The number of a new process, and 0 in that process. None where the host is short of something: the processes that are there
    go on."""
    sys.stdout.flush()
    sys.stderr.flush()
    is_complete = len(files) == _FILES
    try:
        if not is_complete:
            # What this process may not open hasn't come.
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return os.fork()
    except OSError as error:
        errors = files[2] if is_complete else 2
        with suppress(OSError):
            os.write(errors, f"no process could be forked: {error}\n".encode())
        return None


def _tell_ends(forks: dict[int, int]) -> None:
    # Not any child: the module may have started processes of its own.
    for number in tuple(forks):
        ended, status = os.waitpid(number, os.WNOHANG)
        if ended:
            told = forks.pop(number)
            _tell(told, os.waitstatus_to_exitcode(status))
            os.close(told)


def _tell(file: int, number: int) -> None:
    # Nobody waits for it any more.
    with suppress(BrokenPipeError):
        os.write(file, b"%d\n" % number)


def _become_process(importer: int, files: list[int]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DIES, signal.SIGKILL)
        if os.getppid() != importer:
            sys.exit(1)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    line = sys.stdin.readline()
    if not line:
        # It isn't wanted any more.
        sys.exit()
    first = json.loads(line)
    os.environ.clear()
    os.environ.update(first["environ"])
    if cpu := first["cpu"]:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))


def main(arguments: list[str]) -> None:
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    # One for each process, and four of a new one.
    open_more_files()
    more = resource.getrlimit(resource.RLIMIT_NOFILE)
    door = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # What the module prints while it is imported.
    os.dup2(2, 1)
    import_module_of(arguments)
    serve(door)
    # A fork has its own files alone. The module may have set another limit.
    if resource.getrlimit(resource.RLIMIT_NOFILE) == more:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
    runner.main(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
