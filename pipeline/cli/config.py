"""`headrace config`: the value of each setting, and the file line or variable that it comes from."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.cli.views.json_output import add_json, print_json
from headrace.pipeline.settings.regions import regions_in_doubt

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.settings.file import Loaded


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "config",
        description="Print the value of each setting, and whether it comes from the file (with its line), "
        "the environment or the defaults.",
    )
    add_config(parser)
    form = parser.add_mutually_exclusive_group()
    add_json(form)
    form.add_argument(
        "--derived",
        action="store_true",
        help="print the periods that follow from the settings instead, each with its formula",
    )
    form.add_argument(
        "--doc",
        nargs="?",
        const="-",
        metavar="FILE",
        help="print the reference of all settings as Markdown instead; with FILE, renew the reference inside that file",
    )


def run(args: argparse.Namespace) -> int:
    if args.doc:
        _document(args.doc)
        return 0
    loaded = load(args)
    _check_schemas(loaded)
    tell_aside(*regions_in_doubt(loaded))
    if args.derived:
        tell(*_derived_lines(loaded))
    elif args.json:
        print_json(settings_json(loaded))
    else:
        tell(*as_lines(loaded))
    return 0


def _check_schemas(loaded: "Loaded") -> None:
    """Check the schemas of formats that need a library of their own. Raises BadSetting. A schema in DDL was judged
    when the settings were read."""
    from headrace.pipeline.settings.rules.schema import DDL_FORMATS

    targets = [target for target in loaded.settings.parse if target.format not in DDL_FORMATS]
    if targets:
        from headrace.pipeline.typed.spark.frames import check_target

        for target in targets:
            check_target(target)


def as_lines(loaded: "Loaded") -> Iterator[str]:
    # A schema or a filter from a file of its own may have many lines.
    rows = [(key, " ".join(text.split()), str(loaded.origins[key])) for key, _, text in _shown(loaded)]
    width, room = max(len(key) for key, *_ in rows), max(len(text) for _, text, _ in rows)
    for key, text, source in rows:
        # A single long value must not push the places of all others to the right.
        yield f"{key:{width}}  {text:{min(room, 40)}}  {source}"


def _derived_lines(loaded: "Loaded") -> Iterator[str]:
    from headrace.pipeline.settings.derived import derived_of
    from headrace.pipeline.settings.values import show

    for period in derived_of(loaded.settings):
        yield f"{period.name:20} {show(period.value):8} = {period.formula:30} {period.meaning}"


def settings_json(loaded: "Loaded") -> dict[str, Any]:
    """The settings as JSON. Values are written as in the settings file; null means that the setting isn't set."""
    settings = {
        key: {"value": None if value is None else text, "source": str(loaded.origins[key])}
        for key, value, text in _shown(loaded)
    }
    return {"file": loaded.name, "settings": settings}


def _shown(loaded: "Loaded") -> Iterator[tuple[str, Any, str]]:
    from headrace.pipeline.settings.values import leaves, show

    for key, value, unit in leaves(loaded.settings):
        yield key, value, show(value, unit=unit)


def _document(target: str) -> None:
    from headrace.pipeline.cli.views.settings_doc import knob_tables, renewed
    from headrace.pipeline.errors import BadSetting

    if target == "-":
        tell(*knob_tables().split("\n"))
        return
    file = Path(target)
    try:
        # Only between its marks: the page around the tables is written by people.
        file.write_text(renewed(file.read_text(encoding="utf-8")), encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(
            f"--doc: {file} can't be renewed ({error}); allowed: a file of text that has the reference"
        ) from error
