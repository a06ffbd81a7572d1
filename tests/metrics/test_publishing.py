"""When metrics are sent, and that nothing waits for them: neither where nobody answers, nor in a process that was forked."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta

import pytest

from headrace.pipeline.metrics import kcl_series as kcl
from headrace.pipeline.metrics import own_series as own
from headrace.pipeline.metrics.gathering import Gathering
from headrace.pipeline.metrics.ports import Refusal, Send
from headrace.pipeline.metrics.publishing import Publishing
from headrace.pipeline.metrics.series import Level
from headrace.pipeline.metrics.statistics import Datum
from tests.metrics.metered_world import MemorySink


def a_publishing(send: Send, told: list[str], every: timedelta = timedelta(minutes=1)) -> Publishing:
    gathering = Gathering(level=Level.DETAILED, dimensions=(), most=100)
    return Publishing(gathering, lambda: send, every=every, tell=told.append, at_the_end=0.05)


@pytest.fixture
def told() -> list[str]:
    return []


def test_what_is_refused_is_counted_told_and_tried_less_often(told: list[str]) -> None:
    sink = MemorySink(refusal=Refusal("AWS refuses the request", 3))
    publishing = a_publishing(sink.send, told)
    publishing.gathering.add(kcl.LEADS, 1, times=3)
    publishing.flush()
    publishing.gathering.add(kcl.LEADS, 1)
    publishing.flush()
    assert "AWS refuses the request" in told[0]
    assert "3 values of them are lost" in told[0]
    assert "in 120 s" in told[0]
    assert "in 240 s" in told[1]
    sink.refusal = None
    publishing.gathering.add(kcl.LEADS, 1)
    publishing.flush()
    sent = {datum.series: datum.statistics.total for datum in sink.sent}
    assert sent == {kcl.LEADS: 1, own.DROPPED: 6}
    assert len(told) == 2


def test_an_unforeseen_error_of_a_sink_is_told_and_raises_nothing(told: list[str]) -> None:
    class Broken:
        def send(self, data: Sequence[Datum]) -> Refusal | None:
            raise ValueError("what is this?")

    publishing = a_publishing(Broken().send, told)
    publishing.gathering.add(kcl.LEADS, 1)
    publishing.flush()
    assert "ValueError: what is this?" in told[0]


@pytest.fixture
def hung() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_the_end_of_a_run_waits_for_no_one_who_does_not_answer(
    told: list[str], hung: threading.Event
) -> None:
    class Silent:
        def send(self, data: Sequence[Datum]) -> Refusal | None:
            hung.wait()
            return None

    publishing = a_publishing(Silent().send, told)
    publishing.begin()
    publishing.gathering.add(kcl.LEADS, 1)
    publishing.finish()
    publishing.close()
    assert "may be lost; no record is touched" in told[0]


def test_where_no_thread_can_be_started_any_more_the_end_of_the_process_sends_all_the_same(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.12 and newer start none while they end."""
    sink = MemorySink()
    publishing = a_publishing(sink.send, told)
    publishing.begin()
    publishing.gathering.add(kcl.LEADS, 1)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    publishing.finish()
    publishing.close()
    assert [datum.statistics.total for datum in sink.sent] == [1]


def test_values_are_sent_without_anybody_asking_for_it(told: list[str], hung: threading.Event) -> None:
    class Noticed:
        def send(self, data: Sequence[Datum]) -> Refusal | None:
            hung.set()
            return None

    publishing = a_publishing(Noticed().send, told, every=timedelta(milliseconds=1))
    publishing.begin()
    publishing.gathering.add(kcl.LEADS, 1)
    assert hung.wait(timeout=30)
    publishing.close()


def test_a_fork_sends_its_own_values_only(told: list[str]) -> None:
    sink = MemorySink()
    publishing = a_publishing(sink.send, told)
    publishing.begin()
    publishing.gathering.add(kcl.LEADS, 1)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        publishing.begin()
        publishing.gathering.add(kcl.LEADS, 0)
        publishing.flush()
        os.write(writer, ",".join(str(datum.statistics.total) for datum in sink.sent).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        assert answer.read() == b"0"
    publishing.flush()
    assert [datum.statistics.total for datum in sink.sent] == [1]
    publishing.close()


def test_the_end_of_a_forked_process_sends_what_is_left() -> None:
    """A run of Dagster is a process that multiprocessing has forked: `atexit` alone would send nothing there."""
    context = multiprocessing.get_context("fork")
    place = context.SimpleQueue()
    process = context.Process(target=_a_process, args=(place,))
    process.start()
    process.join()
    assert not place.empty()
    assert place.get() == [1.0]


def _a_process(place: object) -> None:
    class Kept:
        def send(self, data: Sequence[Datum]) -> Refusal | None:
            place.put([datum.statistics.total for datum in data])  # type: ignore[attr-defined]
            return None

    gathering = Gathering(level=Level.DETAILED, dimensions=(), most=100)
    publishing = Publishing(gathering, lambda: Kept().send, every=timedelta(minutes=5))
    publishing.begin()
    gathering.add(kcl.LEADS, 1)
