"""gRPC channels that close in a thread of their own, which no signal interrupts.

Python raises an interruption (Ctrl-C, or a run that is cancelled in Dagster) in a process's main thread, whatever
that thread is doing. If the thread is closing a channel, the channel is left half closed, and the next close
waits for ever for the interrupted one, even when it is Python itself that frees the channel.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import grpc

_AT_MOST = 15.0
"""Seconds that a caller waits for a close. One takes milliseconds, unless an interrupted call has left the channel's lock held."""


def uninterrupted(channel: grpc.Channel) -> grpc.Channel:
    """The same channel, with a `close` that goes on when its caller is interrupted. Use it with
    `contextlib.closing`: the channel's own `with` block calls another method.
    """
    close = channel.close

    def close_in_thread() -> None:
        # Not `Thread`, whose start is code of Python: an interruption in the middle of it would leave locks held, too.
        running = _thread.allocate_lock()
        running.acquire()
        _thread.start_new_thread(_close, (close, running.release))
        running.acquire(timeout=_AT_MOST)

    channel.close = close_in_thread
    return channel


def _close(close: Callable[[], None], done: Callable[[], None]) -> None:
    try:
        close()
    finally:
        done()
