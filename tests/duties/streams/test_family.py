"""What a wave asks before a shard is read for the first time: enough to judge the shard's parents, in few requests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.ports.leases import Listing
from tests.duties.life import DAY, Life
from tests.memory.leases import MemoryLeaseStore


class CountingLeases(MemoryLeaseStore):
    """Counts the reads of single rows and of batches of rows."""

    asked: int = 0
    batches: int = 0

    def get(self, key: str) -> Lease | None:
        self.asked += 1
        return super().get(key)

    def get_many(self, keys: Sequence[str]) -> Listing:
        self.batches += 1
        return super().get_many(keys)


def a_cold_start(shards: int) -> tuple[Life, CountingLeases]:
    """A stream whose shards were all split long ago, and whose parents Kinesis has forgotten."""
    life = Life(shards=shards)
    for number in range(shards):
        life.source.split(life.key(number))
    life.later(DAY + timedelta(hours=1))
    leases = CountingLeases()
    life.leases = leases
    life.sync()
    return life, leases


def test_a_first_wave_with_hundreds_of_trimmed_parents_asks_for_their_rows_once() -> None:
    life, leases = a_cold_start(300)
    for number in range(300, 900):
        life.produce(number, 1)
    leases.asked = 0
    report = life.wave()
    assert report.rows == 600
    assert (leases.asked, leases.batches) == (0, 2), (
        "one batch to see which shards are due, and one to judge where they begin"
    )
    life.check()


def test_a_child_waits_for_its_trimmed_parent_while_the_parents_row_exists() -> None:
    life, _ = a_cold_start(2)
    life.put_row(0)
    asked = [life.key(number).shard_id for number in range(2, 6)]
    told = {p.lease_key[-1]: p.why for p in life.wave(asked).problems}
    assert {n: why for n, why in told.items() if "hasn't been read" in why}.keys() == {"2", "3"}


def test_a_wave_that_begins_no_shard_needs_no_listing_and_asks_for_no_row() -> None:
    life, leases = a_cold_start(2)
    for number in range(2, 6):
        life.produce(number, 1)
    life.wave()
    life.source.fails_to_list = True
    leases.asked = leases.batches = 0
    life.produce(2, 1)
    report = life.wave()
    assert report.rows == 1
    assert "the sequence numbers of its records aren't compared" in report.notes[0]
    assert (leases.asked, leases.batches) == (0, 0)


def test_a_child_waits_for_its_parent_if_the_parents_row_isnt_understood() -> None:
    life, leases = a_cold_start(1)
    leases.hold_odd_row(life.key(0).shard_id, "leaseCounter is a text")
    assert {p.why for p in life.wave().problems} == {f"{life.key(0).shard_id} hasn't been read to its end"}


def test_a_child_doesnt_wait_for_its_parents_row_of_a_former_life() -> None:
    life, _ = a_cold_start(1)
    life.put_row(0, stream_epoch=life.stream.epoch - 1)
    life.produce(1, 1)
    assert life.wave().rows == 1
