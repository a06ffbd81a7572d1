"""Send the events of a subscription as they come, as fast as the reader takes them, with the planned faults.

The connection decides how they are transported: as chunks of HTTP/1.1, or as frames of HTTP/2.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from headrace.pipeline.local import event_stream
from headrace.pipeline.local.errors import AwsError
from headrace.pipeline.local.faults import WITHIN, Fault, FaultPlan
from headrace.pipeline.local.http_answer import HttpAnswer
from headrace.pipeline.local.kinesis.subscribing import SendingTurn, Subscription, exception_message

# Seconds between two looks for new records. Kinesis takes about 70 ms from the put to the event.
_EVERY = 0.02
# Messages that are sent in one turn of the event loop, so that other connections are served in between.
_AT_ONCE = 8


class WayBack(Protocol):
    """Sends one answer to the client that asked, over HTTP/1.1 or HTTP/2. The client may have gone meanwhile."""

    def answer(self, answer: HttpAnswer) -> None:
        """Send an answer."""
        ...

    def push(self, subscription: Subscription, request_id: str) -> None:
        """Send the events of a subscription as they come."""
        ...

    def lose(self) -> None:
        """Send nothing, so that the client can't know whether its request was carried out."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether the reader has to take something before more may be sent."""
        ...

    def send(self, data: bytes) -> None:
        """Send a part of the answer."""
        ...

    def end(self) -> None:
        """End the answer in the regular way."""
        ...

    def abort(self) -> None:
        """Break the answer off."""
        ...


class Push:
    """Sends the events of one subscription."""

    def __init__(self, subscription: Subscription, back: WayBack, faults: FaultPlan) -> None:
        """Send nothing yet."""
        self._subscription = subscription
        self._back = back
        self._faults = faults
        self._is_silent = False
        self._next: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Send the first message, and the others as they come."""
        self._back.send(event_stream.initial_response())
        self._go_on()

    def stop(self) -> None:
        """Send nothing more: the reader has gone."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._subscription.close()

    def _go_on(self) -> None:
        pause = _EVERY
        for _ in range(_AT_ONCE):
            if self._back.is_full or self._is_silent:
                break
            turn = self._subscription.turn()
            if (turn.message or turn.is_last) and self._send(turn):
                self._next = None
                self._subscription.close()
                return
            if not turn.message:
                break
        else:
            pause = 0.0
        self._next = asyncio.get_running_loop().call_later(pause, self._go_on)

    def _send(self, turn: SendingTurn) -> bool:
        """Send a message, or what a fault makes of it. Returns whether the answer is over."""
        fault = self._faults.draw(WITHIN, self._subscription.call) if self._faults and turn.message else None
        if fault is not None:
            return self._send_wrongly(turn, fault)
        if turn.message:
            self._back.send(turn.message)
        if turn.is_last:
            self._back.end()
        return turn.is_last

    def _send_wrongly(self, turn: SendingTurn, fault: Fault) -> bool:
        match fault.kind:
            case "silence":
                self._is_silent = True
                return False
            case "bad_crc":
                self._back.send(turn.message[:-1] + bytes((turn.message[-1] ^ 1,)))
            case "exception":
                self._back.send(exception_message(AwsError(fault.code, fault.message)))
            case "cut":
                self._back.send(turn.message[: len(turn.message) // 2])
                self._back.abort()
                return True
            case "end":
                pass
            case kind:
                raise AssertionError(kind)
        self._back.end()
        return True
