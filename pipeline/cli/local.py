"""`headrace local`: the AWS stand-in, `headrace.pipeline.local`."""

import argparse
from types import ModuleType
from typing import TYPE_CHECKING

from headrace.pipeline.errors import MissingPackage

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers


def add(subparsers: "Subparsers") -> None:
    _stand_in().add_local_arguments(
        subparsers.add_parser(
            "local",
            description="Run a stand-in for Kinesis, DynamoDB and S3 on this machine, for development and tests.",
        )
    )


def run(args: argparse.Namespace) -> int:
    return int(_stand_in().run(args))


def _stand_in() -> ModuleType:
    try:
        from headrace.pipeline.local import __main__ as stand_in
    except ModuleNotFoundError as missing:
        raise MissingPackage(
            f"the AWS stand-in needs the package {missing.name}, which Headrace's extra `local` brings. Nothing was started; "
            "install it from where this Headrace came from, such as pip install './headrace[local]' beside the clone's folder"
        ) from missing
    return stand_in
