"""DynamoDB, S3 and STS: moto's WSGI application, one request at a time.

moto isn't thread-safe (two concurrent conditional puts both win), so one worker thread is its lock. It is imported
for the first request that needs it, because that takes seconds, and some users need Kinesis alone.
"""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, cast
from urllib.parse import unquote_to_bytes

from headrace.pipeline.local.http_answer import HttpAnswer
from headrace.pipeline.local.http_reader import HttpRequest
from headrace.pipeline.local.moto.dynamodb_mended import TARGET, mended

_log = logging.getLogger(__name__)
_Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class MotoRoom:
    """moto, called by one worker thread."""

    def __init__(self) -> None:
        """Make the worker. moto isn't imported yet."""
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="moto")
        self._application: Any = None
        self._dynamodb: _Application | None = None

    def submit(self, request: HttpRequest) -> Future[HttpAnswer]:
        """Queue a request."""
        return self._worker.submit(self._answer, request)

    def reset(self) -> Future[None]:
        """Queue a reset, which removes every table and bucket."""
        return self._worker.submit(self._forget)

    def close(self) -> None:
        """Stop the worker after its current request."""
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _load(self) -> Any:
        if self._application is None:
            # Imported here, because moto takes a second or two to import.
            from moto.moto_server.werkzeug_app import (
                DomainDispatcherApplication,
                create_backend_app,
            )

            # A later moto may write its answers in another way, and then does so at its own pace.
            with suppress(ImportError):
                from headrace.pipeline.local.moto.items import write_items_in_one_step

                write_items_in_one_step()
            self._application = DomainDispatcherApplication(create_backend_app)
        return self._application

    def _application_for(self, request: HttpRequest, environ: dict[str, Any]) -> _Application:
        """The application of moto for a request. moto lists its own folder to find it, and lease tables make
        thousands of requests."""
        every: Any = self._load()
        if not request.headers.get("x-amz-target", "").startswith(TARGET):
            return cast("_Application", every)
        if self._dynamodb is None:
            self._dynamodb = every.get_application(environ)
        return self._dynamodb

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        try:
            if request.headers.get("x-amz-target", "").startswith(TARGET):
                return mended(request, self._ask)
            return self._ask(request)
        except Exception:  # noqa: BLE001 (an edge: the trace is logged)
            # A bug of moto must not end the server. The logged traceback shows the bug.
            _log.exception("moto failed on %s %s", request.method, request.target)
            return HttpAnswer(
                500, (("Content-Type", "application/x-amz-json-1.0"),), b'{"__type": "InternalFailure"}'
            )

    def _ask(self, request: HttpRequest) -> HttpAnswer:
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start(status: str, headers: list[tuple[str, str]], _error: object = None) -> None:
            started.append((status, headers))

        environ = wsgi_environment(request)
        chunks = self._application_for(request, environ)(environ, start)
        body = b"".join(chunks)
        # WSGI asks the server for this call after each answer, so that the application can free what it holds.
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
        status, headers = started[-1]
        length = next((value for name, value in headers if name.lower() == "content-length"), None)
        return HttpAnswer(int(status[:3]), tuple(headers), body, length)

    def _forget(self) -> None:
        if self._application is None:
            return
        request = HttpRequest("POST", "/moto-api/reset", {"host": "localhost"}, b"")
        self._answer(request)


def wsgi_environment(request: HttpRequest) -> dict[str, Any]:
    """The WSGI environment for a request."""
    path, _, query = request.target.partition("?")
    host, _, port = request.headers.get("host", "127.0.0.1").partition(":")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "RAW_URI": request.target,
        "REQUEST_URI": request.target,
        "SERVER_NAME": host,
        "SERVER_PORT": port or "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(request.body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    environ.update(_headers(request.headers))
    return environ


# The reader has joined the chunks already.
_SPENT = frozenset({"content-type", "content-length", "transfer-encoding", "expect", "connection"})
# Under this key moto looks up how S3's user metadata was spelled: WSGI can't tell my_key from my-key.
_SPELLED = "moto.preserved_header_names"


def _headers(headers: Mapping[str, str]) -> dict[str, Any]:
    environ: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for name, value in headers.items():
        if name in _SPENT:
            continue
        key = "HTTP_" + name.upper().replace("-", "_")
        environ[key] = value
        if "_" in name and name.startswith("x-amz-meta-"):
            spelled[key] = name
    return environ | {_SPELLED: spelled}
