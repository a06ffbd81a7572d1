"""Arguments that several subcommands share."""

import argparse
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.core.words.words import moment_of

if TYPE_CHECKING:
    from headrace.pipeline.core.ledger.arrivals import Window
    from headrace.pipeline.settings.file import Loaded
    from headrace.pipeline.settings.model import Settings

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 -- argparse has no public name for it


# The most digits of a sequence number, by Kinesis's API.
_MOST_DIGITS = 129


_LARGEST_PORT = 65_535


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the settings file (default: the file that HEADRACE_CONFIG names, else ./headrace.yaml)",
    )


def load(args: argparse.Namespace) -> "Loaded":
    """Read the settings from the file and the environment."""
    from headrace.pipeline.settings.file import read_settings

    return read_settings(args.config, os.environ)


def moment_argument(text: str) -> datetime:
    """An argument that is a time."""
    try:
        return moment_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def sequence_number(text: str) -> int:
    """An argument that is a sequence number, as Kinesis writes one."""
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{text[:140]!r} isn't a sequence number")
    return int(text)


def port_number(text: str) -> int:
    """An argument that is a port on which a person can reach something."""
    if (
        not (text.isascii() and text.isdigit())
        or len(text) > len(str(_LARGEST_PORT))
        or not 1 <= int(text) <= _LARGEST_PORT
    ):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} isn't a port; allowed: 1 to {_LARGEST_PORT}")
    return int(text)


def add_limit(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--limit", type=_limit, metavar="N", help=what)


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text[:140]!r} isn't a number from 1 on")
    return int(text)


def add_window(parser: argparse.ArgumentParser, *, records: str = "only ranges with records") -> None:
    parser.add_argument(
        "--from",
        dest="since",
        type=moment_argument,
        metavar="TIME",
        help=f"{records} that arrived at this time or later (such as 2026-01-31 or 2026-01-31T12:00; UTC)",
    )
    parser.add_argument(
        "--to",
        dest="until",
        type=moment_argument,
        metavar="TIME",
        help=f"{records} that arrived before this time",
    )


def window_of(args: argparse.Namespace, *, nothing: str = "nothing was read") -> "Window":
    """The times between `--from` and `--to`. Raises BadSetting where the second one isn't later. `nothing`: the
    part of the message that says what wasn't done.
    """
    from headrace.pipeline.core.ledger.arrivals import Window
    from headrace.pipeline.errors import BadSetting

    if args.since is not None and args.until is not None and args.since >= args.until:
        raise BadSetting(
            f"--to is {args.until.isoformat()}; allowed: a time after --from, {args.since.isoformat()}; {nothing}"
        )
    return Window(args.since, args.until)


def require_home(settings: "Settings") -> None:
    """Raise an error where the embedded catalog doesn't exist: opening it would create it, and a command that
    only reads must change nothing.
    """
    from headrace.pipeline.errors import Unknown

    landing = settings.landing
    if not landing.catalog and not Path(landing.home).exists():
        raise Unknown(
            f"there is no lake table: there is no folder {landing.home} (landing.home). Nothing was made; the leader's first "
            "tick makes the table (headrace dev). If the lake is elsewhere, correct landing.home"
        )
