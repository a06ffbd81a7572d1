"""boto3 clients whose Kinesis is in this process: no network, no threads, a clock that only the test moves.

    aws = InProcessKinesis()
    client = aws.client()
    client.create_stream(StreamName="orders", ShardCount=2)
    aws.clock.advance(301)          # every shard iterator has expired

botocore emits the event `before-send` with each request, and sends nothing if a handler returns an answer. So
botocore's own code builds requests, parses errors and retries, and only the network is replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

from headrace.pipeline.local.clock import MovableClock, http_date
from headrace.pipeline.local.errors import AwsError
from headrace.pipeline.local.faults import AROUND, Fault, error_of_fault
from headrace.pipeline.local.http_answer import HttpAnswer, error_answer, wire_answer
from headrace.pipeline.local.kinesis.kinesis import DEFAULT_REGION, Kinesis
from headrace.pipeline.local.kinesis.region import Options
from headrace.pipeline.local.routing import KINESIS_TARGET
from headrace.pipeline.local.wires import Wire, wire_of

if TYPE_CHECKING:
    from boto3.session import Session
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse
    from mypy_boto3_kinesis import KinesisClient


@dataclass(frozen=True, slots=True)
class _Call:
    operation: str
    body: bytes
    wire: Wire


class InProcessKinesis:
    """A simulator and the clients that reach it. States change at once unless `transition` says otherwise."""

    def __init__(self, *, seed: int = 0, throttle: bool = False, transition: float = 0.0) -> None:
        """Make a simulator without streams, at a fixed moment."""
        self.clock = MovableClock()
        options = Options(throttle=throttle, transition=transition)
        self.kinesis = Kinesis(self.clock, Random(seed), options)
        self._requests = 0

    def client(self, region: str = DEFAULT_REGION, *, attempts: int = 1) -> KinesisClient:
        """Give a boto3 client; with more than one attempt, boto3 waits between them by the host's clock."""
        from botocore.config import Config

        client: KinesisClient = _session(region).client(
            "kinesis",
            endpoint_url="http://in-process.invalid",
            config=Config(retries={"total_max_attempts": attempts, "mode": "standard"}),
        )

        # botocore accepts an answer here, though the type stubs don't say so.
        def send(request: AWSPreparedRequest, **_: Any) -> Any:
            return self._send(request, region)

        client.meta.events.register("before-send.kinesis.*", send)
        return client

    def inject(self, kind: str, **fields: Any) -> None:
        """Add a fault: see faults.Fault."""
        self.kinesis.faults.add(Fault(kind=kind, **fields))

    def _send(self, request: AWSPreparedRequest, region: str) -> AWSResponse:
        from botocore.awsrequest import AWSResponse, HTTPHeaders

        target = request.headers["X-Amz-Target"]
        target = target.decode() if isinstance(target, bytes) else str(target)
        kind: Any = request.headers.get("Content-Type", "")
        wire = wire_of(kind.decode() if isinstance(kind, bytes) else str(kind))
        given: Any = request.body or b""
        body = given.encode() if isinstance(given, str) else bytes(given)
        call = _Call(target.removeprefix(KINESIS_TARGET), body, wire)
        answer = self._answer(call, region, str(request.url))
        headers = HTTPHeaders()
        for name, value in (*answer.headers, ("Date", http_date(self.clock()))):
            headers[name] = value
        return AWSResponse(str(request.url), answer.status, headers, _Raw(answer.body))

    def _answer(self, call: _Call, region: str, url: str) -> HttpAnswer:
        from botocore.exceptions import ConnectionClosedError

        self._requests += 1
        request_id = f"00000000-0000-4000-8000-{self._requests:012x}"
        try:
            fault = self._fault(call)
            body = self.kinesis.answer(call.operation, call.body, region, wire=call.wire)
            answer = wire_answer(body, request_id, call.wire)
        except AwsError as error:
            return error_answer(error, request_id, "kinesis", call.wire)
        if fault is not None and fault.kind == "lost":
            raise ConnectionClosedError(endpoint_url=url)
        return answer

    def _fault(self, sent: _Call) -> Fault | None:
        faults = self.kinesis.faults
        if not faults:
            return None
        call = self.kinesis.call_of(sent.operation, sent.body, sent.wire)
        fault = faults.draw(AROUND, call)
        if fault is None:
            return None
        refused = error_of_fault(fault, call)
        if refused is not None:
            raise refused
        if fault.kind == "delay":
            self.clock.advance(fault.seconds)
        return fault


@cache
def _session(region: str) -> Session:
    # Imported here because it takes a second, and pytest loads this module in every session. The session is
    # kept, because each new one reads the service models anew.
    import boto3

    return boto3.session.Session(
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106 (nothing checks it)
        region_name=region,
    )


class _Raw:
    """A body in the form in which botocore reads it from urllib3."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: Any, **__: Any) -> list[bytes]:
        return [self._body] if self._body else []
