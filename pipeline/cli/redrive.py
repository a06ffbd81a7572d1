"""`headrace redrive`: parse records in quarantine again, with the present settings and code."""

import argparse
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli.beside.told_dagster import tell_dagster
from headrace.pipeline.cli.options import add_config, add_limit, add_window, load, window_of
from headrace.pipeline.cli.telling import tell, tell_aside, tell_waves
from headrace.pipeline.cli.views.json_output import add_json, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.settings.blocks.parse import ParseSettings
    from headrace.pipeline.settings.file import Loaded
    from headrace.pipeline.typed.done_wave import Wave


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "redrive",
        description="Parse the records in quarantine tables again, with the present settings and code. "
        "Records that can be parsed now move to the typed table, each once; the others stay, "
        "with the new reason. New records may be parsed at the same time.",
    )
    add_config(parser)
    parser.add_argument("--target", help="only this target (its name in the settings; default: every target)")
    parser.add_argument(
        "--shard",
        metavar="NAME",
        help="only records of this shard, such as shardId-000000000000, or orders/0 of one of several streams",
    )
    parser.add_argument(
        "--reason",
        metavar="TEXT",
        help="only records with this reason in the quarantine table; "
        "a part of its text is enough where no other reason has it",
    )
    add_window(parser, records="only records")
    add_limit(
        parser,
        "at most N portions of each target (a portion is at most `wave.records` records); the next call goes on",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="parse, tell what would move, and commit nothing. "
        "Columns that are new in the schema are added to the typed table all the same",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.wiring import wire
    from headrace.pipeline.cli.beside.services import join_spark
    from headrace.pipeline.typed.quarantine.redrive_plan import Selection

    arrived = window_of(args, nothing="nothing was parsed")
    selection = Selection(args.shard, args.reason, arrived.since, arrived.until)
    # In JSON the answer comes at the end, and progress goes aside.
    say = tell_aside if args.json else tell
    loaded = load(args)
    from headrace.pipeline.settings.targets import targets_of

    targets = targets_of(loaded.settings, args.target)
    join_spark(Path(loaded.name))
    wiring = wire(loaded.settings)
    done: dict[str, list[Wave]] = {target.name: [] for target in targets}
    try:
        for target in targets:
            redriving = wiring.targets.redriving(target, f"headrace redrive {wiring.ports.ids.fresh()}")
            portions = redriving.portions(selection, dry_run=args.dry_run)
            try:
                tell_waves(target.name, islice(portions, args.limit), done[target.name], say=say)
            finally:
                # Also after an error or Ctrl-C: the portions that were committed stay.
                _tell_dagster(loaded, target, done[target.name])
            if not done[target.name]:
                say(f"{target.name}: {_nothing(args, target.quarantine)}")
    finally:
        wiring.ports.close()
        if args.json:
            facts = [_target_json(target, done[target.name]) for target in targets]
            print_json({"dry_run": args.dry_run, "targets": facts})
    return 0


def _tell_dagster(loaded: "Loaded", target: "ParseSettings", portions: "list[Wave]") -> None:
    settings = loaded.settings
    tell_dagster(
        Path(loaded.name), settings, lambda changes: changes.by_redriving(settings, target, portions)
    )


def _target_json(target: "ParseSettings", done: "Sequence[Wave]") -> "dict[str, Any]":
    from headrace.pipeline.core.ledger.accounting import all_dropped

    return {
        "target": target.name,
        "table": target.table,
        "quarantine": target.quarantine,
        "portions": len(done),
        "parsed_again": sum(portion.rows for portion in done),
        "mended": sum(portion.landed for portion in done),
        "still_set_aside": sum(portion.aside for portion in done),
        "dropped": all_dropped(portion.dropped for portion in done),
    }


def _nothing(args: argparse.Namespace, quarantine: str) -> str:
    if args.reason is not None:
        return (
            f"no record in {quarantine} has this reason and can be parsed again; "
            "the table's column `reason` has the reasons"
        )
    of = "" if args.shard is None else f" of {args.shard}"
    when = "" if args.since is None and args.until is None else " of this time"
    return f"no record{of}{when} in {quarantine} can be parsed again"
