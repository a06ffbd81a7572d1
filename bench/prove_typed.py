"""What does the proof of typed tables cost? CPU, memory and disk of `headrace prove` on two targets of one lake table, on a real local Spark.

    orders      each row of the lake table is parsed, and one of a thousand is in quarantine
    chosen      the same, and a filter has dropped one row of a thousand: no sum tells which

The baseline is a plain scan by pyiceberg of the same five columns of the lake table and of the typed table, in the same run. The exit code
is 1 if the proof of `orders` needs more than 12 times the CPU of the scan, or if the process of the proof or a Python worker of Spark
needs more than 1,000 MiB. Of `chosen` all rows pass through Spark's shuffle: its proof is told apart, and has only the goal of memory.

    python bench/prove_typed.py                     10 million rows of 16 shards in the lake table, and as many in each typed table
    python bench/prove_typed.py --quick             1.6 million rows, less than 50 s
    python bench/prove_typed.py --rows 100000000
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
from pyiceberg.types import LongType, NestedField

from bench._cpu import MARK
from bench.prove import COLUMNS, EACH, KEYS, a_staged_file, land, rows_of, sequence, table_in
from bench.wave import Cpu, cpu_now
from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.ledger.story import Story
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.lake.spark.session import DISCOVERY, spark_session, stop_local_server
from headrace.pipeline.lake.spark.spark_job import run_tasks
from headrace.pipeline.lake.spark.tasks import SparkTasks
from headrace.pipeline.lake.table.catalog import embedded_catalog
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.ports.tasks import Now, Work
from headrace.pipeline.proof.compare_spark import ShufflingComparer
from headrace.pipeline.proof.compare_spark import on_spark as shuffled_on_spark
from headrace.pipeline.proof.compare_task import SideSpec
from headrace.pipeline.proof.made.subject import MadeSubject, sides_of
from headrace.pipeline.proof.ports import ProvedTable, TargetPorts
from headrace.pipeline.proof.prove import prove
from headrace.pipeline.proof.spark import IcebergProof
from headrace.pipeline.proof.verdict import TableProof
from headrace.pipeline.settings.model import SparkSettings
from headrace.pipeline.typed.account import aside_name
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.source import IcebergSource
from headrace.pipeline.typed.table import IcebergQuarantine, IcebergTyped
from tests.lake.samples import NOON, ORIGIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_CPU, _MOST_MB = 12.0, 1000.0
_WORKER = "a Python worker"
_TARGETS = {"orders": 0, "chosen": 1}
"""Rows of each thousand that a filter has dropped."""


def _typed(folder: Path, name: str) -> tuple[IcebergTyped, IcebergQuarantine]:
    catalog, state, clock = embedded_catalog(folder), str(folder / "state"), SystemClock()
    return (
        IcebergTyped(catalog, f"lake.{name}", state=state, clock=clock),
        IcebergQuarantine(catalog, f"lake.{name}_quarantine", state=state, clock=clock),
    )


def fill(folder: Path, rows: int) -> None:
    lake = table_in(folder)
    lake.ensure(create=True)
    lake.commit(ORIGIN)
    targets = {name: _typed(folder, name) for name in _TARGETS}
    for table, aside in targets.values():
        table.ensure(create=True)
        aside.ensure(create=True)
        table.with_columns([NestedField(1, "id", LongType())])
    for number in range(rows // (len(KEYS) * EACH)):
        found = rows_of(number)
        land(lake, number, found)
        for name, (table, aside) in targets.items():
            _parse(table, aside, number, found, dropped=_TARGETS[name])
            Settling(table=table, quarantine=aside, run="bench").settle()


def _parse(
    table: IcebergTyped, aside: IcebergQuarantine, number: int, rows: pa.Table, *, dropped: int
) -> None:
    """One wave of a target. Of each thousand rows of a shard, the last one is in quarantine, and the ones before it are dropped."""
    places = [n % 1000 for n in range(EACH)] * len(KEYS)
    is_aside = pa.array([place == 999 for place in places])
    is_good = pa.array([place < 999 - dropped for place in places])
    own = [name for name in rows.column_names if name != "data"]
    good = rows.filter(is_good).select(own)
    good = good.append_column("id", pa.array(range(len(good)), pa.int64()))
    bad = rows.filter(is_aside)
    bad = bad.append_column("reason", pa.repeat("no JSON", len(bad)))
    own_id = table.open().schema().find_field("id").field_id
    staged = a_staged_file(table.staging_spec(), good, [("id", own_id)])
    beside = a_staged_file(aside.staging_spec(), bad)
    each_aside = len(bad) // len(KEYS)
    each_good = len(good) // len(KEYS)
    left_out = EACH - each_good - each_aside
    account = Accounting(
        EACH,
        each_good,
        each_aside,
        {"filter": left_out} if left_out else {},
        aside=(aside_name(beside.path),),
    )
    ranges = tuple(
        Range(
            Kind.PARSED,
            key,
            None if not number else Position(sequence(number * EACH), arrival=NOON),
            Position(sequence((number + 1) * EACH), arrival=NOON),
            run="bench",
            claim="bench",
            rows=each_good,
            first_arrival=NOON,
            last_arrival=NOON,
            files=(Path(staged.path).name,),
            account=account.text(),
        )
        for key in KEYS
    )
    origins = () if number else ORIGIN.origins
    proposal = Proposal(ranges, (staged,), origins, whole=True, also=(beside,))
    assert not table.commit(proposal).landing.refused


def _prove(folder: Path, name: str, session: SparkSession) -> TableProof:
    lake, (table, aside) = table_in(folder), _typed(folder, name)
    tasks = SparkTasks(lambda _: session, 2)

    def proved(of: IcebergTable) -> ProvedTable:
        return ProvedTable(of.identifier, of.exists, IcebergProof(of, tasks), IcebergLineage(of))

    def side(of: IcebergTable) -> SideSpec:
        return SideSpec(of.staging_spec())

    sides = [partial(side, each) for each in (lake, table, aside)]
    ports = TargetPorts(
        table=proved(table),
        aside=proved(aside),
        source=IcebergSource(lake),
        lake=IcebergProof(lake, tasks),
        compare=ShufflingComparer(shuffled_on_spark(lambda _: session), sides),
    )
    subject = MadeSubject(
        sides=sides_of(ports),
        kept_from=None,
        ports=ports,
        moved=frozenset(),
        landed=Story(),
        landed_of=lambda _: Story(),
    )
    return prove(subject, ALL, anew=False)[0]


def scan(tables: Sequence[IcebergTable]) -> int:
    readers = (each.open().scan(selected_fields=COLUMNS).to_arrow_batch_reader() for each in tables)
    return sum(len(batch) for reader in readers for batch in reader)


@dataclass(frozen=True, slots=True)
class Cost:
    cpu: Cpu
    seconds: float
    proof: TableProof

    def told(self, rows: int) -> str:
        each = 1e6 / rows
        return (
            f"{self.cpu.all * each:.2f} us of CPU for each row of the lake table (run {self.cpu.run * each:.2f}, JVM {self.cpu.jvm * each:.2f}, "
            f"Python workers {self.cpu.workers * each:.2f}), {self.seconds:.0f} s"
        )


def _measured(act: Callable[[], TableProof]) -> Cost:
    before, own, began = cpu_now(), time.process_time(), time.monotonic()
    proof = act()
    cpu = replace(cpu_now() - before, run=time.process_time() - own)
    if not proof.holds:
        sys.exit(str(proof))
    return Cost(cpu, time.monotonic() - began, proof)


def _peaks() -> dict[str, float]:
    """MiB of the JVM and of the largest Python worker, at their highest."""
    found = {"JVM": 0.0, _WORKER: 0.0}
    mark = f"{MARK}={os.environ[MARK]}".encode()
    for each in Path("/proc").iterdir():
        try:
            if not each.name.isdigit() or int(each.name) == os.getpid():
                continue
            if mark not in (each / "environ").read_bytes().split(b"\0"):
                continue
            name = "JVM" if b"SparkConnectServer" in (each / "cmdline").read_bytes() else _WORKER
            lines = (each / "status").read_text(encoding="utf-8").splitlines()
        except OSError:  # the process has ended
            continue
        peak = next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)
        found[name] = max(found[name], peak)
    return found


def _disk(folder: Path) -> float:
    """MiB that Spark has on disk: shuffled and spilled rows, which it keeps until its next collection of garbage."""
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file()) / 2**20


def _memory(spark: Path) -> tuple[float, str]:
    """The largest Python process's peak in MiB, and a text about all of them."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    peaks = {"the process of the proof": own, **_peaks()}
    told = ", ".join(f"{name} {peak:,.0f} MiB" for name, peak in peaks.items())
    return max(own, peaks[_WORKER]), f"{told}; Spark's files {_disk(spark):,.0f} MiB"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1.6 million rows")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--fill", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--keep", metavar="FOLDER", help="make the tables here, and use them again")
    asked = parser.parse_args()
    rows = 1_600_000 if asked.quick else asked.rows
    if asked.fill:
        fill(Path(asked.fill), rows)
        return 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(asked.keep or f"{made}/lake")
        spark = Path(made) / "spark"
        spark.mkdir()
        if not folder.exists():
            folder.mkdir()
            # In a process of its own, so that its memory isn't counted.
            subprocess.run(
                [sys.executable, "-m", "bench.prove_typed", "--rows", str(rows), "--fill", str(folder)],
                check=True,
            )
        for memory in (folder / "state").glob("**/proof-*.json"):
            memory.unlink()
        os.environ |= {MARK: uuid4().hex, DISCOVERY: f"{made}/connect.json", "SPARK_LOCAL_DIRS": str(spark)}
        session = spark_session(SparkSettings(), "headrace-prove")
        try:
            return _judged(folder, rows, session, spark)
        finally:
            session.stop()
            stop_local_server()


def _judged(folder: Path, rows: int, session: SparkSession, spark: Path) -> int:
    # Spark's start doesn't count.
    run_tasks(session, 2, _nothing())
    first = _measured(lambda: _prove(folder, "orders", session))
    print(f"orders: {first.told(rows)}; {_memory(spark)[1]}", flush=True)
    again = _measured(lambda: _prove(folder, "orders", session))
    assert (again.proof.rows, first.proof.rows) == (0, 2 * rows), (again.proof.rows, first.proof.rows)
    print(f"orders, with nothing new: {again.cpu.all:.1f} s of CPU, {again.seconds:.0f} s")
    chosen = _measured(lambda: _prove(folder, "chosen", session))
    peak, memory = _memory(spark)
    print(f"chosen: {chosen.told(rows)}; {memory}", flush=True)
    before = time.process_time()
    read = scan((table_in(folder), _typed(folder, "orders")[0]))
    baseline = time.process_time() - before
    times = first.cpu.all / baseline
    print(
        f"pyiceberg's scan of {read:,} rows: {baseline / rows * 1e6:.2f} us for each row of the lake table; the proof of orders takes {times:.1f} times its "
        f"CPU (at most {_MOST_CPU:g}), that of chosen {chosen.cpu.all / baseline:.1f} times"
    )
    if times > _MOST_CPU or peak > _MOST_MB:
        print(f"more than {_MOST_CPU:g} times the CPU, or more than {_MOST_MB:,.0f} MiB")
        return 1
    return 0


def _nothing() -> Work:
    def work(_number: int, _now: Now) -> bytes:
        return b""

    return work


if __name__ == "__main__":
    sys.exit(main())
