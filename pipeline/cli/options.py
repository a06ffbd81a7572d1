"""What subcommands share."""

import argparse
import os
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
