"""Rows that real KCL workers wrote, seen while the workers ran: one row of each shape is kept as a fixture in rows/."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.interop.meanwhile import meanwhile

FOLDER = Path(__file__).parent / "rows"
_EVERY_SECONDS = 0.5
_WORDS = frozenset({"TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "SHARD_END"})
Row = dict[str, dict[str, Any]]


def shape_of(row: Row) -> tuple[object, ...]:
    """What makes a row differ from the rows so far: its attributes, and the kind of its checkpoint."""
    checkpoint = row.get("checkpoint", {}).get("S", "")
    return (
        tuple(sorted((name, *value) for name, value in row.items())),
        checkpoint if checkpoint in _WORDS else "digits",
        row.get("cv", {}).get("S"),
        len(row.get("parentShardId", {}).get("SS", ())),
    )


@dataclass
class Rows:
    """Reads every table of an application while it is watched."""

    dynamodb: Any
    app: str
    found: dict[str, dict[tuple[object, ...], Row]] = field(default_factory=dict)

    def tables(self) -> dict[str, list[Row]]:
        """The rows that are in the application's tables now."""
        names = [n for n in self.dynamodb.list_tables()["TableNames"] if n.startswith(self.app)]
        return {name: self.dynamodb.scan(TableName=name)["Items"] for name in names}

    def naming(self, worker: str) -> list[str]:
        """The tables that name the worker now, each with the row's key."""
        return [
            f"{table}: {row.get('leaseKey', row.get('wid', row.get('key', {})))}"
            for table, rows in self.tables().items()
            for row in rows
            if any(value.get("S") == worker for value in row.values())
        ]

    def open_leases_of(self, worker: str) -> list[str]:
        """The open shards whose lease the worker owns. The row of an ended shard keeps its last owner."""
        rows = self.tables().get(self.app, ())
        owned = [row for row in rows if row.get("leaseOwner", {}).get("S") == worker]
        return sorted(row["leaseKey"]["S"] for row in owned if row["checkpoint"]["S"] != "SHARD_END")

    def save(self, kcl: str) -> Path:
        """Write a fixture with one row of each shape, by table."""
        path = FOLDER / f"{kcl}.json"
        tables = {name: list(shapes.values()) for name, shapes in sorted(self.found.items())}
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"kcl": kcl, "tables": tables}, indent=1, sort_keys=True) + "\n")
        return path

    def watched(self) -> AbstractContextManager[None]:
        return meanwhile(self._look, "the watch on the tables", every=_EVERY_SECONDS)

    def _look(self) -> None:
        for table, rows in self.tables().items():
            shapes = self.found.setdefault(table, {})
            for row in rows:
                shapes.setdefault(shape_of(row), row)
