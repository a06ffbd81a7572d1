"""What subcommands share."""

import argparse
import os
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.settings_file import Loaded

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 -- argparse has no public name for it


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the settings; without it the file that HEADRACE_CONFIG names, else ./headrace.yaml",
    )


def load(args: argparse.Namespace) -> "Loaded":
    """The settings that `--config` and the environment give."""
    from pipeline.settings_file import read_settings

    return read_settings(args.config, os.environ)


def duration(text: str) -> timedelta:
    """An argument such as 30s or 2m, as in the settings."""
    from pipeline.settings_values import read_value

    try:
        period: timedelta = read_value(timedelta, text)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a duration such as 30s or 2m") from error
    return period
