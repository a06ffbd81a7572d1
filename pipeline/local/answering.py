"""Answer requests, each by Kinesis, by moto or by the control endpoints, with the planned faults.

The Kinesis simulator answers in the event loop's own thread, which is fast and serves as its lock. moto answers
from a worker thread.

How requests and answers are transported (HTTP/1.1 or HTTP/2) is the matter of `WayBack`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from headrace.pipeline.local.control import PREFIX, control
from headrace.pipeline.local.errors import AwsError
from headrace.pipeline.local.faults import AROUND, Call, Fault, error_of_fault
from headrace.pipeline.local.http_answer import HttpAnswer, error_answer, wire_answer
from headrace.pipeline.local.http_reader import HttpRequest
from headrace.pipeline.local.kinesis.kinesis import DEFAULT_REGION
from headrace.pipeline.local.pushing import WayBack
from headrace.pipeline.local.routing import KINESIS_TARGET, call_of, region_of, service_of
from headrace.pipeline.local.site import Site
from headrace.pipeline.local.wires import wire_of

_log = logging.getLogger(__name__)
_SUBSCRIBE = f"{KINESIS_TARGET}SubscribeToShard"


def answer_request(site: Site, request: HttpRequest, back: WayBack) -> None:
    """Begin to answer a request. The answer may come later."""
    _Answering(site, request, back).begin()


class _Answering:
    """The answering of one request."""

    def __init__(self, site: Site, request: HttpRequest, back: WayBack) -> None:
        self._site = site
        self._request = request
        self._back = back

    def begin(self) -> None:
        if self._request.target.startswith(PREFIX):
            self._control()
            return
        site, request = self._site, self._request
        if site.callers and (refused := site.callers.refusal(request, site.kinesis)) is not None:
            self._refuse(refused, service_of(request))
            return
        if not site.kinesis.faults:
            self._perform(self._back.answer)
            return
        # Only a plan with faults needs to know what a request names: the body is parsed once more for it.
        call = call_of(request, site.kinesis)
        self._perform_with(site.kinesis.faults.draw(AROUND, call), call)

    def _perform_with(self, fault: Fault | None, call: Call) -> None:
        refused = error_of_fault(fault, call) if fault is not None else None
        if refused is not None:
            self._refuse(refused, call.service)
        elif fault is not None and fault.kind == "delay":
            loop = asyncio.get_running_loop()
            loop.call_later(fault.seconds, partial(self._perform, self._back.answer))
        elif fault is not None and fault.kind == "lost":
            self._perform(lambda _: self._back.lose())
        else:
            self._perform(self._back.answer)

    def _refuse(self, refused: AwsError, service: str) -> None:
        wire = wire_of(self._request.headers.get("content-type"))
        self._back.answer(error_answer(refused, self._site.request_id(), service, wire))

    def _perform(self, done: Callable[[HttpAnswer], None]) -> None:
        target = self._request.headers.get("x-amz-target", "")
        if target == _SUBSCRIBE:
            self._subscribe(done)
            return
        if target.startswith(KINESIS_TARGET) or service_of(self._request) == "kinesis":
            done(self._ask_kinesis(target.removeprefix(KINESIS_TARGET)))
            return
        loop = asyncio.get_running_loop()

        def answered(future: Future[HttpAnswer]) -> None:
            if not future.cancelled():
                # moto's worker thread calls this, and only the loop's own thread may write to a transport.
                loop.call_soon_threadsafe(done, future.result())

        self._site.moto.submit(self._request).add_done_callback(answered)

    def _subscribe(self, done: Callable[[HttpAnswer], None]) -> None:
        wire, request_id = wire_of(self._request.headers.get("content-type")), self._site.request_id()
        region = region_of(self._request) or DEFAULT_REGION
        try:
            subscription = self._site.kinesis.subscribe(self._request.body, region, wire=wire)
        except AwsError as error:
            done(error_answer(error, request_id, "kinesis", wire))
            return
        self._back.push(subscription, request_id)

    def _ask_kinesis(self, operation: str) -> HttpAnswer:
        wire, request_id = wire_of(self._request.headers.get("content-type")), self._site.request_id()
        region = region_of(self._request) or DEFAULT_REGION
        try:
            body = self._site.kinesis.answer(operation, self._request.body, region, wire=wire)
            return wire_answer(body, request_id, wire)
        except AwsError as error:
            return error_answer(error, request_id, "kinesis", wire)
        except Exception:  # noqa: BLE001 (an edge: the trace is logged)
            # A bug of the stand-in must not end the server. The logged traceback shows the bug.
            _log.exception("%s failed", operation)
            failure = AwsError("InternalFailure", "a bug of the stand-in", 500)
            return error_answer(failure, request_id, "kinesis", wire)

    def _control(self) -> None:
        site, request = self._site, self._request
        answer = control(request, site.kinesis, site.clock, site.callers)
        if request.method == "POST" and request.target == f"{PREFIX}reset":
            loop = asyncio.get_running_loop()
            # The answer waits for moto, so that whoever has it meets no table of before.
            forgotten = site.moto.reset()
            forgotten.add_done_callback(lambda _: loop.call_soon_threadsafe(self._back.answer, answer))
        else:
            self._back.answer(answer)
