"""`headrace upkeep`: expire old snapshots of the lake table, and delete the files that nothing names any more."""

import argparse
from typing import TYPE_CHECKING

from pipeline.cli.options import add_config, load
from pipeline.cli.telling import tell

if TYPE_CHECKING:
    from pipeline.cli.options import Subparsers


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "upkeep",
        description="Expire old snapshots of the lake table, and delete the files that nothing has named for longer than "
        "upkeep.orphans_after. Dagster's job does the same by its schedule.",
    )
    add_config(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="change nothing, and print the files that would be deleted"
    )


def run(args: argparse.Namespace) -> int:
    from pipeline.wiring import wire

    report = wire(load(args).settings).upkeep().run(dry_run=args.dry_run)
    tell(*report.notes, *(each.path for each in report.due), str(report))
    return 0
