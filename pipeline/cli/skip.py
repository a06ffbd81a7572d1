"""`headrace skip`: give up records that are lost or unwanted, and record the gap in the lake table."""

import argparse
from typing import TYPE_CHECKING

from headrace.pipeline.cli.decision.deciding import add_deciding, decide, recovery_of
from headrace.pipeline.cli.options import add_config, load

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.core.leases.lease import Lease
    from headrace.pipeline.core.order.start_of_reading import Stop
    from headrace.pipeline.core.shards.stream import ShardKey
    from headrace.pipeline.ports.pages import Pages
    from headrace.pipeline.repair.decide import Recovery
    from headrace.pipeline.repair.decision_plan import Decision, ShardSituation, Target


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "skip",
        description="Give up records of a shard, and record the gap in the lake table. Without --to, "
        "--to-tip and --end, only the records that have left the stream are given up: "
        "the next wave goes on with the oldest record that the stream still holds.",
    )
    add_config(parser)
    parser.add_argument(
        "--shard",
        required=True,
        metavar="NAME",
        help="the shard: `shardId-000000000000`, `orders/0`, its whole name in Dagster, or its lease key",
    )
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--to", metavar="SEQUENCE", help="go on after the record with this sequence number")
    target.add_argument("--to-tip", action="store_true", help="go on with records that are put from now on")
    target.add_argument(
        "--end", action="store_true", help="take the shard as read to its end, so that its children begin"
    )
    add_deciding(parser)


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.wiring import wire
    from headrace.pipeline.repair.decision_plan import Person, plan_skip

    wiring = wire(load(args).settings)
    recovery = recovery_of(wiring)
    pages = wiring.ports.pages()
    person = Person(recovery.claim.partition("/")[0], recovery.claim, args.why)

    def plan(row: "Lease") -> "Decision | Stop":
        # Looked at anew for each plan: the second one is made under the claim.
        scene = recovery.situation(row)
        return plan_skip(scene, _target(args, scene, recovery, pages), person)

    return decide(args, recovery, [args.shard], plan)


def _target(
    args: argparse.Namespace, scene: "ShardSituation", recovery: "Recovery", pages: "Pages"
) -> "Target":
    from headrace.pipeline.errors import BadSetting
    from headrace.pipeline.repair.decision_plan import AfterRecord, WhatIsLeft

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
    from headrace.pipeline.errors import BadSetting, DataLoss, Terminal

    try:
        recovery.require_readable(key, int(sequence), pages)
    # Both say by themselves what is wrong; other refusals of Kinesis don't speak of --to.
    except (BadSetting, DataLoss):
        raise
    except Terminal as error:
        raise BadSetting(
            f"--to is {sequence}, and reading {key} can't go on after it; nothing was changed. "
            "Name the whole sequence number of one of its records (`headrace lineage` shows some), "
            f"or use --to-tip. {error}"
        ) from error
