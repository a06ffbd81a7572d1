"""A recorder process that brings the lineage table up to the lake table until a test kills it."""

import itertools
from pathlib import Path

from headrace.pipeline.errors import Transient
from headrace.pipeline.lineage.table import IcebergLineage
from tests.lake.tables import IcebergLake


def run(folder: str) -> None:
    table = IcebergLineage(IcebergLake(Path(folder)).iceberg)
    for _ in itertools.count():
        try:
            table.record()
        except Transient as error:  # the next recording goes on
            print(error)
