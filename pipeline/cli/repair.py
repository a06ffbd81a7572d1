"""`headrace repair`: the landing table's chain of positions is broken; rebuild them from what is left."""

import argparse
import sys
from datetime import datetime
from typing import TYPE_CHECKING

from pipeline.cli.deciding import add_deciding, is_wanted
from pipeline.cli.options import add_config, load
from pipeline.cli.telling import tell

if TYPE_CHECKING:
    from pipeline.cli.options import Subparsers
    from pipeline.core.position import Start


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "repair",
        description="Rebuild the positions of a landing table whose history others have cut: from its rows, and from every "
        "snapshot of ours that is still known. Reads the sequence numbers of all rows. Tells what would be read again, and asks.",
    )
    add_config(parser)
    parser.add_argument(
        "--origin",
        metavar="START",
        help="where the stream began, should nothing know it any more: TRIM_HORIZON, or the moment that LATEST or "
        "AT_TIMESTAMP stood for (2026-01-31T00:00:00Z)",
    )
    add_deciding(parser)


def run(args: argparse.Namespace) -> int:
    from pipeline.clock import SystemIds
    from pipeline.core.repair import Repair
    from pipeline.duties.repair import Mending
    from pipeline.errors import ChainBroken
    from resources.lake import LakeResource
    from resources.lease_tables import LeaseTablesResource
    from resources.stream import StreamResource

    settings = load(args).settings
    origin = None if args.origin is None else _start(args.origin)
    source = StreamResource.of(settings).source()
    run_id = f"shell-{SystemIds().fresh()}"
    mending = Mending(
        settings=settings,
        leases=LeaseTablesResource.of(settings).leases(),
        source=source,
        table=LakeResource.of(settings).landing_table(run_id, source),
        run=run_id,
    )
    plan = mending.plan(why=args.why, origin=origin)
    if not isinstance(plan, Repair):
        raise ChainBroken(plan.why)
    if not is_wanted(args, plan.sentences, snapshot=plan.on):
        return 0 if args.json else 2
    tell(mending.carry_out(plan), file=sys.stderr if args.json else sys.stdout)
    return 0


def _start(text: str) -> "Start":
    from pipeline.core.position import TRIM, Start
    from pipeline.errors import BadSetting

    if text == "TRIM_HORIZON":
        return TRIM
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise BadSetting(
            f"--origin is {text!r}; allowed: TRIM_HORIZON, or a moment with its time zone, as 2026-01-31T00:00:00Z; nothing "
            "was changed"
        )
    return Start(moment)
