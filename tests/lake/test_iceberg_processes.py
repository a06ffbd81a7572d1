"""Real processes on one table, without any lease, killed at any moment."""

import multiprocessing
import random
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.lake import writer_process
from tests.lake.files import ORIGIN
from tests.lake.tables import IcebergLake

SECONDS = 4.0


def test_writers_killed_at_random_lose_and_double_nothing(tmp_path: Path):
    lake = IcebergLake(tmp_path)
    lake.table.commit(ORIGIN)
    kills = race(str(tmp_path), random.Random(7))
    ranges = [r for page in lake.pages() for r in page.ranges]
    numbers = lake.numbers()
    assert kills >= 3
    assert len(ranges) > 10 * len(writer_process.KEYS)
    for key in writer_process.KEYS:
        chain = [r for r in ranges if r.key == key]
        assert [r.after for r in chain] == [None, *(r.upto for r in chain[:-1])]
        assert numbers[key.shard_id] == list(range(1, 2 * len(chain) + 1))


def race(folder: str, dice: random.Random) -> int:
    """Three writers; one after the other is killed and replaced. Returns how many were killed at work."""
    fresh = multiprocessing.get_context("forkserver")
    fresh.set_forkserver_preload(["tests.lake.writer_process"])

    def start() -> BaseProcess:
        process = fresh.Process(target=writer_process.run, args=(folder, dice.randrange(1_000)), daemon=True)
        process.start()
        return process

    writers, kills = [start() for _ in range(3)], 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        victim = dice.randrange(3)
        writers[victim].join(dice.uniform(0.1, 0.4))
        kills += writers[victim].exitcode is None
        writers[victim].kill()
        writers[victim].join()
        writers[victim] = start()
    for writer in writers:
        writer.kill()
        writer.join()
    return kills
