"""The attribute names of KCL's two rows about upgrades: `Migration3.0` (2.x to 3.x) and `TableMigration3.5`
(three tables to one)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from headrace.pipeline.aws.leases import attributes as av
from headrace.pipeline.aws.leases.attributes import Item
from headrace.pipeline.aws.leases.lease_item import ENTITY
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.kcl import layout
from headrace.pipeline.kcl.migration import ClientVersion, TableStatus

CLIENT_VERSION: Final = "cv"
TABLE_STATUS: Final = "tm"
BY: Final = "mb"
AT: Final = "mts"
HISTORY: Final = "h"

_CLIENT_PREFIX: Final = "CLIENT_VERSION_"
_KINDS: Final = {layout.CLIENT_VERSION: "CLIENT_VERSION_MIGRATION", layout.TABLE_MIGRATION: "TABLE_MIGRATION"}
"""The entityType of each of the two rows."""
_KEPT: Final = 10
"""Entries of the history, as in KCL."""


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


@dataclass(frozen=True, slots=True)
class StatusRow:
    """The status of the move to one table, with the worker that decided it and the time."""

    status: TableStatus
    by: str
    at: datetime


def read_status_row(item: Item) -> StatusRow:
    changed = av.moment(item, AT, av.MILLISECOND)
    if changed is None:
        raise WrongShape(f"{AT} is missing")
    return StatusRow(read_table_status(item), av.mandatory_text(item, BY), changed)


def state_value(state: ClientVersion | TableStatus) -> Item:
    prefix = _CLIENT_PREFIX if isinstance(state, ClientVersion) else layout.PREFIX
    return av.text_value(f"{prefix}{state}")


def state_attribute(state: ClientVersion | TableStatus) -> str:
    return CLIENT_VERSION if isinstance(state, ClientVersion) else TABLE_STATUS


def new_row(
    state: ClientVersion | TableStatus, by: str, at: datetime, *, key: str, entity_type: bool
) -> dict[str, Item]:
    """The first row of a migration. As in KCL, its history begins with INIT."""
    name = layout.CLIENT_VERSION if isinstance(state, ClientVersion) else layout.TABLE_MIGRATION
    attributes = _decision(state, by, at)
    row = {
        key: av.text_value(name),
        **attributes,
        HISTORY: {"L": [{"M": _decision(type(state).INIT, by, at)}]},
    }
    return row | ({ENTITY: av.text_value(_KINDS[name])} if entity_type else {})


def changed_values(
    before: Item, state: ClientVersion | TableStatus, by: str, at: datetime
) -> dict[str, Item]:
    """The attributes that a change of a migration's row writes. The decision before it becomes the newest entry
    of the history.
    """
    # As the row has it and not as it was understood: what another program wrote stays as it wrote
    # it.
    entry = {name: before[name] for name in (state_attribute(state), BY, AT) if name in before}
    history = [{"M": entry}, *before.get(HISTORY, {}).get("L", ())]
    return {**_decision(state, by, at), HISTORY: {"L": history[:_KEPT]}}


def _decision(state: ClientVersion | TableStatus, by: str, at: datetime) -> dict[str, Item]:
    return {
        state_attribute(state): state_value(state),
        BY: av.text_value(by),
        AT: av.moment_value(at, av.MILLISECOND),
    }


def decisions(row: VersionRow) -> list[tuple[ClientVersion, datetime]]:
    """All decisions in the row's history, newest first. Entries that another program wrote in another form are
    left out.
    """
    told = [(row.version, row.at)]
    for entry in row.history:
        try:
            attributes = entry["M"]
            moment = av.moment(attributes, AT, av.MILLISECOND)
            version = _version(av.mandatory_text(attributes, CLIENT_VERSION))
        except (WrongShape, KeyError):
            continue
        if moment is not None:
            told.append((version, moment))
    return told


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
