"""Full pages take turns in one process, and small ones don't wait."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier, Event, Thread

import pytest

from headrace.pipeline.aws.reading.pages_gate import Gate


def comes(gate: Gate, size: int | None) -> bool:
    """Whether an answer of this size comes, rather than waiting for ever."""
    came = Event()

    def receive() -> None:
        with gate.room(size):
            came.set()

    Thread(target=receive, daemon=True).start()
    return came.wait(timeout=60)


def test_small_answers_come_side_by_side():
    gate = Gate(100)
    everybody = Barrier(10, timeout=60)

    def receive() -> None:
        with gate.room(10):
            everybody.wait()

    with ThreadPoolExecutor(10) as pool:
        for job in [pool.submit(receive) for _ in range(10)]:
            job.result()


def test_an_answer_waits_until_the_others_leave_room_for_it():
    gate = Gate(100)
    came = Event()

    def receive() -> None:
        with gate.room(60):
            came.set()

    with ThreadPoolExecutor(1) as pool:
        with gate.room(60):
            job = pool.submit(receive)
            with ExitStack() as others:
                others.enter_context(gate.room(40))
            assert not came.is_set()
        job.result()
    assert came.is_set()


def test_an_answer_larger_than_the_whole_room_comes_alone():
    assert comes(Gate(100), 1_000)


def test_the_whole_room_is_free_again_after_answers_of_any_size():
    """Sizes that are means aren't whole numbers, and a sum of such numbers isn't exact."""
    gate = Gate(100)
    for _ in range(60):
        gate.note(10)
    for size in (10, 17, 23, 5, 31) * 20:
        first, second = ExitStack(), ExitStack()
        gate.note(size)
        first.enter_context(gate.room(None))
        gate.note(size + 1)
        second.enter_context(gate.room(None))
        first.close()
        second.close()
    assert comes(gate, 1_000)


def test_a_failed_request_leaves_its_room():
    gate = Gate(100)
    for _ in range(3):
        with pytest.raises(OSError, match="lost"), gate.room(100):
            raise OSError("lost")
    assert comes(gate, 100)


def test_first_answers_are_expected_to_be_full_pages_until_small_ones_came():
    gate = Gate(10 * 1024 * 1024)
    for _ in range(40):
        gate.note(1_000)
    with ExitStack() as readings:
        for _ in range(100):
            assert comes(gate, None)
            readings.enter_context(gate.room(None))
