"""The wire names of KCL's two rows of upgrades: `Migration3.0` (2.x to 3.x) and `TableMigration3.5` (three tables to one)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pipeline.aws import attributes as av
from pipeline.aws.attributes import Item
from pipeline.errors import WrongShape
from pipeline.kcl import layout
from pipeline.kcl.migration import ClientVersion, TableStatus

CLIENT_VERSION: Final = "cv"
TABLE_STATUS: Final = "tm"
BY: Final = "mb"
AT: Final = "mts"
HISTORY: Final = "h"
ENTITY: Final = "entityType"
CLIENT_VERSION_TYPE: Final = "CLIENT_VERSION_MIGRATION"

_CLIENT_PREFIX: Final = "CLIENT_VERSION_"
_KEPT: Final = 10
"""Entries of the history, newest first."""


@dataclass(frozen=True, slots=True)
class VersionRow:
    """What was decided last about the client version, and by whom."""

    version: ClientVersion
    by: str
    at: datetime
    history: tuple[Item, ...] = ()
    """As it lies in the row: ours only puts entries before it."""


def read_version(item: Item) -> VersionRow:
    at = av.moment(item, AT, av.MILLISECOND)
    if at is None:
        raise WrongShape(f"{AT} is missing")
    return VersionRow(
        _version(av.mandatory_text(item, CLIENT_VERSION)),
        av.mandatory_text(item, BY),
        at,
        tuple(item.get(HISTORY, {}).get("L", ())),
    )


def version_value(version: ClientVersion) -> Item:
    return av.text_value(f"{_CLIENT_PREFIX}{version}")


def entry(row: VersionRow) -> Item:
    """One of the history."""
    return {
        "M": {
            CLIENT_VERSION: version_value(row.version),
            BY: av.text_value(row.by),
            AT: av.moment_value(row.at, av.MILLISECOND),
        }
    }


def history_value(entries: Iterable[Item]) -> Item:
    return {"L": list(entries)[:_KEPT]}


def read_table_status(item: Item) -> TableStatus:
    said = av.mandatory_text(item, TABLE_STATUS)
    try:
        return TableStatus(said.removeprefix(layout.PREFIX))
    except ValueError as error:
        raise WrongShape(f"{TABLE_STATUS} is {said!r}, a status that we don't know") from error


def _version(said: str) -> ClientVersion:
    try:
        return ClientVersion(said.removeprefix(_CLIENT_PREFIX))
    except ValueError as error:
        raise WrongShape(f"{CLIENT_VERSION} is {said!r}, a version that we don't know") from error
