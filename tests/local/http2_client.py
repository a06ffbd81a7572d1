"""A client that speaks HTTP/2 with prior knowledge, as the Java SDK does: one connection, requests on streams."""

from __future__ import annotations

import json
import socket
import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.settings import SettingCodes

from headrace.pipeline.aws.reading.event_frames import FrameReader

_SECONDS = 10.0
_SCOPE = "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/kinesis/aws4_request, SignedHeaders=host, Signature=0"


@dataclass
class Answer:
    """What has come on one stream so far."""

    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    ended: bool = False
    reset: bool = False

    @property
    def status(self) -> int:
        return int(self.headers[":status"])

    def json(self) -> Any:
        return json.loads(self.body)

    def messages(self) -> list[tuple[str, Any]]:
        """The whole messages of an event stream: the name of each, and its content."""
        reader = FrameReader()
        return [(frame.name, json.loads(bytes(frame.payload))) for frame in reader.feed(bytes(self.body))]


class Http2Client:
    def __init__(self, endpoint: str, *, window: int = 1 << 20) -> None:
        """Connect. `window`: how many bytes this client takes of each answer before it has acknowledged them."""
        place = urlsplit(endpoint)
        self._sock: Any = socket.create_connection((place.hostname, place.port), timeout=_SECONDS)
        if place.scheme == "https":
            # No ALPN, and the certificate isn't looked at: the Java SDK does the former, tests of it the latter.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self._sock = context.wrap_socket(self._sock)
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.answers: dict[int, Answer] = {}
        self.terminated = False
        self.write()

    def write(self) -> None:
        self._sock.sendall(self.h2.data_to_send())

    def ask(self, operation: str, **given: Any) -> int:
        """Send a request to Kinesis. Returns its stream."""
        body = json.dumps(given).encode()
        headers = {
            "authorization": _SCOPE,
            "content-type": "application/x-amz-json-1.1",
            "x-amz-target": f"Kinesis_20131202.{operation}",
        }
        return self.send("POST", "/", headers, body)

    def send(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> int:
        stream_id = self.h2.get_next_available_stream_id()
        fields = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "localhost")]
        self.h2.send_headers(stream_id, [*fields, *headers.items()], end_stream=not body)
        size = self.h2.max_outbound_frame_size
        for start in range(0, len(body), size):
            part = body[start : start + size]
            while self.h2.local_flow_control_window(stream_id) < len(part):
                self.write()
                self.receive()
            self.h2.send_data(stream_id, part, end_stream=start + size >= len(body))
        self.write()
        self.answers[stream_id] = Answer()
        return stream_id

    def receive(self, *, acknowledge: bool = True) -> None:
        """Take what comes next."""
        data = self._sock.recv(1 << 16)
        if not data:
            self.terminated = True
            return
        for event in self.h2.receive_data(data):
            self._take(event, acknowledge=acknowledge)
        self.write()

    def answer(self, stream_id: int) -> Answer:
        """The whole answer, or what came of it before it was reset."""
        answer = self.answers[stream_id]
        while not (answer.ended or answer.reset):
            self.receive()
            if self.terminated:
                raise ConnectionError("the server closed the connection")
        return answer

    def messages(self, stream_id: int, number: int) -> list[tuple[str, Any]]:
        """The first messages of an answer that goes on."""
        while len(messages := self.answers[stream_id].messages()) < number:
            self.receive()
        return messages

    def reset(self, stream_id: int) -> None:
        self.h2.reset_stream(stream_id)
        self.write()

    def close(self) -> None:
        self._sock.close()

    def _take(self, event: Event, *, acknowledge: bool) -> None:
        match event:
            case ResponseReceived():
                self.answers[event.stream_id].headers = {str(n): str(v) for n, v in event.headers}
            case DataReceived():
                self.answers[event.stream_id].body += event.data
                if acknowledge:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded():
                self.answers[event.stream_id].ended = True
            case StreamReset():
                self.answers[event.stream_id].reset = True
            case ConnectionTerminated():
                self.terminated = True
