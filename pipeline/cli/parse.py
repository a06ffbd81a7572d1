"""`headrace parse`: bring typed tables up to the lake table, without Dagster."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.core.words import counted
from headrace.pipeline.errors import BadSetting, Unknown

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.settings.model import Settings
    from headrace.pipeline.settings.parse_block import ParseSettings


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "parse",
        description="Parse what the lake table has and the typed tables of the settings (`parse`) lack, wave after wave. Dagster's runs do the "
        "same; both may work at the same time.",
    )
    add_config(parser)
    parser.add_argument("target", nargs="?", help="only this target (its name in the settings)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--check",
        action="store_true",
        help="look whether the schema, the filter's file and the function of each target can be used, without Spark, and read and write nothing else",
    )
    how.add_argument(
        "--infer",
        action="store_true",
        help="print the columns that the oldest JSON payloads of the lake table would make, as `schema` in the settings has them, and write nothing",
    )
    parser.add_argument(
        "--accept-missing",
        action="store_true",
        help="go on where rows that landed aren't in the lake table any more, because they were removed on purpose",
    )


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.cli.services import join_spark
    from headrace.pipeline.wiring import wire

    loaded = load(args)
    targets = targets_of(loaded.settings, args.target)
    if args.check:
        _check(targets)
        return 0
    join_spark(Path(loaded.name))
    wiring = wire(loaded.settings)
    try:
        for target in targets:
            if args.infer:
                inferred = wiring.targets.inferring(target).infer()
                tell_aside(
                    f"{target.name}: {counted(inferred.records, 'record')} looked at, and nothing was written"
                )
                tell(inferred.ddl)
                continue
            aside = 0
            run_id = f"headrace parse {wiring.ports.ids.fresh()}"
            for wave in wiring.targets.parsing(target, run_id, accepts_missing=args.accept_missing).waves():
                tell(f"{target.name}: {wave}")
                tell_aside(*(f"{target.name}: {note}" for note in wave.notes))
                aside += wave.quarantined
            if aside:
                tell_aside(
                    f"{target.name}: what was set aside is in {target.quarantine}, whose column `reason` tells why; correct the schema or the code, and "
                    f"`headrace redrive --target {target.name}` parses it again"
                )
    finally:
        wiring.ports.close()
    return 0


def _check(targets: "tuple[ParseSettings, ...]") -> None:
    from headrace.pipeline.lake.parse_frame import check_target

    wrong: list[str] = []
    for target in targets:
        try:
            check_target(target)
            tell(f"{target.name}: the schema and the code can be used; nothing was read or written")
        except BadSetting as error:
            wrong.append(str(error))
    if wrong:
        raise BadSetting("\n".join(wrong))


def targets_of(
    settings: "Settings", name: str | None, *, nothing: str = "Nothing was parsed"
) -> "tuple[ParseSettings, ...]":
    """`nothing`: what the command hasn't done where there is no such target."""
    found = tuple(target for target in settings.parse if name in (None, target.name))
    if not found:
        known = ", ".join(target.name for target in settings.parse) or "none"
        raise Unknown(
            f"the settings have no target {name!r} under `parse`; they have {known}. {nothing}"
            if name
            else f"the settings name no target under `parse`. {nothing}"
        )
    return found
