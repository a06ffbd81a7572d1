"""A process that is interrupted while it closes channels of gRPC: in the n-th channel, at the n-th moment of the close.

It ends with 0. Where a close waits for ever, it doesn't end.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from types import FrameType

import grpc

from headrace.pipeline.lake.spark.channels import uninterrupted
from tests.eventually import eventually


class Endless(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers each call once, and keeps it open until it is cancelled."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        def answers(_request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
            cancelled = threading.Event()
            context.add_callback(cancelled.set)
            yield b"answer"
            cancelled.wait()

        return grpc.unary_stream_rpc_method_handler(answers)


@contextmanager
def endless_server() -> Iterator[str]:
    """The address of a server."""
    pool = ThreadPoolExecutor(1)
    pool.submit(gc.collect).result()  # the pool has its thread then
    server = grpc.server(pool, handlers=[Endless()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@contextmanager
def interrupted(is_moment: Callable[[], bool]) -> Iterator[None]:
    """The main thread is interrupted where it calls or leaves a function, if that is the moment."""

    def profile(_frame: FrameType, _event: str, _argument: object) -> None:
        if is_moment():
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGINT)

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


def was_interrupted(address: str, moment: int) -> bool:
    """Whether the close of a channel has so many moments that it was interrupted. The main thread frees the channel."""
    threads = threading.active_count()
    channel = uninterrupted(grpc.insecure_channel(address))
    call = channel.unary_stream("/endless/answers")(b"")
    next(call)
    moments = count()
    is_interrupted = False
    try:
        with interrupted(lambda: next(moments) == moment):
            channel.close()
    except KeyboardInterrupt:
        is_interrupted = True
    del call
    # Else gRPC's thread of this channel would be the one that frees it.
    eventually(
        lambda: threading.active_count() <= threads, "the threads of the channel have ended", within=30
    )
    return is_interrupted


def main() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with endless_server() as address:
        moment = 0
        while was_interrupted(address, moment):
            gc.collect()
            moment += 1
    # Else no close was interrupted.
    return 0 if moment else 1


if __name__ == "__main__":
    sys.exit(main())
