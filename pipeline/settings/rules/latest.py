"""Rules of targets with `into: latest`, whose tables have one row for each key, and how their condition of deletion is
written. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.choices import ParseFormat
from headrace.pipeline.settings.ddl import WrongDdl
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.rules.broken import Broken
from headrace.pipeline.settings.rules.schema import DDL_FORMATS, columns_of_schema, why_no_keys

_DELETION = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:=\s*(?:'((?:[^']|'')*)'|(-?\d{1,18})|(true|false)))?\s*")
_ALLOWED = "a column that is true (is_deleted), or a column and its value (op = 'd', kind = 3)"
_TELL = "which records are of the same thing"
_WHOLE = ("byte", "short", "integer", "long")


@dataclass(frozen=True, slots=True)
class Deletion:
    """The condition of a target: records with this value in this column delete the row of their key."""

    column: str
    value: str | int | bool

    def why_not_in(self, columns: Mapping[str, Any]) -> str | None:
        """Why the condition can't be checked on these columns; None where it can. `columns`: with types in
        Spark's JSON form.
        """
        if self.column not in columns:
            return f"the condition names {self.column}, and the schema has no such column ({', '.join(columns) or 'it names none'})"
        kind = columns[self.column]
        fits = (
            kind == "boolean"
            if isinstance(self.value, bool)
            else kind in _WHOLE
            if isinstance(self.value, int)
            else kind == "string"
        )
        if fits:
            return None
        word = kind if isinstance(kind, str) else kind["type"]
        return f"the condition compares the column {self.column}, whose type is {word}, with {self.value!r}; allowed: {_ALLOWED}"


def deletion_in(text: str | None) -> Deletion | None:
    """The condition in the text of `latest.delete_when`; None where there is no text. Raises ValueError for a
    text of another form.
    """
    if text is None:
        return None
    match = _DELETION.fullmatch(text)
    if match is None:
        raise ValueError(text)
    column, quoted, number, truth = match.groups()
    if quoted is not None:
        return Deletion(column, quoted.replace("''", "'"))
    return Deletion(column, int(number) if number else truth != "false")


def latest_rules(settings: Settings) -> Iterator[Broken]:
    for n, target in enumerate(settings.parse):
        key = f"parse.{n}"
        if not target.is_latest:
            yield from _without(target, key)
            continue
        yield from _rules(target, key)
        # Sequence numbers order the records of one stream. Between two streams a greater number
        # says nothing.
        if target.stream is None and settings.multi:
            yield Broken(
                f"{key}.stream",
                "is missing; needed with into: latest and streams_mode: multi, because "
                "the numbers of two streams don't tell which record is the later one",
                also=(f"{key}.into",),
            )


def _without(target: ParseSettings, key: str) -> Iterator[Broken]:
    for name in ("key", "delete_when"):
        if getattr(target.latest, name) is not None:
            yield Broken(
                f"{key}.latest.{name}",
                "is given, but into is rows: remove it, or say into: latest",
                also=(f"{key}.into",),
            )


def _rules(target: ParseSettings, key: str) -> Iterator[Broken]:
    if target.unique.by:
        yield Broken(
            f"{key}.unique.by",
            "is given, and into is latest; remove it: a table of the latest rows has one row for each key anyway",
            also=(f"{key}.into",),
        )
    names = target.latest_key
    if len(set(names)) < len(names) or not all(names):
        yield Broken(
            f"{key}.latest.key",
            f"is {target.latest.key!r}; allowed: columns of the schema, each once (order_id, customer)",
        )
    if target.latest.delete_when is not None:
        if target.format is ParseFormat.DYNAMODB:
            yield Broken(
                f"{key}.latest.delete_when",
                "is given, and format is dynamodb, whose changes tell by eventName what is deleted: remove it",
                also=(f"{key}.format",),
            )
        elif not _DELETION.fullmatch(target.latest.delete_when):
            yield Broken(
                f"{key}.latest.delete_when", f"is {target.latest.delete_when!r}; allowed: {_ALLOWED}"
            )
    yield from _by_schema(target, key)


def _by_schema(target: ParseSettings, key: str) -> Iterator[Broken]:
    if target.format not in DDL_FORMATS or target.schema.endswith((".ddl", ".avsc", ".desc")):
        return
    try:
        columns = {column.name: column for column in columns_of_schema(target)}
    except WrongDdl:
        # Another rule tells of it.
        return
    kinds = {name: column.type for name, column in columns.items()}
    required = frozenset(name for name, column in columns.items() if column.required)
    for setting, why in why_not_latest(target, kinds, required):
        yield Broken(
            f"{key}.{setting}", f"of the target {target.name}: {why}", also=(f"{key}.into", f"{key}.schema")
        )


def why_not_latest(
    target: ParseSettings, columns: Mapping[str, Any], required: frozenset[str] | None
) -> Iterator[tuple[str, str]]:
    """Why a table of the latest rows can't have these columns: the setting, and the rest of a sentence.

    `columns`: with types in Spark's JSON form. `required`: those that are NOT NULL; None where the schema can't
    say so.
    """
    if why := why_no_keys(target.latest_key, columns, _TELL):
        yield "latest.key", why
    # A null is a key like any other, so that all records without a key would replace each other in
    # one row.
    elif lacking := [name for name in target.latest_key if required is not None and name not in required]:
        why = f"the key names {lacking[0]}, which may be null; write NOT NULL after its type in the schema"
        yield "latest.key", f"{why}: a record without a key then goes to quarantine"
    try:
        deletion = deletion_in(target.deletes_when)
    except ValueError:
        return
    if deletion is None:
        return
    if why := deletion.why_not_in(columns):
        if target.format is ParseFormat.DYNAMODB:
            yield (
                "schema",
                f"needs the column {deletion.column} STRING with into: latest: it tells what is deleted",
            )
        else:
            yield "latest.delete_when", why
