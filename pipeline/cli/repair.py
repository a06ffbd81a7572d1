"""`headrace repair`: rebuild the lake table's positions from its rows and the snapshots that are left."""

import argparse
import sys
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.pipeline.cli.decision.deciding import add_deciding, is_wanted
from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.telling import tell
from headrace.pipeline.cli.views.json_output import id_json

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.core.shards.position import Start


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "repair",
        description="Rebuild the positions of a lake table after another tool has cut its history (expired "
        "snapshots, say). The positions come from the table's rows and from every Headrace snapshot "
        "that can still be found, so the command reads the sequence numbers of all rows. "
        "It shows which records would be read again, and asks before it writes.",
    )
    add_config(parser)
    parser.add_argument(
        "--origin",
        metavar="START",
        help="the start of the stream's first read, in case no snapshot says it any more: TRIM_HORIZON, "
        "or the moment that LATEST or AT_TIMESTAMP stood for (2026-01-31T00:00:00Z)",
    )
    add_deciding(parser)


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.wiring import wire
    from headrace.pipeline.core.landing.repair_plan import Repair
    from headrace.pipeline.errors import ChainBroken

    origin = None if args.origin is None else _start(args.origin)
    wiring = wire(load(args).settings)
    repairing = wiring.decisions.repairing(f"shell-{wiring.ports.ids.fresh()}")
    plan = repairing.plan(why=args.why, origin=origin)
    if not isinstance(plan, Repair):
        raise ChainBroken(plan.why)
    if not is_wanted(args, plan.sentences, snapshot=id_json(plan.on)):
        # With --json the plan was what was asked for; without, a person said no.
        return 0 if args.json else 2
    tell(repairing.carry_out(plan), file=sys.stderr if args.json else sys.stdout)
    return 0


def _start(text: str) -> "Start":
    from headrace.pipeline.core.shards.position import TRIM, Start
    from headrace.pipeline.errors import BadSetting

    if text == "TRIM_HORIZON":
        return TRIM
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    # An origin is kept for good, so that no zone is guessed here.
    if moment is None or moment.tzinfo is None:
        raise BadSetting(
            f"--origin is {text!r}; allowed: TRIM_HORIZON, or a moment with its time zone, "
            "such as 2026-01-31T00:00:00Z; nothing was changed"
        )
    return Start(moment)
