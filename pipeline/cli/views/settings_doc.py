"""The reference tables in docs/reference/settings.md, generated from the dataclasses in
`headrace.pipeline.settings.model`."""

import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from itertools import groupby
from typing import Any

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.changes import CHANGES, Takes
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.values import allowed, element, hints_of, knobs, show

_CHANGED = """\
What a change does to an application that has landed records already. Sensors read the settings when the code server starts or is
reloaded (\"Reload definitions\" in Dagster's UI), runs and commands when they start.

- **refused**: if the note says so, nothing is read, and no row and no table is written. The leader's tick, each run and each command end
  with a sentence that says the ways out.
- **next run**: from the next run on, and for commands at once.
- **reload**: once the code server has been started again or reloaded.
- **later only**: for what is made from then on."""

BEGIN = "<!-- knobs: made by `headrace config --doc docs/reference/settings.md` -->"
END = "<!-- end of knobs -->"


def renewed(text: str) -> str:
    """The document with new tables between the two marks that it has for them."""
    if BEGIN not in text or END not in text:
        raise BadSetting(
            f"the document doesn't say where the tables belong: put the lines {BEGIN} and {END} there"
        )
    return f"{text.partition(BEGIN)[0]}{BEGIN}\n\n{knob_tables()}\n\n{change_table()}\n\n{END}{text.partition(END)[2]}"


def knob_tables() -> str:
    by_section = groupby(knobs(Settings, index="N"), key=lambda knob: knob[0].rpartition(".")[0])
    sections: dict[str, list[str]] = {}
    for section, section_knobs in by_section:
        sections.setdefault(section, []).extend(_row(*knob) for knob in section_knobs)
    return "\n\n".join("\n".join((*_head(section), *rows)) for section, rows in sections.items())


def change_table() -> str:
    """A table that says what happens when a setting is changed between two starts. Settings for which the same is
    true share a line.
    """
    lines: dict[tuple[str, str], list[str]] = {}
    for key, _, _ in knobs(Settings, index="N"):
        change = CHANGES[key]
        lines.setdefault((change.takes.value, change.note), []).append(f"`{key}`")
    order = {takes.value: place for place, takes in enumerate(Takes)}
    rows = sorted(lines.items(), key=lambda line: (-order[line[0][0]], not line[0][1]))
    head = (
        "## When a setting is changed",
        "",
        _CHANGED,
        "",
        "| Changed | Takes effect | Note |",
        "|---|---|---|",
    )
    return "\n".join(
        (
            *head,
            *(
                f"| {', '.join(keys)} | {takes} | {note.replace('<', '&lt;')} |"
                for (takes, note), keys in rows
            ),
        )
    )


def _head(section: str) -> Iterator[str]:
    yield f"### `{section}`" if section else "### At the top"
    yield ""
    if section:
        yield _doc_of(section)
        yield ""
    yield "| Key | Default | Allowed | KCL's name | Meaning |"
    yield "|---|---|---|---|---|"


def _row(key: str, spec: Field[Any], hint: Any) -> str:
    unit = spec.metadata.get("unit", "")
    # Durations and sizes have a paragraph of their own above the tables.
    rule = re.split(r", more than|, such as| that isn't", allowed(hint, unit=unit).replace(" | ", ", "))[0]
    cells = (f"`{key}`", _default(spec, unit), rule, spec.metadata.get("kcl", ""), spec.metadata["doc"])
    return "| " + " | ".join(cell.replace("<", "&lt;").replace("|", "\\|") for cell in cells) + " |"


def _default(spec: Field[Any], unit: str) -> str:
    if spec.default is MISSING and spec.default_factory is MISSING:
        return "required"
    value = spec.default if spec.default_factory is MISSING else spec.default_factory()
    return "" if value in (None, {}, ()) else f"`{show(value, unit=unit)}`"


def _doc_of(section: str) -> str:
    kind: Any = Settings
    doc = ""
    for name in section.split("."):
        if name != "N":
            doc = next(spec for spec in fields(kind) if spec.name == name).metadata["doc"]
            hint = hints_of(kind)[name]
            kind = element(hint) or hint
    return doc
