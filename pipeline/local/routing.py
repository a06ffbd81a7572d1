"""Read service, region, operation and resource of a request, as the plan of faults names them."""

from __future__ import annotations

from urllib.parse import unquote

from headrace.pipeline.local.errors import AwsError
from headrace.pipeline.local.faults import Call
from headrace.pipeline.local.http_reader import HttpRequest
from headrace.pipeline.local.kinesis.kinesis import Kinesis
from headrace.pipeline.local.wires import JSON, wire_of

KINESIS_TARGET = "Kinesis_20131202."
# The scope of a signature is Credential=key/date/region/service/aws4_request.
_SCOPE_WORDS = 5


def region_of(request: HttpRequest) -> str | None:
    """Give the region of the signature's credential scope."""
    return _scope(request, 2)


def service_of(request: HttpRequest) -> str:
    """Give the service of the signature's credential scope; unsigned requests count as S3's, as in moto."""
    return _scope(request, 3) or "s3"


def call_of(request: HttpRequest, kinesis: Kinesis) -> Call:
    """Tell the stream, table or path that a request names."""
    target = request.headers.get("x-amz-target", "")
    if target.startswith(KINESIS_TARGET):
        wire = wire_of(request.headers.get("content-type"))
        return kinesis.call_of(target.removeprefix(KINESIS_TARGET), request.body, wire)
    service, operation = service_of(request), target.rpartition(".")[2]
    if service == "dynamodb":
        return Call(service=service, operation=operation, resource=_table(request.body))
    if service == "s3":
        return Call(
            service=service, operation=request.method, resource=unquote(request.target.partition("?")[0])
        )
    return Call(service=service, operation=operation)


def _table(body: bytes) -> str:
    try:
        name = JSON.read(body).get("TableName")
    except AwsError:
        return ""
    return name if isinstance(name, str) else ""


def _scope(request: HttpRequest, place: int) -> str | None:
    words = request.headers.get("authorization", "").split("/", _SCOPE_WORDS)
    return words[place] if len(words) >= _SCOPE_WORDS else None
