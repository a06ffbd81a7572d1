"""Real processes commit to one table without any leases, and are killed at any time."""

import multiprocessing
import random
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.eventually import eventually
from tests.lake.samples import ORIGIN
from tests.lake.table import writer_process
from tests.lake.tables import IcebergLake

KILLS = 12


def test_writers_killed_at_random_neither_lose_nor_double_a_record(tmp_path: Path):
    lake = IcebergLake(tmp_path)
    lake.table.commit(ORIGIN)
    race(lake, str(tmp_path), random.Random(7))
    ranges = [r for page in lake.pages() for r in page.ranges]
    numbers = lake.numbers()
    assert {r.key for r in ranges} == set(writer_process.KEYS)
    for key in writer_process.KEYS:
        chain = [r for r in ranges if r.key == key]
        assert [r.after for r in chain] == [None, *(r.upto for r in chain[:-1])]
        assert numbers[key.shard_id] == list(range(1, 2 * len(chain) + 1))


def race(lake: IcebergLake, folder: str, dice: random.Random) -> None:
    """Run three writers. One after the other is killed and replaced, and the last ones end once all shards have
    landed."""
    fresh = multiprocessing.get_context("forkserver")
    fresh.set_forkserver_preload(["tests.lake.table.writer_process"])

    def start() -> BaseProcess:
        process = fresh.Process(target=writer_process.run, args=(folder, dice.randrange(1_000)), daemon=True)
        process.start()
        return process

    writers = [start() for _ in range(3)]
    for _ in range(KILLS):
        victim = dice.randrange(3)
        writers[victim].join(dice.uniform(0.1, 0.5))
        assert writers[victim].exitcode is None, "a writer ended without being killed"
        writers[victim].kill()
        writers[victim].join()
        writers[victim] = start()
    eventually(
        lambda: {r.key for page in lake.pages() for r in page.ranges} == set(writer_process.KEYS),
        "all shards have landed",
    )
    for writer in writers:
        writer.kill()
        writer.join()
