"""Real processes record the ledgers of one lake table and are killed at any time, while the table lands and is rolled back."""

import multiprocessing
import random
from multiprocessing.process import BaseProcess
from pathlib import Path

from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.ports.landing import LandingTable
from tests.eventually import eventually
from tests.lake.samples import ORIGIN
from tests.lake.table.writer_process import KEYS, land_once
from tests.lake.tables import IcebergLake
from tests.lineage import recorder_process
from tests.lineage.lineages import pages_in

KILLS = 8


def test_recorders_killed_at_random_neither_lose_nor_double_a_ledger(tmp_path: Path):
    lake = IcebergLake(tmp_path)
    lake.table.commit(ORIGIN)
    race(lake, str(tmp_path), random.Random(7))
    lineage = IcebergLineage(lake.iceberg)
    lineage.record()
    assert lineage.recorded().snapshot == lake.table.load().snapshot
    assert pages_in(lineage) == lake.pages()
    assert lineage.recorded().snapshots == len(lake.pages())


def race(lake: IcebergLake, folder: str, dice: random.Random) -> None:
    """Land ranges and roll some back, while two recorders are killed in turn and replaced. Ends once a recorder has recorded."""
    fresh = multiprocessing.get_context("forkserver")
    fresh.set_forkserver_preload(["tests.lineage.recorder_process"])

    def start() -> BaseProcess:
        process = fresh.Process(target=recorder_process.run, args=(folder,), daemon=True)
        process.start()
        return process

    recorders = [start() for _ in range(2)]
    for _ in range(KILLS):
        for _ in range(dice.randint(1, 3)):
            land_once(lake.table, dice)
        if dice.random() < 0.4:
            lake.rollback(dice.randint(1, 2))
        victim = dice.randrange(2)
        recorders[victim].join(dice.uniform(0.1, 0.5))
        assert recorders[victim].exitcode is None, "a recorder ended without being killed"
        recorders[victim].kill()
        recorders[victim].join()
        recorders[victim] = start()
    land_until_all_have_a_position(lake.table, dice)
    lineage = IcebergLineage(lake.handle())
    eventually(lambda: lineage.recorded().snapshot == lake.table.load().snapshot, "a recorder has caught up")
    for recorder in recorders:
        recorder.kill()
        recorder.join()


def land_until_all_have_a_position(table: LandingTable, dice: random.Random) -> None:
    while set(KEYS) - set(table.load().positions.shards):
        land_once(table, dice)
