"""`headrace reposition`: where lease row and lake table disagree, a person says which of the two is right."""

import argparse
from typing import TYPE_CHECKING

from pipeline.cli.deciding import add_deciding, decide, recovery_of
from pipeline.cli.options import add_config, load

if TYPE_CHECKING:
    from pipeline.cli.options import Subparsers
    from pipeline.core.begin import Stop
    from pipeline.core.lease import Lease
    from pipeline.core.recover import Decision


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "reposition",
        description="A shard whose row is ahead of the table (a rollback, a restored table, another reader) stands still until "
        "a person decides. table: the row goes back, and what lies between is read and landed. lease: the table goes forward, "
        "and what lies between is not landed here.",
    )
    add_config(parser)
    parser.add_argument(
        "--shard", required=True, nargs="+", action="extend", metavar="KEY", help="lease keys"
    )
    parser.add_argument("--to", required=True, choices=("table", "lease"), help="which of the two is right")
    add_deciding(parser)


def run(args: argparse.Namespace) -> int:
    from pipeline.core.checkpoint import Checkpoint
    from pipeline.core.recover import Person, plan_reposition
    from pipeline.duties.streams import how_to_read

    settings = load(args).settings
    recovery = recovery_of(settings)
    person = Person(recovery.claim.partition("/")[0], recovery.claim, args.why)

    def plan(row: "Lease") -> "Decision | Stop":
        scene = recovery.scene(row)
        sentinel = Checkpoint(how_to_read(settings, scene.key.stream).initial_position.value)
        return plan_reposition(scene, to_lease=args.to == "lease", sentinel=sentinel, person=person)

    return decide(args, recovery, dict.fromkeys(args.shard), plan)
