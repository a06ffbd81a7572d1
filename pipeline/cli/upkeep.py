"""`headrace upkeep`: compact the lake table's data files, expire old snapshots, and delete the files that
nothing names any more."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli import DONE, tell_errors
from headrace.pipeline.cli.beside.told_dagster import tell_dagster
from headrace.pipeline.cli.options import add_config, load, require_home
from headrace.pipeline.cli.telling import tell
from headrace.pipeline.cli.views.json_output import add_json, print_json

if TYPE_CHECKING:
    from typing import Any

    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.upkeep.deletion_plan import StoredFile
    from headrace.pipeline.upkeep.upkeep import UpkeepReport


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "upkeep",
        description="Drop the days before upkeep.retention from the lake table, compact its data files, "
        "expire old snapshots, and delete the files that nothing has named for longer than "
        "upkeep.orphans_after. Dagster's job does the same by its schedule.",
    )
    add_config(parser)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="change nothing, and print what would be compacted, and the files that would be deleted",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.wiring import wire
    from headrace.pipeline.cli.beside.services import join_spark

    loaded = load(args)
    if args.dry_run:
        require_home(loaded.settings)
    join_spark(Path(loaded.name))
    wiring = wire(loaded.settings)
    try:
        report = wiring.upkeep.run(dry_run=args.dry_run)
    finally:
        wiring.ports.close()
    if not args.dry_run:
        tell_dagster(
            Path(loaded.name), loaded.settings, lambda changes: changes.by_upkeep(loaded.settings, report)
        )
    if args.json:
        print_json({"dry_run": args.dry_run, **_as_json(report)})
    else:
        tell(*report.notes, *(due_file.path for due_file in report.due), str(report))
    # The steps that could be done were done, so that the report comes first.
    return tell_errors(*report.troubles) if report.troubles else DONE


def _as_json(report: "UpkeepReport") -> "dict[str, Any]":
    return {
        "notes": list(report.notes),
        "deleted": [_file_json(stored) for stored in report.deleted],
        "due": [_file_json(stored) for stored in report.due],
        "waiting": [_file_json(stored) for stored in report.waiting],
        "why_none": report.files.why_none or None,
        "troubles": [str(trouble) for trouble in report.troubles],
    }


def _file_json(stored: "StoredFile") -> "dict[str, Any]":
    return {"path": stored.path, "bytes": stored.size}
