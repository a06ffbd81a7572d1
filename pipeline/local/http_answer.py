"""HTTP answers, and their bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from xml.sax.saxutils import escape

from headrace.pipeline.local.errors import AwsError
from headrace.pipeline.local.wires import JSON, Wire

_PHRASES = {int(status): status.phrase for status in HTTPStatus}
_BODILESS = frozenset({204, 304})
# Headers that the connection writes itself, or that are computed from the simulator's clock.
_OURS = frozenset({"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding"})


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Status, headers and body. `length`: the Content-Length of an answer to HEAD, which has no body."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    length: str | None = None


def wire_answer(body: bytes, request_id: str, wire: Wire = JSON) -> HttpAnswer:
    """Answer as the JSON protocol does, in JSON or CBOR like the request."""
    return HttpAnswer(200, (("Content-Type", wire.content_type), ("x-amzn-RequestId", request_id)), body)


def error_answer(error: AwsError, request_id: str, service: str, wire: Wire = JSON) -> HttpAnswer:
    """Answer with an error as the service's protocol does: XML for S3 and STS, else JSON or CBOR like the request."""
    if service in {"s3", "sts"}:
        return HttpAnswer(
            error.status, (("Content-Type", "application/xml"),), _xml(error, request_id, service)
        )
    body = wire.written({"__type": error.code, "message": error.message})
    headers = (
        ("Content-Type", wire.content_type),
        ("x-amzn-RequestId", request_id),
        ("x-amzn-ErrorType", error.code),
    )
    return HttpAnswer(error.status, headers, body)


def answer_bytes(answer: HttpAnswer, *, date: str, method: str, keep: bool) -> Iterable[bytes]:
    """Give an answer's bytes in HTTP/1.1: the head, then the body where there is one."""
    lines = [f"HTTP/1.1 {answer.status} {_PHRASES.get(answer.status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in fields_of(answer, date=date, method=method)]
    lines.append("Connection: keep-alive" if keep else "Connection: close")
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
    return (head, answer.body) if has_body(answer, method) else (head,)


def fields_of(answer: HttpAnswer, *, date: str, method: str) -> list[tuple[str, str]]:
    """Give the header fields of an answer that HTTP/1.1 and HTTP/2 have both."""
    fields = [("Date", date)]
    fields += [(name, value) for name, value in answer.headers if name.lower() not in _OURS]
    if answer.status not in _BODILESS:
        head_only = method == "HEAD" and answer.length is not None
        fields.append(("Content-Length", str(answer.length if head_only else len(answer.body))))
    return fields


def has_body(answer: HttpAnswer, method: str) -> bool:
    """Tell whether bytes follow the head of an answer."""
    return method != "HEAD" and answer.status not in _BODILESS and bool(answer.body)


def stream_head(content_type: str, request_id: str, *, date: str) -> bytes:
    """Give the head of an answer that comes in chunks."""
    lines = (
        "HTTP/1.1 200 OK",
        f"Date: {date}",
        f"Content-Type: {content_type}",
        f"x-amzn-RequestId: {request_id}",
        "Transfer-Encoding: chunked",
        "Connection: keep-alive",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _xml(error: AwsError, request_id: str, service: str) -> bytes:
    inner = f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>"
    request_line = f"<RequestId>{request_id}</RequestId>"
    text = f"<Error>{inner}{request_line}</Error>" if service == "s3" else (
        f"<ErrorResponse><Error>{inner}</Error>{request_line}</ErrorResponse>"
    )  # fmt: skip
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode()
