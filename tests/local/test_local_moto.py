"""moto behind its one worker."""

from __future__ import annotations

from threading import Barrier, BrokenBarrierError

from pipeline.local.http_reader import HttpRequest
from pipeline.local.moto_room import MotoRoom

REQUEST = HttpRequest("GET", "/bucket/key", {"host": "127.0.0.1"}, b"")


def test_moto_is_never_asked_two_things_at_once():
    """Races inside moto are rare, so their absence shows little; here two requests that could meet would."""
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


def test_a_bug_of_motos_is_one_failed_answer_with_its_trace_logged(caplog):
    def application(_environ, _start):
        raise KeyError("a bug")

    room = MotoRoom()
    room._application = application
    answer = room.submit(REQUEST).result()
    room.close()
    assert answer.status == 500
    assert "a bug" in caplog.text
