"""A writer process that lands ranges in some shards until a test kills it."""

import itertools
import random
from pathlib import Path

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.errors import Transient
from headrace.pipeline.ports.landing import LandingTable
from tests.lake.samples import a_file, a_key, a_range
from tests.lake.tables import IcebergLake

KEYS = tuple(a_key(i) for i in range(3))


def land_once(table: LandingTable, dice: random.Random) -> None:
    """Read on in two shards and commit as a wave does, with all rows in one file."""
    positions = table.load().positions
    stands = {key: at.sequence or 0 if (at := positions.of(key)) else 0 for key in dice.sample(KEYS, 2)}
    file = a_file(table.staging_spec(), {key: [n + 1, n + 2] for key, n in stands.items()})
    ranges = tuple(a_range(key, n or None, n + 2, rows=2, files=[file]) for key, n in stands.items())
    table.commit(Proposal(ranges, (file,)))


def run(folder: str, seed: int) -> None:
    table = IcebergLake(Path(folder)).table
    dice = random.Random(seed)
    for _ in itertools.count():
        try:
            land_once(table, dice)
        except Transient as error:  # as in a run, the next wave starts at the table's positions
            print(error)
