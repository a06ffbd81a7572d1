"""What does parsing cost? CPU of a wave of a typed table for each format, on a real local Spark: the process, Spark's JVM and its workers.

    python bench/parse.py            # 400,000 orders, 166 B each in JSON
    python bench/parse.py --quick    # 100,000, about two minutes; exit 1 where a format misses its goal

Each format gets the same orders in its own form, in a lake table and a typed table of its own, and one wave of 2,000 orders before the
measured one, so that Spark's start doesn't count. The baseline is a callable that hands each payload on as it is: what it costs to read the
lake table, pass through Spark and write a table, without any parsing. `columns: evolving` reads the rows twice.

Beside the CPU stands how many shards one core keeps up with, if each gets the 1,000 records a second that Kinesis takes at most; first for
landing, measured in the same run on records of the same size (reading and staging, as in bench/read.py). Parsing has to keep up beside it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import tempfile
import time
import warnings
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from bench._cpu import MARK
from bench.read import reading_cpu
from bench.wave import Cpu, cpu_now
from headrace.pipeline.lake.spark.session import DISCOVERY, spark_session, stop_local_server
from headrace.pipeline.settings.blocks.parse import ParseSettings, UniqueSettings
from headrace.pipeline.settings.choices import ColumnsFrom, Compression, ParseFormat
from headrace.pipeline.settings.model import SparkSettings
from headrace.pipeline.typed.context import BatchContext
from headrace.pipeline.typed.quarantine.spark import SparkRedriver
from headrace.pipeline.typed.spark.frames import Frames
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.typed.wave import Parsing
from tests.typed.parsings import A, Bed, with_ports

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WARM_UP = 2000
_OF_A_SHARD = 1_000
"""Records a second that producers may write into a shard."""
_BY_ID = UniqueSettings(by="id", within=timedelta(hours=1))
_DDL = "id BIGINT, customer STRING, at BIGINT, amount DOUBLE, items ARRAY<STRUCT<sku: STRING, n: INT>>"
_ITEM = {
    "type": "record",
    "name": "Item",
    "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "int"}],
}
_AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "at", "type": "long"},
        {"name": "amount", "type": "double"},
        {"name": "items", "type": {"type": "array", "items": _ITEM}},
    ],
}
_PROTO = """
name: "order.proto" syntax: "proto3"
message_type {
  name: "Item"
  field { name: "sku" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "n" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL }
}
message_type {
  name: "Order"
  field { name: "id" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "customer" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "at" number: 3 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "amount" number: 4 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "items" number: 5 type: TYPE_MESSAGE type_name: ".Item" label: LABEL_REPEATED }
}
"""


def handed_on(records: DataFrame, _context: BatchContext) -> DataFrame:
    return records.select("record", "data")


def by_spark(records: DataFrame, _context: BatchContext) -> DataFrame:
    """What a user would write first: from_json, without a look at what it drops."""
    from pyspark.sql import functions as F  # noqa: N812

    found = records.select("record", F.from_json(F.col("data").cast("string"), _DDL).alias("row"))
    return found.select("record", "row.*")


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    goal: float
    """How many times the CPU of the baseline it may take."""
    encode: Callable[[dict[str, Any]], bytes]
    settings: Mapping[str, Any] = field(default_factory=dict)


def _cases() -> list[Case]:
    avro, protobuf, descriptors = _in_avro(), *_in_protobuf()
    own = {"format": ParseFormat.CALLABLE}
    return [
        Case(
            "handed on unparsed",
            1.0,
            _in_json,
            {**own, "callable": "bench.parse:handed_on", "schema": "data BINARY"},
        ),
        Case("JSON", 0.8, _in_json),
        Case("JSON, evolving", 1.1, _in_json, {"columns": ColumnsFrom.EVOLVING, "schema": ""}),
        Case("JSON, unique by id", 3.0, _in_json, {"unique": _BY_ID}),
        Case(
            "JSON in gzip", 1.0, lambda row: gzip.compress(_in_json(row)), {"compression": Compression.AUTO}
        ),
        Case("callable with from_json", 2.2, _in_json, {**own, "callable": "bench.parse:by_spark"}),
        Case("Avro", 0.7, avro, {"format": ParseFormat.AVRO, "schema": json.dumps(_AVRO)}),
        Case("Avro, unique by id", 3.0, avro, {**_avro(), "unique": _BY_ID}),
        Case("Avro with a filter", 1.2, avro, {**_avro(), "filter": "length(data) > 0"}),
        Case(
            "Protobuf",
            0.7,
            protobuf,
            {"format": ParseFormat.PROTOBUF, "schema": descriptors, "message": "Order"},
        ),
    ]


def _avro() -> dict[str, Any]:
    return {"format": ParseFormat.AVRO, "schema": json.dumps(_AVRO)}


def _order(number: int) -> dict[str, Any]:
    items = [{"sku": f"sku-{number % 97}-{n}", "n": n + 1} for n in range(3)]
    return {
        "id": number,
        "customer": f"customer-{number % 9973}",
        "at": 1_790_000_000_000 + number,
        "amount": number / 8,
        "items": items,
    }


def _in_json(row: dict[str, Any]) -> bytes:
    return json.dumps(row).encode()


def _in_avro() -> Callable[[dict[str, Any]], bytes]:
    from fastavro import parse_schema, schemaless_writer

    schema = parse_schema(_AVRO)

    def encode(row: dict[str, Any]) -> bytes:
        stream = BytesIO()
        schemaless_writer(stream, schema, row)
        return stream.getvalue()

    return encode


def _in_protobuf() -> tuple[Callable[[dict[str, Any]], bytes], str]:
    from google.protobuf import text_format
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    file = text_format.Parse(_PROTO, FileDescriptorProto())
    pool = DescriptorPool()
    pool.Add(file)
    order: Any = GetMessageClass(pool.FindMessageTypeByName("Order"))
    descriptors = FileDescriptorSet(file=[file]).SerializeToString()
    return lambda row: bytes(order(**row).SerializeToString()), b64encode(descriptors).decode()


def _parsing(bed: Bed, session: SparkSession) -> Parsing:
    before = bed.parsing(limits=WaveLimits(10_000_000, 2**32))
    frames = Frames(bed.settings, BatchContext("orders", "1", before.run))
    parser = SparkRedriver(
        session=lambda _: session,
        frames=frames,
        source=bed.lake.handle(),
        table=bed.typed(),
        quarantine=bed.quarantine(),
        tasks=2,
    )
    return with_ports(before, parser=parser, dropped_as=frames.dropped_as, check_settings=frames.check)


def measured(case: Case, session: SparkSession, records: int, folder: Path) -> tuple[Cpu, float]:
    bed = Bed(folder)
    bed.settings = replace(
        ParseSettings(name="orders", table="lake.orders", schema=_DDL), **dict(case.settings)
    )
    bed.land(A, {n: case.encode(_order(10**9 + n)) for n in range(1, _WARM_UP)})
    _parsing(bed, session).wave()
    start, at_once = 10_000, 50_000
    for first in range(0, records, at_once):
        bed.land(
            A,
            {start + n: case.encode(_order(n)) for n in range(first, min(first + at_once, records))},
        )
    parsing = _parsing(bed, session)
    before, own = cpu_now(), time.process_time()
    wave = parsing.wave()
    own, spark = time.process_time() - own, cpu_now() - before
    if (wave.landed, wave.aside) != (records, 0):
        sys.exit(f"{case.name}: {wave} of {records:,}")
    return replace(spark, run=own), (own + spark.jvm + spark.workers) / records * 1e6


def _shards(each: float) -> float:
    """At so many microseconds of CPU for each record."""
    return 1e6 / each / _OF_A_SHARD


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--only", metavar="NAME", action="append", help="the first case, and this one")
    asked = parser.parse_args()
    records = 100_000 if asked.quick else asked.records
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    os.environ[MARK] = uuid4().hex
    missed, baseline = [], 0.0
    with tempfile.TemporaryDirectory(prefix="headrace-parse-") as home:
        os.environ[DISCOVERY] = f"{home}/connect.json"
        session = spark_session(SparkSettings(), "headrace-parse")
        try:
            print(
                f"CPU microseconds of each of {records:,} records; shards at {_OF_A_SHARD:,} records a second that one core keeps up with"
            )
            landing = reading_cpu(len(_in_json(_order(0)))) * 1e6
            print(f"{'landing':24} {landing:5.1f}, {_shards(landing):,.0f} shards", flush=True)
            cases = [
                each for n, each in enumerate(_cases()) if not (n and asked.only) or each.name in asked.only
            ]
            for number, case in enumerate(cases):
                cpu, each = measured(case, session, records, Path(home) / str(number))
                run, jvm, workers = (part / records * 1e6 for part in (cpu.run, cpu.jvm, cpu.workers))
                baseline = baseline or each
                print(
                    f"{case.name:24} {each:5.1f}, {_shards(each):,.0f} shards, {each / baseline:.2f} times the first (goal: {case.goal:g}): run {run:.1f}, JVM {jvm:.1f}, Python workers {workers:.1f}",
                    flush=True,
                )
                if each > case.goal * baseline:
                    missed.append(case.name)
        finally:
            session.stop()
            stop_local_server()
    print(f"misses its goal: {', '.join(missed) or 'none'}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
