"""`headrace skip`: let go of records that are lost, or that nobody wants, and record it."""

import argparse
from typing import TYPE_CHECKING

from pipeline.cli.deciding import add_deciding, decide, recovery_of
from pipeline.cli.options import add_config, load

if TYPE_CHECKING:
    from pipeline.cli.options import Subparsers
    from pipeline.core.begin import Stop
    from pipeline.core.lease import Lease
    from pipeline.core.recover import Decision, Scene, Target
    from pipeline.core.stream import ShardKey
    from pipeline.duties.recover import Recovery
    from pipeline.ports import Pages


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "skip",
        description="Pass over records of a shard and record the gap in the table. Without --to, --to-tip and --end: what is "
        "lost is let go, and the next wave goes on with what the stream still holds.",
    )
    add_config(parser)
    parser.add_argument("--shard", required=True, metavar="KEY", help="lease key, as `shardId-000000000000`")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--to", metavar="SEQUENCE", help="go on after this record")
    where.add_argument("--to-tip", action="store_true", help="go on with what comes from now on")
    where.add_argument("--end", action="store_true", help="the shard is over: its children begin")
    add_deciding(parser)


def run(args: argparse.Namespace) -> int:
    from pipeline.core.recover import Person, plan_skip
    from resources.stream import StreamResource

    settings = load(args).settings
    recovery = recovery_of(settings)
    pages = StreamResource.of(settings).pages()
    person = Person(recovery.claim.partition("/")[0], recovery.claim, args.why)

    def plan(row: "Lease") -> "Decision | Stop":
        scene = recovery.scene(row)
        return plan_skip(scene, _target(args, scene, recovery, pages), person)

    return decide(args, recovery, [args.shard], plan)


def _target(args: argparse.Namespace, scene: "Scene", recovery: "Recovery", pages: "Pages") -> "Target":
    from pipeline.core.recover import AfterRecord, WhatIsLeft
    from pipeline.errors import BadSetting

    if args.end:
        return recovery.end_of(scene.key)
    if args.to_tip:
        return recovery.tip_of(scene.key, pages)
    if args.to is None:
        return WhatIsLeft()
    if not (args.to.isascii() and args.to.isdigit()) or len(args.to) > 129:
        raise BadSetting(f"--to is {args.to[:140]!r}; allowed: a sequence number; nothing was changed")
    _require_readable(scene.key, args.to, recovery, pages)
    return AfterRecord(int(args.to))


def _require_readable(key: "ShardKey", sequence: str, recovery: "Recovery", pages: "Pages") -> None:
    from pipeline.errors import BadSetting, DataLoss, Terminal

    try:
        recovery.require_readable(key, int(sequence), pages)
    except (BadSetting, DataLoss):
        raise
    except Terminal as error:
        raise BadSetting(
            f"--to is {sequence}, and reading {key} can't go on after it; nothing was changed. Name the whole sequence number of "
            f"one of its records (`headrace lineage` shows those that it stood at), or say --to-tip. {error}"
        ) from error
