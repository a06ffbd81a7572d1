"""One request over HTTP/2, and its answer, which is sent as far as the client's window has room."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from headrace.pipeline.local.answering import answer_request
from headrace.pipeline.local.event_stream import CONTENT_TYPE
from headrace.pipeline.local.http2_frames import Http2Frames
from headrace.pipeline.local.http_answer import HttpAnswer, fields_of, has_body
from headrace.pipeline.local.http_reader import HttpRequest
from headrace.pipeline.local.kinesis.subscribing import Subscription
from headrace.pipeline.local.pushing import Push
from headrace.pipeline.local.site import Site


class Http2Exchange:
    """One request and the sending of its answer; for a subscription, the sending of its events."""

    def __init__(
        self,
        site: Site,
        frames: Http2Frames,
        stream_id: int,
        fields: Iterable[tuple[str, str]],
        *,
        over: Callable[[Http2Exchange], None],
    ) -> None:
        """Begin with the request's head. `over` is called once nothing more is sent."""
        self.stream_id = stream_id
        self._site = site
        self._frames = frames
        self._over = over
        self._fields = _joined(fields)
        self._body = bytearray()
        self._waiting: deque[memoryview] = deque()
        """Parts of the answer for which the client's window had no room yet."""
        self._is_last = False
        """Whether the answer is over once all parts are sent."""
        self._is_over = False
        self._push: Push | None = None

    def feed(self, data: bytes) -> None:
        """Take a part of the request's body."""
        self._body += data

    def begin(self) -> None:
        """Answer the request, which is complete."""
        headers = {name: value for name, value in self._fields.items() if not name.startswith(":")}
        headers.setdefault("host", self._fields.get(":authority", ""))
        request = HttpRequest(self._method, self._fields.get(":path", ""), headers, bytes(self._body))
        answer_request(self._site, request, self)

    @property
    def is_pushing(self) -> bool:
        """Tell whether the events of a subscription are being sent."""
        return self._push is not None

    def stop(self) -> None:
        """Send nothing more, because the client has gone or the answer is to be broken off."""
        if self._push is not None:
            self._push.stop()
        self._be_over()

    def go_on(self) -> None:
        """Send as much of the waiting parts as the client's window has room for."""
        while self._waiting and not self._is_over:
            part = self._waiting.popleft()
            room = self._frames.room(self.stream_id)
            # A client that doesn't read has no room left in its window. The rest waits, so that a
            # test can hold a reader back.
            if room < len(part):
                self._waiting.appendleft(part[room:])
            if not room:
                break
            self._frames.send(self.stream_id, bytes(part[:room]))
        if self._is_last and not self._waiting and not self._is_over:
            self._frames.end(self.stream_id)
            self._be_over()
        self._frames.write()

    # -- the way back --------------------------------------------------------------------------------------------------

    def answer(self, answer: HttpAnswer) -> None:
        """Send an answer."""
        if self._is_over:
            return
        fields = fields_of(answer, date=self._site.date(), method=self._method)
        self._frames.begin(self.stream_id, answer.status, fields)
        if has_body(answer, self._method):
            self._waiting.append(memoryview(answer.body))
        self.end()

    def push(self, subscription: Subscription, request_id: str) -> None:
        """Send the events of a subscription, on this request's stream."""
        if self._is_over:
            subscription.close()
            return
        head = (
            ("date", self._site.date()),
            ("content-type", CONTENT_TYPE),
            ("x-amzn-requestid", request_id),
        )
        self._frames.begin(self.stream_id, 200, head)
        self._push = Push(subscription, self, self._site.kinesis.faults)
        self._push.begin()

    # -- the line of a subscription ------------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether the client has to take something before more may be sent."""
        return bool(self._waiting) or self._frames.is_full

    def send(self, data: bytes) -> None:
        """Send a part of the answer."""
        self._waiting.append(memoryview(data))
        self.go_on()

    def end(self) -> None:
        """End the answer in the regular way."""
        self._is_last = True
        self.go_on()

    def abort(self) -> None:
        """Reset the stream, after the bytes for which there was room."""
        if not self._is_over:
            self._frames.reset(self.stream_id)
            self._be_over()
            self._frames.write()

    lose = abort
    """Without an answer, nothing was sent before."""

    @property
    def _method(self) -> str:
        return self._fields.get(":method", "")

    def _be_over(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._over(self)


def _joined(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The fields by name. HTTP/2 may send one in parts."""
    joined: dict[str, str] = {}
    for name, value in fields:
        separator = "; " if name == "cookie" else ","
        joined[name] = f"{joined[name]}{separator}{value}" if name in joined else value
    return joined
