"""moto, which is called by one thread."""

from __future__ import annotations

from threading import Barrier, BrokenBarrierError
from typing import Any

from headrace.pipeline.local.http_reader import HttpRequest
from headrace.pipeline.local.moto.room import MotoRoom

REQUEST = HttpRequest("GET", "/bucket/key", {"host": "127.0.0.1"}, b"")


def test_moto_never_handles_two_requests_at_once():
    """Races inside moto are rare, so that none would show here by chance. In this test two requests would meet if
    they could."""
    meeting, met = Barrier(2), []

    def application(_environ, start):
        try:
            meeting.wait(0.05)
            met.append(True)
        except BrokenBarrierError:
            meeting.reset()
        start("200 OK", [])
        return [b"done"]

    room = MotoRoom()
    room._application = application
    answers = [room.submit(REQUEST) for _ in range(4)]
    bodies = [answer.result().body for answer in answers]
    room.close()
    assert (bodies, met) == ([b"done"] * 4, [])


def test_an_exception_in_moto_fails_one_answer_and_its_stack_is_logged(caplog):
    def application(_environ, _start):
        raise KeyError("a bug")

    room = MotoRoom()
    room._application = application
    answer = room.submit(REQUEST).result()
    room.close()
    assert answer.status == 500
    assert "a bug" in caplog.text


def test_moto_is_asked_once_for_its_dynamodb_and_each_time_for_the_others():
    """moto lists its folder to find a service's application: a tenth of what a write of a lease row costs."""
    asked: list[str] = []

    def dynamodb(_environ, start):
        start("200 OK", [])
        return [b"{}"]

    class Every:
        def __call__(self, _environ: Any, start: Any) -> list[bytes]:
            asked.append("every")
            start("200 OK", [])
            return [b"of another service"]

        def get_application(self, environ: dict[str, Any]) -> Any:
            asked.append(environ["HTTP_X_AMZ_TARGET"])
            return dynamodb

    room = MotoRoom()
    room._application = Every()
    get = HttpRequest("POST", "/", {"host": "127.0.0.1", "x-amz-target": "DynamoDB_20120810.GetItem"}, b"{}")
    bodies = [room.submit(request).result().body for request in (get, REQUEST, get, REQUEST)]
    room.close()
    assert bodies == [b"{}", b"of another service"] * 2
    assert asked == ["DynamoDB_20120810.GetItem", "every", "every"]
