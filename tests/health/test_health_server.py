"""Probes over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from headrace.pipeline.health.server import HealthServer, LastLook
from headrace.pipeline.health.verdict import HealthCheck, HealthCode, HealthVerdict

EVERY = 30.0


class Looks:
    """A look whose answer a test chooses, and a clock that a test moves."""

    def __init__(self) -> None:
        self.answer: HealthVerdict | Exception = a_verdict(HealthCode.WELL)
        self.now = 0.0
        self.last = LastLook(application="app", look=self._look, every=EVERY, monotonic=lambda: self.now)

    def _look(self) -> HealthVerdict:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def a_verdict(health: HealthCode) -> HealthVerdict:
    return HealthVerdict("app", (HealthCheck("leader", health, "w1 leads"),))


@pytest.fixture
def looks() -> Looks:
    return Looks()


@pytest.fixture
def server(looks: Looks) -> Iterator[HealthServer]:
    """Without the thread that looks: a test looks when it wants to."""
    served = HealthServer("127.0.0.1", 0, looks.last)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield served
    served.stop()
    thread.join()


def asked(server: HealthServer, path: str) -> tuple[int, dict[str, Any]]:
    connection = HTTPConnection("127.0.0.1", server.server_port)
    connection.request("GET", path)
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    return answer.status, content


@pytest.mark.parametrize(
    ("health", "status"), [(HealthCode.WELL, 200), (HealthCode.ILL, 503), (HealthCode.UNKNOWN, 503)]
)
def test_a_probe_is_answered_by_the_last_look(
    looks: Looks, server: HealthServer, health: HealthCode, status: int
) -> None:
    looks.answer = a_verdict(health)
    looks.last.renew()
    looks.answer = a_verdict(HealthCode.WELL)
    found, content = asked(server, "/health")
    assert (found, content["health"]) == (status, health.name.lower())
    assert content["checks"] == [{"name": "leader", "health": health.name.lower(), "sentence": "w1 leads"}]


def test_no_look_an_old_one_and_one_that_failed_are_not_well(looks: Looks, server: HealthServer) -> None:
    assert asked(server, "/health")[0] == 503
    looks.last.renew()
    looks.now = 3 * EVERY
    assert asked(server, "/health")[0] == 200
    looks.now = 3 * EVERY + 1
    assert "91 s ago" in asked(server, "/health")[1]["sentence"]
    looks.answer = ValueError("what is this?")
    looks.last.renew()
    assert "ValueError: what is this?" in asked(server, "/health")[1]["sentence"]


def test_the_server_itself_is_alive_whatever_the_application_does(looks: Looks, server: HealthServer) -> None:
    looks.answer = a_verdict(HealthCode.ILL)
    looks.last.renew()
    assert asked(server, "/alive")[0] == 200
    assert asked(server, "/elsewhere")[0] == 404
