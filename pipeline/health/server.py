"""Probes over HTTP: `/health` tells whether the application is well, `/alive` whether this server is.

A thread examines the tables from time to time. A probe is answered by the last result, so that many probes cost
no more than one.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from headrace.pipeline.health.verdict import HealthCheck, HealthCode, HealthVerdict

_TOO_OLD = 3
"""Looks that may be missing before a probe is told so."""


@dataclass(slots=True)
class LastLook:
    """The last verdict about the application's health, and when it was made."""

    application: str
    look: Callable[[], HealthVerdict]
    every: float
    monotonic: Callable[[], float] = time.monotonic
    _verdict: HealthVerdict | None = None
    _at: float = 0.0

    def renew(self) -> None:
        try:
            self._verdict = self.look()
        except Exception as error:  # noqa: BLE001 - a probe has to be answered whatever happened, and the answer has the error
            # Not the verdict before: it would stay well while nobody can look any more.
            self._verdict = self._unknown(f"the look at the tables failed ({type(error).__name__}: {error})")
        self._at = self.monotonic()

    def verdict(self) -> HealthVerdict:
        if self._verdict is None:
            return self._unknown("the first look at the tables isn't done yet")
        age = self.monotonic() - self._at
        if age > _TOO_OLD * self.every:
            return self._unknown(f"the last look at the tables was {age:.0f} s ago")
        return self._verdict

    def _unknown(self, why: str) -> HealthVerdict:
        return HealthVerdict(self.application, (HealthCheck("look", HealthCode.UNKNOWN, why),))


class HealthServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, last: LastLook) -> None:
        super().__init__((host, port), _Handler)
        self.last = last
        self._stopped = threading.Event()
        self._looking = threading.Thread(target=self._keep_looking, name="headrace-health", daemon=True)

    def serve(self) -> None:
        """Serve until `stop` is called, or a signal ends the process."""
        self._looking.start()
        self.serve_forever()

    def stop(self) -> None:
        self._stopped.set()
        self.shutdown()
        self.server_close()

    def _keep_looking(self) -> None:
        while not self._stopped.is_set():
            self.last.renew()
            self._stopped.wait(self.last.every)


class _Handler(BaseHTTPRequestHandler):
    server: HealthServer

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/health":
                verdict = self.server.last.verdict()
                well = verdict.health is HealthCode.WELL
                self._answer(
                    HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, health_document(verdict)
                )
            # Apart from /health: whoever restarts what isn't alive must not restart this server
            # because a shard fails.
            case "/alive":
                self._answer(HTTPStatus.OK, {"alive": True})
            case _:
                self._answer(HTTPStatus.NOT_FOUND, {"paths": ["/health", "/alive"]})

    def _answer(self, status: HTTPStatus, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Probes come every few seconds, and say nothing that a log needs."""


def health_document(verdict: HealthVerdict) -> dict[str, Any]:
    return {
        "application": verdict.application,
        "health": verdict.health.name.lower(),
        "sentence": str(verdict),
        "checks": [
            {"name": check.name, "health": check.health.name.lower(), "sentence": check.sentence}
            for check in verdict.checks
        ],
    }
