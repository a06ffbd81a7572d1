"""`headrace reposition`: a person decides which one is right where the position in a lease row and the one in the
lake table disagree.
"""

import argparse
from typing import TYPE_CHECKING

from headrace.pipeline.cli.decision.deciding import add_deciding, decide, recovery_of
from headrace.pipeline.cli.options import add_config, load

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.core.leases.lease import Lease
    from headrace.pipeline.core.order.start_of_reading import Stop
    from headrace.pipeline.repair.decision_plan import Decision


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "reposition",
        description="Decide where to go on with a shard whose lease row is ahead of the lake table (after a "
        "rollback, a restored table, or another reader). "
        "Headrace doesn't read such a shard until a person decides. --to table: "
        "the lease row goes back, and the records between the two positions are read and landed. "
        "--to lease: the table's position goes forward, and the records between the two positions are "
        "never landed in this table.",
    )
    add_config(parser)
    parser.add_argument(
        "--shard",
        required=True,
        nargs="+",
        action="extend",
        metavar="NAME",
        help="the shards: `shardId-000000000000`, `orders/0`, their whole names in Dagster, or lease keys",
    )
    parser.add_argument(
        "--to",
        required=True,
        choices=("table", "lease"),
        help="the one that is right: the lake table or the lease row",
    )
    add_deciding(parser)


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.wiring import wire
    from headrace.pipeline.core.shards.checkpoint import Checkpoint
    from headrace.pipeline.duties.streams.streams import how_to_read
    from headrace.pipeline.repair.decision_plan import Person, plan_reposition

    settings = load(args).settings
    recovery = recovery_of(wire(settings))
    person = Person(recovery.claim.partition("/")[0], recovery.claim, args.why)

    # Called twice for each shard: for the plan that is shown, and again under the claim, because a
    # run may have moved the table or the row between both.
    def plan(row: "Lease") -> "Decision | Stop":
        scene = recovery.situation(row)
        sentinel = Checkpoint(how_to_read(settings, scene.key.stream).initial_position.value)
        return plan_reposition(scene, to_lease=args.to == "lease", sentinel=sentinel, person=person)

    return decide(args, recovery, dict.fromkeys(args.shard), plan)
