"""A connection over HTTP/1.1: requests in order, one at a time. Later bytes wait in the reader."""

from __future__ import annotations

import asyncio

from headrace.pipeline.local.answering import answer_request
from headrace.pipeline.local.event_stream import CONTENT_TYPE
from headrace.pipeline.local.http_answer import HttpAnswer, answer_bytes, stream_head
from headrace.pipeline.local.http_reader import BadHttpError, HttpReader, HttpRequest
from headrace.pipeline.local.kinesis.subscribing import Subscription
from headrace.pipeline.local.pushing import Push
from headrace.pipeline.local.site import Site


class Http1Connection(asyncio.Protocol):
    """A client's connection by HTTP/1.1."""

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
        self._site.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove this connection from the open ones."""
        self._transport = None
        if self._push is not None:
            self._push.stop()
        self._site.remove(self)

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

    def answer(self, answer: HttpAnswer) -> None:
        """Send an answer, and go on with the next request."""
        keep = self._request is not None and self._request.keeps_alive and not self._closing
        self._send(answer, keep=keep)
        if keep:
            self._go_on()

    def push(self, subscription: Subscription, request_id: str) -> None:
        """Send the events of a subscription, in chunks."""
        if self._transport is None:
            subscription.close()
            return
        self._transport.write(stream_head(CONTENT_TYPE, request_id, date=self._site.date()))
        self._push = Push(subscription, _Chunks(self), self._site.kinesis.faults)
        self._push.begin()

    def lose(self) -> None:
        """Close the connection without the bytes that are waiting."""
        if self._transport is not None:
            self._transport.abort()

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

    def _go_on(self) -> None:
        # One request at a time: HTTP/1.1 has its answers in the order of the requests.
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
            answer_request(self._site, request, self)

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

    def __init__(self, connection: Http1Connection) -> None:
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
