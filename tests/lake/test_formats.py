"""The forms of all that Headrace stores in tables, as docs/reference/formats.md describes them. Files of a released form are never changed: each later
Headrace has to read them.

`python -m tests.lake.test_formats` writes the files that are missing, for a new form under a new name.
"""

import ast
import json
import re
import zlib
from base64 import b64decode, b85decode
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyiceberg.schema import Schema

from headrace.pipeline.core.landing.ledger_codec import (
    read_delta,
    read_full,
    read_ledger,
    read_positions,
    write_delta,
    write_full,
    write_ledger,
    write_positions,
)
from headrace.pipeline.core.landing.state_delta import Delta
from headrace.pipeline.core.landing.valid_through_text import read_through, write_through
from headrace.pipeline.core.ledger.accounting import Accounting, read_accounting
from headrace.pipeline.core.ledger.ledger import (
    FilesDone,
    Kind,
    LedgerEntry,
    LedgerPage,
    Lost,
    ParentIs,
    ParentReason,
    Range,
)
from headrace.pipeline.core.ledger.recording import Recorded
from headrace.pipeline.core.ledger.rows import lineage_rows_of
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions, Start
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.lake.table.schema import RECORDS
from headrace.pipeline.lake.table.state_files import Pointer, StateFile
from headrace.pipeline.lineage import schema as lineage_schema
from headrace.pipeline.lineage.recorded import read_recorded, write_recorded
from headrace.pipeline.proof.accepted import Accepted, read_accepted, write_accepted
from headrace.pipeline.typed.table import IcebergQuarantine, IcebergTyped
from headrace.pipeline.windows import table as window_table
from headrace.pipeline.windows.table import read_manifest, write_manifest
from headrace.pipeline.windows.window import ReplayWindow, WindowRange
from tests.docs.pages import ROOT
from tests.memory.ledger_rows import ledgers_in

FOLDER = Path(__file__).parent / "formats"
PAGE = (ROOT / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")

ROOMS = ("lake", "lineage", "typed", "windows", "processors", "proof", "upkeep", "repair")
"""The packages that write tables."""
NOT_STORED = {"headrace.private-files", "headrace.yaml"}
"""A property of pyiceberg's FileIO, and the name of the settings file."""
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_769_000_000)
A, B, C = (ShardKey(STREAM, f"shardId-{number:012d}") for number in range(3))
NUMBER = 49640000000000000000000000000000000000000000000000000123
AT_REST = Position(NUMBER, 2, arrival=NOON, seen=NOON, inside=True)
ENDED = Position(NUMBER + 1, ended=True, children=(B.shard_id, C.shard_id), arrival=NOON, gap_accepted=True)
EMPTY = Position(start=Start(NOON), skipped_until=NOON)
ORIGIN = Origin(TRIM, NOON)
POSITIONS = Positions({STREAM: ORIGIN}, {A: ENDED, B: AT_REST, C: EMPTY})
ACCOUNT = Accounting(
    9, 6, 2, {"filter": 1}, version="1", schema=3, aside=("a.parquet",), taken=("b.parquet",), code="c", window="w", removed=(4, 1)
)  # fmt: skip
LANDED = Range(
    Kind.LANDED,
    B,
    after=None,
    upto=AT_REST,
    run="run-1",
    claim="run-1/1",
    rows=9,
    bytes=1234,
    first_arrival=NOON,
    last_arrival=NOON,
    files=("arrival_ts_day=2026-01-31/0123.parquet",),
    parents=(ParentReason(A.shard_id, ParentIs.PASSED, B.shard_id),),
    why="",
    records=5,
    unpacked=True,
)
PARSED = Range(
    Kind.PARSED, B, after=EMPTY, upto=AT_REST, run="run-2", claim="", rows=6, bytes=0, account=ACCOUNT.text()
)
LEDGER = LedgerPage((LANDED, PARSED), ((STREAM, ORIGIN),), (A,))
WINDOW = ReplayWindow(
    id="3125a316",
    application="orders",
    made=NOON,
    by="a person",
    how="all of 2026-01-31",
    ranges=(WindowRange(B, None, AT_REST, (A.shard_id,), 9, 1234),),
    missing=("a sentence",),
    oldest_day=date(2026, 1, 31),
    target="typed",
)
TYPED_LEDGER = LedgerPage(looked=FilesDone(77, 9, 8, "orders", frozenset({"a.parquet", "b.parquet"})))
ACCEPTED = (Accepted(77, {"orders/1769000000/shardId-000000000000": 3}, "a backfill", "somebody on a host"),)
ENTRIES = (
    LedgerEntry(snapshot=1, sequence=1, at=NOON, writer="w1", page=LEDGER),
    Lost(snapshot=2, sequence=2, at=NOON, why="a sentence", ranges=(LANDED,)),
)


def lineage_out(entries: tuple[LedgerEntry | Lost, ...]) -> str:
    return msgspec.json.encode([row for entry in entries for row in lineage_rows_of(entry)]).decode()


def lineage_in(text: str) -> tuple[LedgerEntry | Lost, ...]:
    rows = json.loads(text)
    for row in rows:
        _with_times(row)
    return tuple(ledgers_in(rows))


def _with_times(row: dict[str, Any]) -> None:
    for name, value in row.items():
        if isinstance(value, dict):
            _with_times(value)
        elif (
            name
            in {"snapshot_at", "first_arrival", "last_arrival", "arrival", "seen", "skipped_until", "decided"}
            and value
        ):
            row[name] = datetime.fromisoformat(value)


FORMS: Mapping[str, tuple[Any, Callable[[Any], str], Callable[[str], Any]]] = {
    "positions-1.txt": (POSITIONS, write_positions, read_positions),
    "ledger-1.txt": (LEDGER, write_ledger, read_ledger),
    "typed-ledger-1.txt": (TYPED_LEDGER, write_ledger, read_ledger),
    "accepted-1.json": (ACCEPTED, write_accepted, read_accepted),
    "full-positions-2.txt": (POSITIONS, write_full, read_full),
    "changed-positions-2.txt": (
        Delta({STREAM: ORIGIN}, {B: AT_REST}, frozenset({A}), 3),
        write_delta,
        read_delta,
    ),
    "state-1.txt": (
        Pointer(StateFile("f.json", "a" * 64), 77, StateFile("d.json", "b" * 64)),
        str,
        Pointer.read,
    ),
    "valid-through.txt": ({STREAM: NOON}, write_through, read_through),
    "account-1.txt": (ACCOUNT, Accounting.text, read_accounting),
    "window-1.json": (WINDOW, write_manifest, read_manifest),
    "recorded-1.txt": (
        Recorded(77, 9, 8, 7, 6),
        write_recorded,
        lambda text: read_recorded(text, "lake.orders_lineage"),
    ),
    "lineage-rows-1.json": (ENTRIES, lineage_out, lineage_in),
}
"""File -> the value that it holds, what writes it and what reads it."""

TABLES: Mapping[str, tuple[Schema, Mapping[str, str]]] = {
    "lake-table-1.json": (RECORDS.schema, RECORDS.properties),
    "typed-table-1.json": (IcebergTyped.layout.schema, IcebergTyped.layout.properties),
    "quarantine-table-1.json": (IcebergQuarantine.layout.schema, IcebergQuarantine.layout.properties),
    "lineage-table-1.json": (lineage_schema.SCHEMA, lineage_schema.PROPERTIES),
    "windows-table-1.json": (window_table.SCHEMA, window_table.PROPERTIES),
}
"""File -> columns and properties of one of Headrace's tables."""


def table_text(name: str) -> str:
    schema, properties = TABLES[name]
    content = {
        "columns": json.loads(schema.model_dump_json())["fields"],
        "properties": dict(sorted(properties.items())),
    }
    return json.dumps(content, indent=1) + "\n"


def plain(text: str) -> Any:
    """What a packed text says: compressed bytes may differ from version to version of zlib."""
    version, _, packed = text.partition(":")
    match version:
        case "1" if "/" not in packed and not packed.startswith("{"):
            try:
                return version, json.loads(zlib.decompress(b85decode(packed)))
            except (ValueError, zlib.error):
                return text
        case "2":
            return version, json.loads(zlib.decompress(b64decode(packed)))
        case _:
            return text


@pytest.mark.parametrize("name", FORMS)
def test_a_stored_value_is_read_as_what_it_was_written_for(name: str):
    value, _, read = FORMS[name]
    assert read((FOLDER / name).read_text(encoding="utf-8")) == value


@pytest.mark.parametrize("name", FORMS)
def test_a_value_is_written_in_the_stored_form(name: str):
    """Else the form has changed, and needs a new version: older versions of Headrace would misread it."""
    value, write, _ = FORMS[name]
    assert plain(write(value)) == plain((FOLDER / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", TABLES)
def test_a_new_table_has_the_stored_columns_and_properties(name: str):
    assert json.loads(table_text(name)) == json.loads((FOLDER / name).read_text(encoding="utf-8"))


def test_the_page_names_each_file_and_each_property():
    properties = {name for _, found in TABLES.values() for name in found if name.startswith("headrace.")}
    assert [name for name in (*FORMS, *TABLES, *properties) if name not in PAGE] == []
    assert {path.name for path in FOLDER.iterdir()} == {*FORMS, *TABLES}


def test_the_page_names_what_the_code_writes_into_tables():
    """Also properties that a table gets later than when it is made."""
    sources = [path for room in ROOMS for path in (ROOT / "pipeline" / room).rglob("*.py")]
    texts = {
        node.value
        for path in sources
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    names = {text for text in texts if re.fullmatch(r"headrace(\.[a-z-]+)+", text)} - NOT_STORED
    names = {name for name in names if not name.startswith("headrace.pipeline")}
    assert {"headrace.landed", "headrace.form", "headrace.positions"} <= names
    assert sorted(name for name in names if f"`{name}`" not in PAGE) == []


if __name__ == "__main__":
    for file, (form_of, writer, _) in FORMS.items():
        if not (FOLDER / file).exists():
            (FOLDER / file).write_text(writer(form_of), encoding="utf-8")
    for file in TABLES:
        if not (FOLDER / file).exists():
            (FOLDER / file).write_text(table_text(file), encoding="utf-8")
