"""All threads of a staging task together keep its budget within one page."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import pytest

from headrace.pipeline.core.landing.pace import MOST_BYTES, MOST_RECORDS
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits
from headrace.pipeline.lake.staging.stage_read import Box
from headrace.pipeline.ports.pages import RecordPage
from tests.lake.samples import StandingClock, a_key
from tests.lake.stage_script import a_batch, a_page, stage

_MIB = 1 << 20
SHARDS, THREADS = 32, 16


class Backlog:
    """Shards without an end. Each answer takes a moment, so that all threads that may ask do ask at the same time."""

    def __init__(self, records: int) -> None:
        self._pages = {
            a_key(n): a_page(*range(1, records + 1), key=a_key(n), behind=9) for n in range(SHARDS)
        }

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        while True:
            time.sleep(0.005)
            yield self._pages[batch.key]


@pytest.mark.parametrize(
    "limits",
    [
        BatchLimits(records=300, bytes=1 << 40, seconds=60),
        BatchLimits(records=1 << 40, bytes=300 * 7, seconds=60),
        # More than the largest page: after its first page a shard reserves no more than it needs.
        BatchLimits(records=MOST_RECORDS + 300, bytes=1 << 40, seconds=60),
    ],
    ids=["few records", "few bytes", "more than the largest page"],
)
def test_many_threads_together_read_at_most_one_page_more_than_the_budget(
    tmp_path: Path, limits: BatchLimits
):
    manifest = stage(
        [a_batch(n) for n in range(SHARDS)], Backlog(20), tmp_path, limits=limits, threads=THREADS
    )

    rows, bytes_ = (sum(getattr(each, name) for each in manifest.staged) for name in ("rows", "bytes"))
    assert rows >= limits.records or bytes_ >= limits.bytes, "the budget is used up"
    assert rows < limits.records + 20
    assert bytes_ < limits.bytes + 20 * 7


def a_box(*, records: int = 1 << 40, bytes_: int = 1 << 40, seconds: float = 60) -> Box:
    return Box(BatchLimits(records, bytes_, seconds), StandingClock())


def asks_at_once(box: Box, *, records: int = MOST_RECORDS, bytes_: int = MOST_BYTES) -> int:
    """How many pages of this size may be under way at the same time."""
    with ExitStack() as under_way, ThreadPoolExecutor(1) as other:
        for count in range(50):
            if not box.has_unreserved:
                waiting, granted = Event(), other.submit(lambda: box.room_for(records, bytes_).__enter__())
                waiting.wait(0.05)
                assert not granted.done(), "a page was granted although nothing was left unreserved"
                under_way.close()
                assert granted.result(timeout=20), (
                    "the next page is granted when those under way used nothing"
                )
                return count
            assert under_way.enter_context(box.room_for(records, bytes_))
    raise AssertionError("nothing stops the pages")


@pytest.mark.parametrize(
    ("box", "at_once"),
    [
        (lambda: a_box(records=1), 1),
        (lambda: a_box(records=2 * MOST_RECORDS), 2),
        (lambda: a_box(records=2 * MOST_RECORDS + 1), 3),
        (lambda: a_box(bytes_=30 * _MIB), 3),
        (lambda: a_box(bytes_=30 * _MIB + 1), 4),
    ],
)
def test_pages_are_asked_for_while_those_under_way_cant_use_up_what_is_left(
    box: Callable[[], Box], at_once: int
):
    assert asks_at_once(box()) == at_once


def test_a_waiting_thread_gives_up_when_the_page_under_way_used_up_the_budget():
    box = a_box(records=5)
    with ThreadPoolExecutor(1) as other:
        with box.room_for(5, 0) as first:
            second = other.submit(lambda: box.room_for(5, 0).__enter__())
            box.take(a_page(1, 2, 3, 4, 5))
        assert first
        assert second.result(timeout=20) is False


def test_a_page_that_fails_gives_its_reservation_back():
    box = a_box(records=5)
    with pytest.raises(OSError, match="lost"), box.room_for(5, 0):
        raise OSError("the connection was lost")

    with box.room_for(5, 0) as granted:
        assert granted


def test_nothing_is_granted_after_the_deadline():
    with a_box(seconds=0).room_for(1, 1) as granted:
        assert not granted
