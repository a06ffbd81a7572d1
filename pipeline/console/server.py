"""The console over HTTP: the page, the newest picture, and one shard.

GET /                     the page; /console.css, /console.js, ... its files
GET /api/look             the picture, made anew if that is due: ?family=NAME&since=NUMBER for what changed only
GET /api/shard?key=KEY    one shard
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.pipeline.console.details import details_of
from headrace.pipeline.console.document import Documents
from headrace.pipeline.console.guards import HEADERS, THIS_MACHINE, ServedAs, why_refused
from headrace.pipeline.console.page import TYPES, static
from headrace.pipeline.console.ports import Lake
from headrace.pipeline.console.watch import ConsoleWatch

log = logging.getLogger("headrace.console")
_COMPRESSED_FROM = 1_000
_LONGEST_KEY = 1_024
_MOST_DIGITS = 16


@dataclass(slots=True)
class Console:
    """The console of one application."""

    watch: ConsoleWatch
    documents: Documents
    lake: Lake | None
    _writing: Lock

    @classmethod
    def of(cls, watch: ConsoleWatch, documents: Documents, lake: Lake | None) -> Console:
        return cls(watch, documents, lake, Lock())

    def look(self, family: str, since: int) -> dict[str, Any]:
        report = self.watch.report()
        with self._writing:
            return self.documents.of(report, family=family, since=since)

    def shard(self, key: str) -> dict[str, Any] | None:
        return details_of(self.watch.report(), key, self.lake)


def app_of(console: Console, served_as: ServedAs = THIS_MACHINE) -> Starlette:
    pages = [Route(f"/{name}", partial(_static, name)) for name in TYPES]
    return Starlette(
        routes=[
            Route("/", partial(_static, "console.html")),
            *pages,
            Route("/api/look", partial(_look, console)),
            Route("/api/shard", partial(_shard, console)),
        ],
        middleware=[
            Middleware(_Guarded, served_as=served_as),
            Middleware(GZipMiddleware, minimum_size=_COMPRESSED_FROM, compresslevel=5),
        ],
    )


class _Guarded:
    """Refuses requests that come by another name, and adds the headers."""

    def __init__(self, app: ASGIApp, *, served_as: ServedAs) -> None:
        self._app = app
        self._served_as = served_as

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        request = Request(scope)
        # By the Host header and the asking site: a page of somebody else that the user has open
        # could otherwise ask this server by the user's own browser.
        why = why_refused(request.headers.get("host"), _asking_site(request), self._served_as)
        answer = None if why is None else PlainTextResponse(why, status_code=403)
        await (answer or self._app)(scope, receive, send_with_headers)


def _asking_site(request: Request) -> str | None:
    """The site that asks for data. The page itself may be reached by a link from anywhere."""
    return request.headers.get("sec-fetch-site") if request.url.path.startswith("/api/") else None


async def _static(name: str, _: Request) -> Response:
    return Response(static(name), headers={"Content-Type": TYPES[name]})


async def _look(console: Console, request: Request) -> Response:
    since = request.query_params.get("since", "0")
    # The text comes from whoever asks: a long one takes Python long, or raises an error.
    number = int(since) if since.isascii() and since.isdigit() and len(since) < _MOST_DIGITS else 0
    return await _answered(partial(console.look, request.query_params.get("family", ""), number))


async def _shard(console: Console, request: Request) -> Response:
    return await _answered(partial(console.shard, request.query_params.get("key", "")[:_LONGEST_KEY]))


async def _answered(ask: Callable[[], dict[str, Any] | None]) -> Response:
    """The answer, made in a thread: a look waits for AWS, and pages that ask meanwhile get the picture before it."""
    try:
        answer = await run_in_threadpool(ask)
    except Exception as error:
        # A mistake of the console: the page shows a sentence, and goes on with what it has.
        log.exception("the console failed to answer")
        sentence = f"The console failed to answer ({type(error).__name__}); its terminal shows where. Nothing was written."
        return _json({"trouble": sentence}, status=500)
    if answer is None:
        return _json(
            {"trouble": "There is no such shard in the newest look. It may have left the stream."}, status=404
        )
    return _json(answer)


def _json(answer: dict[str, Any], *, status: int = 200) -> Response:
    return Response(json.dumps(answer, separators=(",", ":")), status, media_type="application/json")
