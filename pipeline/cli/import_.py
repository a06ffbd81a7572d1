"""`headrace import`: settings of Headrace from the .properties file of KCL's MultiLangDaemon."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.errors import BadSetting, Mistake, WrongSettings

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.multilang.translate import Translation


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "import",
        description="Write settings of Headrace that do what KCL's MultiLangDaemon does with this .properties file, and "
        "tell of each name that means something else than it seems to, or that needs no setting here. AWS is asked "
        "nothing.",
    )
    parser.add_argument("properties", metavar="FILE", help="the .properties file of KCL's daemon")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the settings file to be written (default: standard output). It must not exist",
    )


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.multilang.as_yaml import yaml_of
    from headrace.pipeline.multilang.translate import translated
    from headrace.pipeline.settings.file import parse_settings

    translation = translated(_text_of(Path(args.properties)), file=args.properties)
    text = yaml_of(translation.settings)
    # Values that Headrace refuses are told before a file is written.
    try:
        parse_settings(text, {}, name=args.properties)
    except WrongSettings as error:
        raise WrongSettings(
            [_in_the_file(mistake, translation, args.properties) for mistake in error.mistakes]
        ) from error
    if args.output is None:
        tell(*text.splitlines())
    else:
        _write(Path(args.output), text)
        tell_aside(f"{args.output} was written; `headrace config` shows each setting")
    tell_aside(*map(str, translation.notes))
    return 0


def _in_the_file(mistake: Mistake, translation: "Translation", file: str) -> Mistake:
    """The same mistake, at the line of the daemon's file: the settings' own lines are of no file."""
    why = mistake.sentence.removeprefix(f"{mistake.place}: ")
    source = translation.sources.get(mistake.key)
    place = f"{file}:{source.line}" if source else file
    name = f"{source.name} became a setting that is refused: " if source else "as a setting, "
    return Mistake(place, mistake.key, f"{place}: {name}{why}. Nothing was written")


def _text_of(file: Path) -> str:
    try:
        # As Java reads such a file. Other letters are escaped in it.
        return file.read_text(encoding="latin-1")
    except OSError as error:
        raise BadSetting(
            f"{file} can't be read: {error.strerror}. Nothing was written; name the file of your daemon"
        ) from error


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError as error:
        raise BadSetting(
            f"{file} is there already, and was left as it is; name another file, or remove it"
        ) from error
    except OSError as error:
        raise BadSetting(f"{file} can't be written: {error.strerror}. Name another file") from error
