"""moto, which is called by one thread."""

from __future__ import annotations

from threading import Barrier, BrokenBarrierError

from pipeline.local.http_reader import HttpRequest
from pipeline.local.moto_room import MotoRoom

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
