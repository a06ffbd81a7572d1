"""Rows that real KCL workers wrote, seen while they ran: one of each shape, kept as fixtures in rows/."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

FOLDER = Path(__file__).parent / "rows"
_EVERY_SECONDS = 0.5
_WORDS = frozenset({"TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "SHARD_END"})
Row = dict[str, dict[str, Any]]


def shape_of(row: Row) -> tuple[object, ...]:
    """What makes a row another case than the rows so far: its attributes, and what sort of checkpoint it has."""
    checkpoint = row.get("checkpoint", {}).get("S", "")
    return (
        tuple(sorted((name, *value) for name, value in row.items())),
        checkpoint if checkpoint in _WORDS else "digits",
        row.get("cv", {}).get("S"),
        len(row.get("parentShardId", {}).get("SS", ())),
    )


@dataclass
class Rows:
    """Looks at every table of an application all the while; a context manager."""

    dynamodb: Any
    app: str
    found: dict[str, dict[tuple[object, ...], Row]] = field(default_factory=dict)
    _done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def tables(self) -> dict[str, list[Row]]:
        """What is in the application's tables now."""
        names = [n for n in self.dynamodb.list_tables()["TableNames"] if n.startswith(self.app)]
        return {name: self.dynamodb.scan(TableName=name)["Items"] for name in names}

    def save(self, kcl: str) -> Path:
        """Write a fixture: one row of each shape, by table."""
        path = FOLDER / f"{kcl}.json"
        tables = {name: list(shapes.values()) for name, shapes in sorted(self.found.items())}
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"kcl": kcl, "tables": tables}, indent=1, sort_keys=True) + "\n")
        return path

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(_EVERY_SECONDS):
            for table, rows in self.tables().items():
                shapes = self.found.setdefault(table, {})
                for row in rows:
                    shapes.setdefault(shape_of(row), row)
