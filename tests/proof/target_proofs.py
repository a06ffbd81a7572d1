"""Proofs of typed tables and windows' tables over a real lake table, and the hands that damage them. What Spark does is done in this process."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.ledger.arrivals import ALL, Window
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.proof.compare_spark import Judge, Read, ShufflingComparer
from headrace.pipeline.proof.compare_task import SCHEMA, SideSpec
from headrace.pipeline.proof.ports import ProvedTable, TargetPorts
from headrace.pipeline.proof.spark import IcebergProof
from headrace.pipeline.proof.verdict import Proof, TableProof
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.typed.source import IcebergSource
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.windows.window import ReplayWindow
from tests.memory.tasks import LocalTasks
from tests.proof.proofs import proving_without_kinesis
from tests.typed.parsings import Bed
from tests.windows.windows import WindowBed


def shuffled(tasks: int, read: Read, judge: Judge) -> list[bytes]:
    """What Spark does, in this process: the rows of each bucket come together."""
    rows = pa.Table.from_batches(list(chain.from_iterable(map(read, range(tasks)))), SCHEMA)
    buckets: list[Any] = pc.unique(rows["bucket"]).to_pylist()
    return [judge(rows.filter(pc.equal(rows["bucket"], pa.scalar(each, pa.int32())))) for each in buckets]


def _proved(table: IcebergTable) -> ProvedTable:
    return ProvedTable(
        table.identifier, table.exists, IcebergProof(table, LocalTasks(table.clock)), IcebergLineage(table)
    )


def side(table: IcebergTable) -> SideSpec:
    return SideSpec(table.staging_spec())


def typed_ports(bed: Bed) -> TargetPorts:
    lake, table, aside = bed.lake.handle(), bed.typed(), bed.quarantine()
    specs = [partial(side, each) for each in (lake, table, aside)]
    return TargetPorts(
        table=_proved(table),
        aside=_proved(aside),
        source=IcebergSource(lake),
        lake=IcebergProof(lake, LocalTasks(bed.clock)),
        # Fewer tasks than files: a task reads several.
        compare=ShufflingComparer(shuffled, specs, most_tasks=2),
    )


def window_ports(bed: WindowBed, window: ReplayWindow) -> TargetPorts:
    lake, table = bed.lake.handle(), bed.table_of(window)
    return TargetPorts(
        table=_proved(table),
        aside=None,
        source=IcebergSource(lake),
        lake=IcebergProof(lake, LocalTasks(bed.clock)),
        compare=ShufflingComparer(shuffled, [partial(side, lake), partial(side, table)]),
        window=window,
    )


def prove(
    bed: Bed,
    ports: Callable[[], TargetPorts],
    window: Window = ALL,
    *,
    anew: bool = False,
    settings: UpkeepSettings | None = None,
) -> tuple[Proof, TableProof]:
    """The proof of the lake table with one table that was made of it."""
    proof = replace(
        proving_without_kinesis(bed.lake.handle(), bed.clock, settings), target_ports=lambda: [ports()]
    ).run(window, anew=anew)
    (table,) = proof.tables
    return proof, table


def wrong(proof: Proof | TableProof) -> list[str]:
    table = proof.lake if isinstance(proof, Proof) else proof
    return [text for check in table.checks for text in check.wrong]


def unproved(table: TableProof) -> list[str]:
    return [text for check in table.checks for text in check.unproved]


# --- damage -----------------------------------------------------------------------------------------------------

Rows = list[dict[str, Any]]


@contextmanager
def changed(table: IcebergTable, number: int, change: Callable[[dict[str, Any]], Rows]) -> Iterator[str]:
    """The data file with this row has other rows in its place, until the block ends."""
    live = IcebergLive(table).live()
    for path in (each.path.removeprefix("file://") for each in live.files):
        found = pq.read_table(path, partitioning=None)
        rows = found.to_pylist()
        if any(row["sequence_number"] == str(number) for row in rows):
            made = [
                new
                for row in rows
                for new in (change(row) if row["sequence_number"] == str(number) else [row])
            ]
            before = Path(path).read_bytes()
            pq.write_table(pa.Table.from_pylist(made, found.schema), path, compression="zstd")
            yield Path(path).name
            Path(path).write_bytes(before)
            return
    raise AssertionError(f"no file has the row {number}")


def removed(table: IcebergTable, number: int) -> AbstractContextManager[str]:
    return changed(table, number, lambda _: [])


def moved_to(number: int) -> Callable[[dict[str, Any]], Rows]:
    """In place of a row, a row with this number."""
    return lambda row: [_renamed(row, number)]


def beside(number: int, shard: str | None = None) -> Callable[[dict[str, Any]], Rows]:
    """Beside a row, a row with this number."""
    return lambda row: [row, _renamed({**row, "shard_id": shard or row["shard_id"]}, number)]


def _renamed(row: dict[str, Any], number: int) -> dict[str, Any]:
    return {**row, "sequence_number": str(number), "sort_key": f"{len(str(number)):03}:{number}:{0:019}"}


@contextmanager
def changed_ledgers(
    table: IcebergTable, change: Callable[[dict[str, Any]], Iterable[dict[str, Any]]]
) -> Iterator[None]:
    """The lineage table has all ledgers, and other rows in place of its own, until the block ends."""
    lineage = IcebergLineage(table)
    lineage.record()
    found = lineage.find()
    assert found is not None
    rows = found.scan().to_arrow()
    changed = [new for row in rows.to_pylist() for new in change(row)]
    found.overwrite(pa.Table.from_pylist(changed, rows.schema))
    yield
    found.refresh().overwrite(rows)


def is_range(row: dict[str, Any], shard: str, upto: int) -> bool:
    if row["entry"] != "range":
        return False
    found: tuple[str, str] = row["shard_id"], row["upto"]["sequence_number"]
    return found == (shard, str(upto))


def without(text: str, name: str, by: int) -> str:
    """The text of an accounting with another count."""
    known = read_accounting(text)
    return replace(known, **{name: getattr(known, name) + by}).text()
