"""`headrace redrive`: parse records in quarantine again, with the present settings and code."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.parse import targets_of
from headrace.pipeline.cli.telling import tell
from headrace.pipeline.cli.told_dagster import tell_dagster

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.duties.redriving import Redriven
    from headrace.pipeline.settings.file import Loaded
    from headrace.pipeline.settings.parse_block import ParseSettings


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "redrive",
        description="Parse the records in quarantine tables again, with the present settings and code. Records that can be parsed now move to "
        "the typed table, each once; the others stay, with the new reason. New records may be parsed at the same time.",
    )
    add_config(parser)
    parser.add_argument("--target", help="only this target (its name in the settings; default: every target)")
    parser.add_argument("--shard", help="only records of the shard with this id")
    parser.add_argument("--reason", help="only records with exactly this reason in the quarantine table")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="parse, tell what would move, and commit nothing. Columns that are new in the schema are added to the typed table all the same",
    )


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.cli.services import join_spark
    from headrace.pipeline.core.redrive_plan import Selection
    from headrace.pipeline.wiring import wire

    loaded = load(args)
    targets = targets_of(loaded.settings, args.target)
    join_spark(Path(loaded.name))
    wiring = wire(loaded.settings)
    try:
        for target in targets:
            redriving = wiring.targets.redriving(target, f"headrace redrive {wiring.ports.ids.fresh()}")
            portions: list[Redriven] = []
            try:
                for portion in redriving.portions(Selection(args.shard, args.reason), dry_run=args.dry_run):
                    tell(f"{target.name}: {portion}")
                    portions.append(portion)
            finally:
                _tell_dagster(loaded, target, portions)
            if not portions:
                tell(f"{target.name}: {_nothing(args, target.quarantine)}")
    finally:
        wiring.ports.close()
    return 0


def _tell_dagster(loaded: "Loaded", target: "ParseSettings", portions: "list[Redriven]") -> None:
    settings = loaded.settings
    tell_dagster(
        Path(loaded.name), settings, lambda changes: changes.by_redriving(settings, target, portions)
    )


def _nothing(args: argparse.Namespace, quarantine: str) -> str:
    if args.reason is not None:
        return f"no record in {quarantine} has this reason and can be parsed again; the table's column `reason` has the reasons"
    return f"no record in {quarantine} can be parsed again"
