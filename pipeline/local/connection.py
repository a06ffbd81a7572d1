"""One connection: requests in order, each to Kinesis, to moto or to the control endpoints, with faults around them.

The Kinesis simulator answers in the event loop's own thread, which is fast and serves as its lock. moto answers from a
worker thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from headrace.pipeline.local.callers import Callers
from headrace.pipeline.local.clock import MovableClock, http_date
from headrace.pipeline.local.control import PREFIX, control
from headrace.pipeline.local.errors import AwsError
from headrace.pipeline.local.event_stream import CONTENT_TYPE
from headrace.pipeline.local.faults import AROUND, Call, Fault, error_of_fault
from headrace.pipeline.local.http_answer import (
    HttpAnswer,
    answer_bytes,
    error_answer,
    stream_head,
    wire_answer,
)
from headrace.pipeline.local.http_reader import BadHttpError, HttpReader, HttpRequest
from headrace.pipeline.local.kinesis.kinesis import DEFAULT_REGION, Kinesis
from headrace.pipeline.local.moto_room import MotoRoom
from headrace.pipeline.local.pushing import Push
from headrace.pipeline.local.routing import KINESIS_TARGET, call_of, region_of, service_of
from headrace.pipeline.local.wires import wire_of

_log = logging.getLogger(__name__)
_SUBSCRIBE = f"{KINESIS_TARGET}SubscribeToShard"


class Site:
    """The objects that all connections share: simulator, moto, faults, callers and clock."""

    def __init__(self, kinesis: Kinesis, clock: MovableClock) -> None:
        """Begin with no connection."""
        self.kinesis = kinesis
        self.clock = clock
        self.moto = MotoRoom()
        self.callers = Callers()
        self.connections: set[Connection] = set()
        self.empty = asyncio.Event()
        self.empty.set()
        self._requests = 0
        self._date = (-1, "")

    def request_id(self) -> str:
        """Give each request an id that logs can be searched for."""
        self._requests += 1
        return f"00000000-0000-4000-8000-{self._requests:012x}"

    def date(self) -> str:
        """Give the Date header by the simulator's clock, formatted once a second."""
        second = int(self.clock())
        if self._date[0] != second:
            self._date = second, http_date(second)
        return self._date[1]


class Connection(asyncio.Protocol):
    """A client's connection. It handles one request at a time; later bytes wait in the reader."""

    def __init__(self, site: Site) -> None:
        """Begin before the first byte."""
        self._site = site
        self._reader = HttpReader()
        self._transport: asyncio.Transport | None = None
        self._request: HttpRequest | None = None
        self._closing = False
        self._push: Push | None = None
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Add this connection to the open ones."""
        self._transport = transport if isinstance(transport, asyncio.Transport) else None
        self._site.connections.add(self)
        self._site.empty.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove this connection from the open ones."""
        self._transport = None
        if self._push is not None:
            self._push.stop()
        self._site.connections.discard(self)
        if not self._site.connections:
            self._site.empty.set()

    def data_received(self, data: bytes) -> None:
        """Take bytes, and answer each complete request."""
        self._reader.feed(data)
        self._go_on()

    def pause_writing(self) -> None:
        """Note that the client has to take something before more may be sent."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Note that the client has taken what was sent."""
        self._is_full = False

    def finish(self) -> None:
        """Close: at once if idle or while events are pushed, else after the current answer."""
        self._closing = True
        if (self._request is None or self._push is not None) and self._transport is not None:
            self._transport.close()

    def _go_on(self) -> None:
        while self._request is None and self._transport is not None:
            try:
                request = self._reader.next_request()
            except BadHttpError as error:
                self._send(HttpAnswer(400, (), str(error).encode()), keep=False)
                return
            if request is None:
                if self._reader.wants_continue:
                    self._reader.wants_continue = False
                    self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
            self._request = request
            self._begin(request)

    def _begin(self, request: HttpRequest) -> None:
        if request.target.startswith(PREFIX):
            self._control(request)
            return
        callers, faults = self._site.callers, self._site.kinesis.faults
        if callers and (refused := callers.refusal(request, self._site.kinesis)) is not None:
            self._refuse(request, refused, service_of(request))
            return
        if not faults:
            self._perform(request, self._answer)
            return
        # Only a plan with faults needs to know what a request names: the body is parsed once more for it.
        call = call_of(request, self._site.kinesis)
        fault = faults.draw(AROUND, call)
        self._perform_with(request, fault, call)

    def _perform_with(self, request: HttpRequest, fault: Fault | None, call: Call) -> None:
        refused = error_of_fault(fault, call) if fault is not None else None
        if refused is not None:
            self._refuse(request, refused, call.service)
        elif fault is not None and fault.kind == "delay":
            loop = asyncio.get_running_loop()
            loop.call_later(fault.seconds, partial(self._perform, request, self._answer))
        elif fault is not None and fault.kind == "lost":
            self._perform(request, self._lose)
        else:
            self._perform(request, self._answer)

    def _refuse(self, request: HttpRequest, refused: AwsError, service: str) -> None:
        wire = wire_of(request.headers.get("content-type"))
        self._answer(error_answer(refused, self._site.request_id(), service, wire))

    def _perform(self, request: HttpRequest, done: Callable[[HttpAnswer], None]) -> None:
        target = request.headers.get("x-amz-target", "")
        if target == _SUBSCRIBE:
            self._subscribe(request, done)
            return
        if target.startswith(KINESIS_TARGET) or service_of(request) == "kinesis":
            done(self._ask_kinesis(request, target.removeprefix(KINESIS_TARGET)))
            return
        loop = asyncio.get_running_loop()

        def answered(future: Future[HttpAnswer]) -> None:
            if not future.cancelled():
                # moto's worker thread calls this, and only the loop's own thread may write to a transport.
                loop.call_soon_threadsafe(done, future.result())

        self._site.moto.submit(request).add_done_callback(answered)

    def _subscribe(self, request: HttpRequest, done: Callable[[HttpAnswer], None]) -> None:
        site, wire = self._site, wire_of(request.headers.get("content-type"))
        request_id = site.request_id()
        try:
            subscription = site.kinesis.subscribe(
                request.body, region_of(request) or DEFAULT_REGION, wire=wire
            )
        except AwsError as error:
            done(error_answer(error, request_id, "kinesis", wire))
            return
        if self._transport is not None:
            self._transport.write(stream_head(CONTENT_TYPE, request_id, date=site.date()))
            self._push = Push(subscription, _Chunks(self), site.kinesis.faults)

    @property
    def is_full(self) -> bool:
        """Whether the client has to take something before more may be sent."""
        return self._is_full

    def send_chunk(self, data: bytes) -> None:
        """Send a part of an answer that comes in chunks; an empty one ends it."""
        if self._transport is not None:
            self._transport.writelines((b"%x\r\n" % len(data), data, b"\r\n"))

    def end_chunks(self) -> None:
        """End an answer that comes in chunks, and go on with the next request."""
        self.send_chunk(b"")
        self._push = self._request = None
        if self._closing and self._transport is not None:
            self._transport.close()
        self._go_on()

    def break_off(self) -> None:
        """Close the connection after the bytes that were sent, in the middle of an answer."""
        if self._transport is not None:
            self._transport.close()

    def _ask_kinesis(self, request: HttpRequest, operation: str) -> HttpAnswer:
        site = self._site
        request_id, wire = site.request_id(), wire_of(request.headers.get("content-type"))
        try:
            region = region_of(request) or DEFAULT_REGION
            return wire_answer(
                site.kinesis.answer(operation, request.body, region, wire=wire), request_id, wire
            )
        except AwsError as error:
            return error_answer(error, request_id, "kinesis", wire)
        except Exception:  # noqa: BLE001 (an edge: the trace is logged)
            # A bug of the stand-in must not end the server. The logged traceback shows the bug.
            _log.exception("%s failed", operation)
            failure = AwsError("InternalFailure", "a bug of the stand-in", 500)
            return error_answer(failure, request_id, "kinesis", wire)

    def _control(self, request: HttpRequest) -> None:
        answer = control(request, self._site.kinesis, self._site.clock, self._site.callers)
        if request.method == "POST" and request.target == f"{PREFIX}reset":
            loop = asyncio.get_running_loop()
            # The answer waits for moto, so that whoever has it meets no table of before.
            forgotten = self._site.moto.reset()
            forgotten.add_done_callback(lambda _: loop.call_soon_threadsafe(self._answer, answer))
        else:
            self._answer(answer)

    def _lose(self, _answer: HttpAnswer) -> None:
        if self._transport is not None:
            # Without the bytes that are waiting: the client can't know whether its request was carried out.
            self._transport.abort()

    def _answer(self, answer: HttpAnswer) -> None:
        keep = self._request is not None and self._request.keeps_alive and not self._closing
        self._send(answer, keep=keep)
        if keep:
            self._go_on()

    def _send(self, answer: HttpAnswer, *, keep: bool) -> None:
        method = self._request.method if self._request is not None else "GET"
        self._request = None
        if self._transport is None:
            return
        self._transport.writelines(answer_bytes(answer, date=self._site.date(), method=method, keep=keep))
        if not keep:
            self._transport.close()


class _Chunks:
    """The line of a subscription over HTTP/1.1."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def is_full(self) -> bool:
        return self._connection.is_full

    def send(self, data: bytes) -> None:
        self._connection.send_chunk(data)

    def end(self) -> None:
        self._connection.end_chunks()

    def abort(self) -> None:
        self._connection.break_off()
