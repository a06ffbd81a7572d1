"""How the columns of an existing typed table are changed to those that its parser gives now: a table goes in, an
update of its schema comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, TableRequirement, TableUpdate
from pyiceberg.types import NestedField

from headrace.pipeline.errors import WrongShape
from headrace.pipeline.typed.columns.spark_types import Promotion, has_more_fields, nullability, promotions

Change = tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]
"""Updates of a table, with what has to be true."""


def change_to(
    table: Table, desired: Sequence[NestedField], own: Sequence[NestedField], *, may_have_more: bool
) -> Change | None:
    """The schema update that gives the table the `desired` columns of its parser; None where the table has them.
    `own`: the columns that Headrace itself gives to each typed table.

    Columns are added, and types are promoted. A NOT NULL column, or a part of one, becomes nullable where the
    parser no longer promises a value. Columns that the parser doesn't name stay as they are where the table
    `may_have_more`. Raises WrongShape where the rows that the table has don't allow the change.
    """
    present = {column.name: column for column in own}
    # pyiceberg counts NOT NULL for a new column as incompatible. Whether rows stand in the way is
    # judged below, by `_check_empty`.
    update = table.update_schema(allow_incompatible_changes=True)
    changed, tightened = False, list[str]()
    for column in desired:
        if column.name not in present:
            update.add_column(column.name, column.field_type, column.doc, required=column.required)
            changed = True
            tightened += [column.name] if column.required else []
            continue
        for path, kind in _promoted(table, present[column.name], column, may_have_more=may_have_more):
            update.update_column(path, field_type=kind)
            changed = True
        for path, required in _nullability(present[column.name], column, may_have_more=may_have_more):
            update.update_column(path, required=required)
            changed = True
            tightened += [".".join(path)] if required else []
    for name in () if may_have_more else sorted(present.keys() - {column.name for column in desired}):
        if present[name].required:
            update.make_column_optional(name)
            changed = True
    if tightened:
        _check_empty(table, tightened)
    if not changed:
        return None
    # Not commit(), which deletes old metadata files. Its requirement is on the current schema.
    updates, only_if = update._commit()  # noqa: SLF001
    return updates, (*only_if, *([_no_other_rows(table)] if tightened else []))


def _promoted(
    table: Table, present: NestedField, desired: NestedField, *, may_have_more: bool
) -> tuple[Promotion, ...]:
    try:
        promoted = tuple(promotions(present.field_type, desired.field_type, (desired.name,)))
        fits = may_have_more or not has_more_fields(present.field_type, desired.field_type)
    except TypeError:
        promoted, fits = (), False
    if not fits:
        # As after a first wave that was refused: the table was made, and its rows weren't committed.
        out = (
            ""
            if table.current_snapshot() is not None
            else " that table has no row yet: drop it, and the next wave makes it anew;"
        )
        raise WrongShape(
            f"the column {desired.name} of {'.'.join(table.name())} is {present.field_type}, "
            f"and the parser now gives {desired.field_type}. Nothing was parsed, and no position moved;{out} "
            "give the column another name in the schema, or let the target have another table"
        )
    return promoted


def _nullability(
    present: NestedField, desired: NestedField, *, may_have_more: bool
) -> Iterator[tuple[tuple[str, ...], bool]]:
    if present.required != desired.required:
        yield (desired.name,), desired.required
    yield from nullability(
        present.field_type, desired.field_type, (desired.name,), may_have_more=may_have_more
    )


def _check_empty(table: Table, tightened: Sequence[str]) -> None:
    """Only a table without rows can get what is NOT NULL: rows that are there may have no value."""
    snapshot = table.current_snapshot()
    if snapshot is None or (snapshot.summary and snapshot.summary["total-records"] == "0"):
        return
    raise WrongShape(
        f"{', '.join(tightened)} of {'.'.join(table.name())} should be NOT NULL by the schema, "
        "and the rows that the table has may lack a value there. Nothing was parsed, and no position moved; "
        "take NOT NULL out of the schema, or let the target have another table, into which everything is parsed anew"
    )


def _no_other_rows(table: Table) -> TableRequirement:
    """Rows that another run commits meanwhile, by a schema without NOT NULL, may lack a value."""
    snapshot = table.current_snapshot()
    content = {"ref": MAIN_BRANCH, "snapshot-id": None if snapshot is None else snapshot.snapshot_id}
    return AssertRefSnapshotId.model_validate(content)
