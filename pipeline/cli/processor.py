"""`headrace processor`: let record processors work on the records that the lake table has, and show how far they
have come.
"""

import argparse
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli import DONE, STOPPED, TRY_LATER
from headrace.pipeline.cli.beside.told_dagster import tell_dagster
from headrace.pipeline.cli.options import add_config, add_limit, load, require_home
from headrace.pipeline.cli.telling import tell, tell_aside, tell_waves
from headrace.pipeline.cli.views.json_output import add_json, print_json
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.choices import ProcessorMode

if TYPE_CHECKING:
    from typing import Any

    from headrace.pipeline.app.wiring import Wiring
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.settings.blocks.processors import ProcessorSettings
    from headrace.pipeline.settings.file import Loaded
    from headrace.pipeline.typed.done_wave import Wave


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "processor",
        description="Record processors of your own (`processors` in the settings): let them work on what the lake "
        "table has and their tables lack, or see where they stand.",
    )
    actions = parser.add_subparsers(metavar="run|status", dest="action", required=True)
    running = actions.add_parser(
        "run",
        help="work wave after wave until nothing is left",
        description="Let processors work on what the lake table has and their tables lack, wave after wave. Dagster's "
        "runs do the same; both may work at the same time.",
    )
    add_config(running)
    running.add_argument("processor", nargs="?", help="only this processor (its name in the settings)")
    running.add_argument(
        "--as-amazon-kclpy",
        action="store_true",
        help="let `import amazon_kclpy` find Headrace's own package in the processors, where amazon_kclpy isn't installed",
    )
    running.add_argument(
        "--accept-difference",
        action="store_true",
        help="work on the rows that are there, where the lake table has other rows than its ledgers state",
    )
    add_limit(running, "at most N waves of each processor; the next call or run goes on")
    add_json(running)
    status = actions.add_parser(
        "status",
        help="show where processors stand",
        description="Show for each shard how far a processor is, and how far the lake table. Nothing is changed.",
    )
    add_config(status)
    status.add_argument("processor", nargs="?", help="only this processor (its name in the settings)")
    add_json(status)


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.wiring import wire
    from headrace.pipeline.settings.targets import processors_of

    loaded = load(args)
    processors = processors_of(loaded.settings, args.processor)
    wiring = wire(loaded.settings)
    answers: list[dict[str, Any]] = []
    try:
        for processor in processors:
            of_mode = _of_application if processor.mode is ProcessorMode.APPLICATION else _of_landed
            answers.append(of_mode(args, loaded, processor, wiring))
    finally:
        wiring.ports.close()
        if args.json:
            # Also where an error of a later processor has ended the command.
            print_json({"processors": answers})
    unread = [answer["can_try_again"] for answer in answers if "error" in answer]
    if unread:
        return TRY_LATER if all(unread) else STOPPED
    return 1 if any(answer.get("stopped") for answer in answers) else DONE


def _of_landed(
    args: argparse.Namespace, loaded: "Loaded", processor: "ProcessorSettings", wiring: "Wiring"
) -> "dict[str, Any]":
    is_status = args.action == "status"
    return _status(args, processor, wiring) if is_status else _run(args, loaded, processor, wiring)


def _of_application(
    args: argparse.Namespace, loaded: "Loaded", processor: "ProcessorSettings", _wiring: "Wiring"
) -> "dict[str, Any]":
    from headrace.pipeline.cli.beside.services import join_spark
    from headrace.pipeline.cli.processor_application import application_status, run_application

    if args.action == "status":
        lines, answer = application_status(loaded.settings, processor)
        if not args.json:
            tell(*lines)
        return answer
    join_spark(Path(loaded.name))
    if args.as_amazon_kclpy and not processor.command:
        processor = replace(processor, as_amazon_kclpy=True)
    return run_application(args, loaded.settings, processor)


def _run(
    args: argparse.Namespace, loaded: "Loaded", processor: "ProcessorSettings", wiring: "Wiring"
) -> "dict[str, Any]":
    from headrace.pipeline.cli.beside.services import join_spark

    join_spark(Path(loaded.name))
    if args.as_amazon_kclpy and processor.command:
        raise BadSetting(
            f"the processor {processor.name} is a command, which starts its own Python, so --as-amazon-kclpy can't go with it; "
            "say command: python -m headrace.kclpy my_script.py. Nothing was processed"
        )
    if args.as_amazon_kclpy:
        processor = replace(processor, as_amazon_kclpy=True)
    # In JSON the answer comes at the end, and progress goes aside.
    say = tell_aside if args.json else tell
    waves: list[Wave] = []
    run_id = f"headrace processor {wiring.ports.ids.fresh()}"
    processing = wiring.processors.processing(processor, run_id, accepts_difference=args.accept_difference)
    try:
        tell_waves(processor.name, islice(processing.waves(), args.limit), waves, say=say)
    finally:
        # Also of what had landed when the command failed or was interrupted.
        settings = loaded.settings
        tell_dagster(
            Path(loaded.name), settings, lambda changes: changes.by_processing(settings, processor, waves)
        )
    return {
        "processor": processor.name,
        "mode": processor.mode.value,
        "table": processor.table,
        "waves": sum(wave.snapshot is not None for wave in waves),
        "records": sum(wave.rows for wave in waves),
        "rows": sum(wave.made for wave in waves),
        "set_aside": sum(wave.aside for wave in waves),
        "is_behind": not (waves and waves[-1].is_last),
        "notes": [note for wave in waves for note in wave.notes],
    }


def _status(args: argparse.Namespace, processor: "ProcessorSettings", wiring: "Wiring") -> "dict[str, Any]":
    from headrace.pipeline.cli.views.processor_views import standing_json
    from headrace.pipeline.processors.standing import standing_of

    require_home(wiring.settings)
    standing = standing_of(processor, wiring.ports.processing(processor, "status"))
    if not args.json:
        tell(standing, *(f"  {shard}" for shard in standing.shards))
    return standing_json(standing)
