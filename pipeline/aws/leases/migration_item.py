"""The attribute names of KCL's two rows about upgrades: `Migration3.0` (2.x to 3.x) and `TableMigration3.5`
(three tables to one)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from headrace.pipeline.aws.leases import attributes as av
from headrace.pipeline.aws.leases.attributes import Item
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.kcl import layout
from headrace.pipeline.kcl.migration import ClientVersion, TableStatus

CLIENT_VERSION: Final = "cv"
TABLE_STATUS: Final = "tm"
BY: Final = "mb"
AT: Final = "mts"
HISTORY: Final = "h"

_CLIENT_PREFIX: Final = "CLIENT_VERSION_"


@dataclass(frozen=True, slots=True)
class VersionRow:
    """The client version that was decided last, with the worker that decided it and the time."""

    version: ClientVersion
    by: str
    at: datetime
    history: tuple[Item, ...] = ()
    """Earlier decisions, unchanged from the row, newest first."""


def read_version(item: Item) -> VersionRow:
    changed = av.moment(item, AT, av.MILLISECOND)
    if changed is None:
        raise WrongShape(f"{AT} is missing")
    return VersionRow(
        _version(av.mandatory_text(item, CLIENT_VERSION)),
        av.mandatory_text(item, BY),
        changed,
        tuple(item.get(HISTORY, {}).get("L", ())),
    )


def read_table_status(item: Item) -> TableStatus:
    status = av.mandatory_text(item, TABLE_STATUS)
    try:
        return TableStatus(status.removeprefix(layout.PREFIX))
    except ValueError as error:
        raise WrongShape(f"{TABLE_STATUS} is {status!r}, a status that Headrace doesn't know") from error


def _version(text: str) -> ClientVersion:
    try:
        return ClientVersion(text.removeprefix(_CLIENT_PREFIX))
    except ValueError as error:
        raise WrongShape(f"{CLIENT_VERSION} is {text!r}, a version that Headrace doesn't know") from error
