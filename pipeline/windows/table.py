"""The table of windows on Iceberg, `<lake table>_windows`: a row for each window, and a row for each later
statement about one, such as that it is cancelled or done.

A row is only ever added. Compare-and-swap on the table's newest snapshot gives the rows one order. Each row has
an id of its own, by which a commit is found whose answer was lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from headrace.pipeline.errors import CommitUnknown, Transient, Unknown, WrongShape
from headrace.pipeline.lake.table.append import own_id, prepare
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.form import FORM, TABLE_FORM, check_form
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.remedy import Remedy, of_window
from headrace.pipeline.windows.ports import WindowStore
from headrace.pipeline.windows.window import KeptWindow, ReplayWindow, Word

_TRIES = 20
# Of a refusal it is sure that nothing was written. Each commit without a clear answer may have landed, so that these
# end sooner.
_UNSURE_TRIES = 3
_CREATED = "created"
_FORM = 1
_COLUMNS = (
    ("id", StringType(), "Of this row"),
    ("number", LongType(), "Grows from each row to the next one"),
    ("window", StringType(), "Id of the window"),
    ("entry", StringType(), "created, cancelled, resumed or done"),
    ("at", TimestamptzType(), "When the row was written"),
    ("by", StringType(), "Who said it"),
    ("how", StringType(), "What was asked for; only in the row that created the window"),
    (
        "manifest",
        StringType(),
        "The window as JSON, with its range of each shard; only in the row that created it",
    ),
)
SCHEMA = Schema(
    *(
        NestedField(number, name, kind, required=False, doc=doc)
        for number, (name, kind, doc) in enumerate(_COLUMNS, start=1)
    )
)
PROPERTIES = {
    FORM: TABLE_FORM,
    "format-version": "2",
    "write.metadata.previous-versions-max": "20",
    # Each commit adds one row. Unless they are merged, each leaves a manifest that every later look has to read.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
}


class IcebergWindowCopy(IcebergTable):
    """A window's own table, with the records that were copied."""

    @property
    def remedy(self) -> Remedy:
        return of_window(self.identifier)


class IcebergWindows(WindowStore):
    """The windows of one lake table, in an Iceberg table beside it."""

    def __init__(self, lake: IcebergTable) -> None:
        self.identifier = f"{lake.identifier}_windows"
        self._lake = lake

    def all(self) -> tuple[KeptWindow, ...]:
        table = self._find()
        rows = [] if table is None else self._rows(table)
        windows = {
            row["window"]: KeptWindow(_read(row, self.identifier)) for row in rows if row["entry"] == _CREATED
        }
        for row in rows:
            if row["entry"] != _CREATED and row["window"] in windows:
                windows[row["window"]] = windows[row["window"]].after(row["entry"])
        return tuple(windows.values())

    def keep(self, window: ReplayWindow) -> None:
        manifest = write_manifest(window)
        self._add(
            {"window": window.id, "entry": _CREATED, "by": window.by, "how": window.how, "manifest": manifest}
        )

    def say(self, window: str, word: Word, *, by: str) -> None:
        if all(kept_window.window.id != window for kept_window in self.all()):
            raise Unknown(
                f"there is no window {window!r}. Nothing was changed; `headrace window list` names all windows"
            )
        self._add({"window": window, "entry": word.value, "by": by})

    def _find(self) -> Table | None:
        with asking(f"the table of windows {self.identifier}"):
            try:
                table = self._lake.catalog.load_table(self.identifier)
            except NoSuchTableError:
                return None
        check_form(table, f"the table of windows {self.identifier}")
        return table

    def _rows(self, table: Table) -> list[dict[str, Any]]:
        with asking(f"the table of windows {self.identifier}"):
            rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
        if rows and (lacking := {name for name, _, _ in _COLUMNS} - rows[0].keys()):
            raise WrongShape(
                f"the table {self.identifier} lacks the column {min(lacking)} of a table of windows. "
                "Nothing was written to it; rename that table"
            )
        return sorted(rows, key=lambda row: (row["number"], row["id"]))

    def _add(self, row: Mapping[str, str]) -> None:
        # By its own id a row is found again whose commit got no clear answer.
        mine, unsure = uuid4().hex, list[Exception]()
        for _ in range(_TRIES):
            table = self._find()
            if table is None:
                self._create()
                continue
            rows = self._rows(table)
            if any(written["id"] == mine for written in rows):
                return
            # Ids of windows are short, so that two may be alike.
            if row["entry"] == _CREATED and any(written["window"] == row["window"] for written in rows):
                raise Transient(
                    f"another window has the id {row['window']} already. Nothing was stored; try again"
                )
            if len(unsure) == _UNSURE_TRIES:
                raise CommitUnknown(
                    f"{len(unsure)} commits to {self.identifier} got no clear answer (last error: {unsure[-1]}). "
                    "`headrace window list` tells whether one of them arrived"
                ) from unsure[-1]
            try:
                self._send(table, {**row, "id": mine, "number": len(rows) + 1})
            except CommitFailedException:
                continue  # another process has added a row meanwhile
            except Exception as error:  # noqa: BLE001 - of any error but a refusal the commit may have landed
                unsure.append(error)
                continue
            return
        raise Transient(
            f"{_TRIES} times another commit to {self.identifier} was faster. Nothing was stored; try again"
        )

    def _create(self) -> None:
        with asking(f"the catalog of {self.identifier}"), suppress(TableAlreadyExistsError):
            self._lake.catalog.create_table(self.identifier, SCHEMA, properties=dict(PROPERTIES))

    def _send(self, table: Table, row: Mapping[str, Any]) -> None:
        now = self._lake.clock.now()
        schema = table.schema().as_arrow()
        rows = pa.Table.from_pylist([{**row, "at": now}], schema=schema)
        files = _dataframe_to_data_files(table.metadata, rows, table.io, write_uuid=own_id())
        prepare(table, files, {}, now_ms=int(now.timestamp() * 1000)).send(table)


@dataclass(frozen=True, slots=True)
class _Manifest:
    form: int
    window: ReplayWindow


def write_manifest(window: ReplayWindow) -> str:
    """The window as JSON, with the version of its form."""
    return msgspec.json.encode(_Manifest(_FORM, window)).decode()


def read_manifest(text: str) -> ReplayWindow:
    manifest = msgspec.json.decode(text, type=_Manifest)
    if manifest.form != _FORM:
        raise msgspec.ValidationError(
            f"the window's form is {manifest.form}, and this Headrace reads form {_FORM}"
        )
    return manifest.window


def _read(row: Mapping[str, Any], name: str) -> ReplayWindow:
    try:
        return read_manifest(row["manifest"])
    except (msgspec.DecodeError, TypeError) as error:
        raise WrongShape(
            f"the window {row['window']!r} in {name} can't be read ({error}). "
            "A newer version of Headrace may have made it; use that version"
        ) from None
