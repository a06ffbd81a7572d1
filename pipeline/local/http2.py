"""A connection over HTTP/2: many requests at a time, each on a stream of its own.

bytes ──> frames ──> events: a request, a part of its body, its end, more room ... ──> an Http2Exchange for each stream
bytes <── frames <── heads and parts of answers, as far as the client's window has room <──
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError

from headrace.pipeline.local.http2_exchange import Http2Exchange
from headrace.pipeline.local.http2_frames import Http2Frames
from headrace.pipeline.local.site import Site


class Http2Connection(asyncio.Protocol):
    """A client's connection by HTTP/2."""

    def __init__(self, site: Site) -> None:
        """Begin before the first byte."""
        self._site = site
        self._frames: Http2Frames | None = None
        self._exchanges: dict[int, Http2Exchange] = {}
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Add this connection to the open ones."""
        self._site.add(self)
        if isinstance(transport, asyncio.Transport):
            self._frames = Http2Frames(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove this connection from the open ones."""
        self._frames = None
        for exchange in list(self._exchanges.values()):
            exchange.stop()
        self._site.remove(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes, and answer each complete request."""
        if self._frames is None:
            return
        try:
            events = self._frames.receive(data)
            # A stream that the client has reset can't be answered any more, also where its request came with the reset.
            gone = {event.stream_id for event in events if isinstance(event, StreamReset)}
            for stream_id in gone & self._exchanges.keys():
                self._exchanges[stream_id].stop()
            for event in events:
                self._take(event, self._frames, gone)
        except ProtocolError:
            # h2 has prepared the frame that tells the client why.
            self._frames.break_off()
            return
        if self._frames is not None:
            self._frames.write()

    def pause_writing(self) -> None:
        """Note that the client has to take something before more may be sent."""
        if self._frames is not None:
            self._frames.is_full = True

    def resume_writing(self) -> None:
        """Note that the client has taken what was sent."""
        if self._frames is not None:
            self._frames.is_full = False

    def finish(self) -> None:
        """Close: at once if idle or while events are pushed, else after the current answers."""
        self._closing = True
        for exchange in [exchange for exchange in self._exchanges.values() if exchange.is_pushing]:
            exchange.stop()
        self._close_if_idle()

    def _take(self, event: Event, frames: Http2Frames, gone: Collection[int]) -> None:
        match event:
            case RequestReceived() if event.stream_id not in gone:
                fields = [(str(name), str(value)) for name, value in event.headers]
                exchange = Http2Exchange(self._site, frames, event.stream_id, fields, over=self._forget)
                self._exchanges[event.stream_id] = exchange
            case DataReceived() if event.stream_id in self._exchanges:
                self._exchanges[event.stream_id].feed(event.data)
            case StreamEnded() if event.stream_id in self._exchanges:
                self._exchanges[event.stream_id].begin()
            case WindowUpdated() | RemoteSettingsChanged():
                # The connection's room is all streams' room.
                for waiting in list(self._exchanges.values()):
                    waiting.go_on()
            case ConnectionTerminated():
                self.finish()

    def _forget(self, exchange: Http2Exchange) -> None:
        self._exchanges.pop(exchange.stream_id, None)
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._closing and not self._exchanges and self._frames is not None:
            self._frames.close()
