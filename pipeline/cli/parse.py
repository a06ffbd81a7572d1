"""`headrace parse`: parse what typed tables lack of the lake table, without Dagster."""

import argparse
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli.beside.told_dagster import tell_dagster
from headrace.pipeline.cli.options import add_config, add_limit, load
from headrace.pipeline.cli.telling import tell, tell_aside, tell_waves
from headrace.pipeline.cli.views.json_output import add_json, print_json
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from headrace.pipeline.app.wiring import Wiring
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.settings.blocks.parse import ParseSettings
    from headrace.pipeline.settings.file import Loaded
    from headrace.pipeline.typed.done_wave import Wave


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "parse",
        description="Parse what the lake table has and the typed tables of the settings (`parse`) lack, "
        "wave after wave. Dagster's runs do the same; both may work at the same time.",
    )
    add_config(parser)
    parser.add_argument("target", nargs="?", help="only this target (its name in the settings)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--check",
        action="store_true",
        help="look whether the schema, the filter's file and the function of each target can be used, "
        "without Spark, and read and write nothing else",
    )
    how.add_argument(
        "--infer",
        action="store_true",
        help="print the columns that the oldest JSON payloads of the lake table would make, "
        "as `schema` in the settings has them, and write nothing",
    )
    parser.add_argument(
        "--accept-difference",
        action="store_true",
        help="parse the rows that are there, where the lake table has fewer rows than its ledgers state "
        "because they were removed on purpose, or more because another engine has inserted them",
    )
    add_limit(
        parser,
        "at most N waves of each target (a wave is at most `wave.records` records, the oldest first); "
        "the next call or run goes on",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.wiring import wire
    from headrace.pipeline.cli.beside.services import join_spark
    from headrace.pipeline.settings.targets import targets_of

    if args.infer and args.limit is not None:
        raise BadSetting("--infer parses no wave, so --limit can't go with it; nothing was read")
    if args.check and (args.json or args.limit is not None):
        raise BadSetting(
            "--check parses no wave and prints text, so --json and --limit can't go with it; nothing was read"
        )
    loaded = load(args)
    targets = targets_of(loaded.settings, args.target)
    if args.check:
        # Without Spark, which takes seconds to start and isn't needed.
        _check(targets)
        return 0
    join_spark(Path(loaded.name))
    wiring = wire(loaded.settings)
    answers: list[dict[str, Any]] = []
    try:
        for target in targets:
            answer = _infer(args, target, wiring) if args.infer else _parse(args, loaded, target, wiring)
            answers.append(answer)
    finally:
        wiring.ports.close()
        if args.json:
            # Also where an error of a later target has ended the command.
            print_json({"targets": answers})
    return 0


def _check(targets: "tuple[ParseSettings, ...]") -> None:
    from headrace.pipeline.typed.spark.frames import check_target

    wrong: list[str] = []
    for target in targets:
        try:
            if check_target(target):
                tell(f"{target.name}: the schema and the code can be used; nothing was read or written")
            else:
                tell(
                    f"{target.name}: the schema can be used. The module of {target.callable} needs a Spark session while it is "
                    "imported, so that only a wave tells whether the function can be used; nothing was read or written"
                )
        except BadSetting as error:
            # The other targets are checked all the same: one look tells all mistakes.
            wrong.append(str(error))
    if wrong:
        raise BadSetting("\n".join(wrong))


def _infer(args: argparse.Namespace, target: "ParseSettings", wiring: "Wiring") -> "dict[str, Any]":
    inferred = wiring.targets.inferring(target).infer()
    tell_aside(f"{target.name}: {counted(inferred.records, 'record')} looked at, and nothing was written")
    if not args.json:
        # Alone on standard output, so that it can go into a file.
        tell(inferred.ddl)
    return {"target": target.name, "records": inferred.records, "schema": inferred.ddl}


def _parse(
    args: argparse.Namespace, loaded: "Loaded", target: "ParseSettings", wiring: "Wiring"
) -> "dict[str, Any]":
    # In JSON the answer comes at the end, and progress goes aside.
    say = tell_aside if args.json else tell
    waves: list[Wave] = []
    run_id = f"headrace parse {wiring.ports.ids.fresh()}"
    parsing = wiring.targets.parsing(target, run_id, accepts_difference=args.accept_difference)
    try:
        tell_waves(target.name, islice(parsing.waves(), args.limit), waves, say=say)
    finally:
        # Also of what had landed when the command failed or was interrupted.
        settings = loaded.settings
        tell_dagster(Path(loaded.name), settings, lambda changes: changes.by_parsing(settings, target, waves))
    if any(wave.aside for wave in waves):
        tell_aside(
            f"{target.name}: what was set aside is in {target.quarantine}, whose column `reason` tells why; "
            f"correct the schema or the code, and `headrace redrive --target {target.name}` parses it again"
        )
    return _target_json(target, waves)


def _target_json(target: "ParseSettings", waves: "Sequence[Wave]") -> "dict[str, Any]":
    from headrace.pipeline.core.ledger.accounting import all_dropped

    return {
        "target": target.name,
        "table": target.table,
        "quarantine": target.quarantine,
        "waves": sum(wave.snapshot is not None for wave in waves),
        "parsed": sum(wave.landed for wave in waves),
        "set_aside": sum(wave.aside for wave in waves),
        "dropped": all_dropped(wave.dropped for wave in waves),
        "is_behind": not (waves and waves[-1].is_last),
        "notes": [note for wave in waves for note in wave.notes],
    }
