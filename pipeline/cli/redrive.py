"""`headrace redrive`: parse records in the quarantine table again, with the present settings and code, or give
them to a record processor once more.
"""

import argparse
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli.beside.told_dagster import tell_dagster
from headrace.pipeline.cli.options import add_config, add_limit, add_window, load, window_of
from headrace.pipeline.cli.telling import tell, tell_aside, tell_waves
from headrace.pipeline.cli.views.json_output import add_json, print_json
from headrace.pipeline.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from headrace.pipeline.app.wiring import Wiring
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.settings.blocks.parse import ParseSettings
    from headrace.pipeline.settings.blocks.processors import ProcessorSettings
    from headrace.pipeline.settings.file import Loaded
    from headrace.pipeline.typed.done_wave import Wave
    from headrace.pipeline.typed.quarantine.redrive import Redrives


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "redrive",
        description="Parse the records in quarantine tables again, with the present settings and code. "
        "Records that can be parsed now move to the typed table, each once; the others stay, "
        "with the new reason. New records may be parsed at the same time.",
    )
    add_config(parser)
    of = parser.add_mutually_exclusive_group()
    of.add_argument("--target", help="only this target (its name in the settings; default: every target)")
    of.add_argument(
        "--processor",
        metavar="NAME",
        help="this record processor in the place of targets: it gets the records of its quarantine table once more, with its "
        "state as it is now. No position moves",
    )
    parser.add_argument(
        "--window",
        metavar="ID",
        help="with --processor: records that it has set aside for this window, with its state of that window",
    )
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


@dataclass(frozen=True)
class _Redriven:
    """A target or a processor of which records in quarantine are tried again."""

    settings: "ParseSettings | ProcessorSettings"
    redriving: "Redrives"
    again: str
    """How many records were tried again is told by this name in JSON."""
    changes: "Callable[[Any, list[Wave]], Iterator[Any]]"
    """The events of what was done, of Dagster's module of changes."""


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.wiring import wire
    from headrace.pipeline.cli.beside.services import join_spark
    from headrace.pipeline.typed.quarantine.redrive_plan import Selection

    arrived = window_of(args, nothing="nothing was parsed")
    selection = Selection(args.shard, args.reason, arrived.since, arrived.until)
    # In JSON the answer comes at the end, and progress goes aside.
    say = tell_aside if args.json else tell
    if args.window is not None and not args.processor:
        raise BadSetting(
            "--window is about the table into which a processor has worked on a window, and --processor is missing. Nothing "
            "was parsed; a window that was made with --replace sets records aside in the target's quarantine table"
        )
    loaded = load(args)
    wiring = wire(loaded.settings)
    parts = (
        _of_processor(wiring, args.processor, args.window)
        if args.processor
        else _of_targets(wiring, args.target)
    )
    join_spark(Path(loaded.name))
    done: dict[str, list[Wave]] = {part.settings.name: [] for part in parts}
    try:
        for part in parts:
            name, portions = part.settings.name, part.redriving.portions(selection, dry_run=args.dry_run)
            try:
                tell_waves(name, islice(portions, args.limit), done[name], say=say)
            finally:
                # Also after an error or Ctrl-C: the portions that were committed stay.
                _tell_dagster(loaded, part, done[name])
            if not done[name]:
                say(f"{name}: {_nothing(args, part.settings.quarantine)}")
    finally:
        wiring.ports.close()
        if args.json:
            facts = [_part_json(part, done[part.settings.name]) for part in parts]
            print_json({"dry_run": args.dry_run, "targets": facts})
    return 0


def _of_targets(wiring: "Wiring", name: str | None) -> tuple[_Redriven, ...]:
    from headrace.pipeline.settings.targets import targets_of

    settings, run_id = wiring.settings, f"headrace redrive {wiring.ports.ids.fresh()}"

    def part(target: "ParseSettings") -> _Redriven:
        return _Redriven(
            target,
            wiring.targets.redriving(target, run_id),
            "parsed_again",
            lambda changes, portions: changes.by_redriving(settings, target, portions),
        )

    return tuple(map(part, targets_of(settings, name)))


def _of_processor(wiring: "Wiring", name: str, window: str | None) -> tuple[_Redriven, ...]:
    from headrace.pipeline.settings.targets import landed_processor

    settings, processor = wiring.settings, landed_processor(wiring.settings, name)
    run_id = f"headrace redrive {wiring.ports.ids.fresh()}"
    if window is not None:
        # The table of a window has no asset.
        of_window = wiring.windows.processor_of_id(window, name)
        return (
            _Redriven(
                of_window,
                wiring.processors.redriving(of_window, run_id, of_window=window),
                "given_again",
                lambda _changes, _portions: iter(()),
            ),
        )
    return (
        _Redriven(
            processor,
            wiring.processors.redriving(processor, run_id),
            "given_again",
            lambda changes, portions: changes.by_giving_again(settings, processor, portions),
        ),
    )


def _tell_dagster(loaded: "Loaded", part: _Redriven, portions: "list[Wave]") -> None:
    tell_dagster(Path(loaded.name), loaded.settings, lambda changes: part.changes(changes, portions))


def _part_json(part: _Redriven, done: "Sequence[Wave]") -> "dict[str, Any]":
    from headrace.pipeline.core.ledger.accounting import all_dropped

    return {
        "target": part.settings.name,
        "table": part.settings.table,
        "quarantine": part.settings.quarantine,
        "portions": len(done),
        part.again: sum(portion.rows for portion in done),
        "mended": sum(portion.landed for portion in done),
        "still_set_aside": sum(portion.aside for portion in done),
        "dropped": all_dropped(portion.dropped for portion in done),
    }


def _nothing(args: argparse.Namespace, quarantine: str) -> str:
    again = "given again" if args.processor else "parsed again"
    if args.reason is not None:
        return (
            f"no record in {quarantine} has this reason and can be {again}; "
            "the table's column `reason` has the reasons"
        )
    of = "" if args.shard is None else f" of {args.shard}"
    when = "" if args.since is None and args.until is None else " of this time"
    return f"no record{of}{when} in {quarantine} can be {again}"
