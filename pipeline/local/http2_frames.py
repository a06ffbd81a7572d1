"""The frames of one HTTP/2 connection, by the library h2, and the bytes that they become."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event
from h2.settings import SettingCodes

# Requests at a time. A client with more of them opens further connections.
_MOST_STREAMS: Final = 100
# Bytes of a request's body that a client may send before the first acknowledgement.
_WINDOW: Final = 1024 * 1024


class Http2Frames:
    """The frames of one connection, by the library h2: a client's bytes become events, and parts of answers become
    frames, which `write` sends."""

    def __init__(self, transport: asyncio.Transport) -> None:
        """Send the server's settings."""
        self._transport = transport
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._h2.initiate_connection()
        self._h2.update_settings(
            {
                SettingCodes.MAX_CONCURRENT_STREAMS: _MOST_STREAMS,
                SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW,
            }
        )
        self.write()
        self.is_full = False
        """Whether the client has to take something before more may be sent."""

    def receive(self, data: bytes) -> list[Event]:
        """Take bytes from the client. Raises h2's ProtocolError for those that aren't HTTP/2."""
        events = self._h2.receive_data(data)
        for event in events:
            if isinstance(event, DataReceived):
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        return events

    def begin(self, stream_id: int, status: int, fields: Iterable[tuple[str, str]]) -> None:
        """Send the head of an answer."""
        headers = [(":status", str(status)), *((name.lower(), value) for name, value in fields)]
        self._h2.send_headers(stream_id, headers)

    def room(self, stream_id: int) -> int:
        """Give the number of bytes of an answer that the client takes now, in one frame."""
        return max(0, min(self._h2.local_flow_control_window(stream_id), self._h2.max_outbound_frame_size))

    def send(self, stream_id: int, data: bytes) -> None:
        """Send a part of an answer for which there is room."""
        self._h2.send_data(stream_id, data)

    def end(self, stream_id: int) -> None:
        """End an answer."""
        self._h2.end_stream(stream_id)

    def reset(self, stream_id: int) -> None:
        """Break an answer off."""
        self._h2.reset_stream(stream_id, ErrorCodes.INTERNAL_ERROR)

    def write(self) -> None:
        """Send the bytes that are ready."""
        data = self._h2.data_to_send()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Tell the client that the connection ends, and end it."""
        self._h2.close_connection()
        self.break_off()

    def break_off(self) -> None:
        """End the connection after the bytes that are ready."""
        self.write()
        self._transport.close()
