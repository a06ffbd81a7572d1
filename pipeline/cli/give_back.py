"""`headrace give-back`: KCL's workers go on where the lake table stands."""

import argparse
import json
from typing import TYPE_CHECKING

from pipeline.cli.adopt import adopting_of, agree, there
from pipeline.cli.options import add_config, load
from pipeline.cli.telling import tell
from pipeline.core.words import counted
from pipeline.errors import BadSetting, Unreachable

if TYPE_CHECKING:
    from pipeline.cli.options import Subparsers
    from pipeline.duties.adopt import Adopting
    from pipeline.settings import Settings


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "give-back",
        description="Let KCL's workers read on from here: each lease row says what the lake table says, and belongs to nobody. "
        "Stop Headrace's workers first (`headrace stop`).",
    )
    add_config(parser)
    parser.add_argument(
        "--json", action="store_true", help="print what would be written, as JSON, and stop there"
    )
    parser.add_argument("--yes", action="store_true", help="don't ask")


def run(args: argparse.Namespace) -> int:
    settings = load(args).settings
    return give_back(adopting_of(settings), settings, args)


def give_back(adopting: "Adopting", settings: "Settings", args: argparse.Namespace) -> int:
    _require_positions(adopting, settings)
    plans = {name: adopting.give_back(name) for name in there(adopting, settings)}
    if args.json:
        told = {
            name: [{"lease": c.key, "why": c.why} for c in changes] for name, (changes, _) in plans.items()
        }
        print(json.dumps(told, indent=2))
        return 0
    for name, (changes, start) in plans.items():
        tell(
            f"{name}: {counted(len(changes), 'lease row is', 'lease rows are')} brought to the lake table's positions and let go"
        )
        if start is not None:
            tell(
                f"  shards without a record yet stand at AT_TIMESTAMP: configure KCL's initial position with {start.isoformat()}"
            )
    agree("give it back", yes=args.yes)
    missed = [key for changes, _ in plans.values() for key in adopting.apply(changes)]
    if missed:
        raise Unreachable(
            f"{counted(len(missed), 'lease row')} written by somebody else meanwhile ({missed[0]}, ...), left as they are: run it again"
        )
    tell("given back: KCL's workers may start")
    return 0


def _require_positions(adopting: "Adopting", settings: "Settings") -> None:
    """A table in which nothing was ever landed says nothing, and each row would be given back as it happens to be."""
    if not adopting.table.load().positions.origins:
        raise BadSetting(
            f"the lake table {settings.landing.table} holds no positions: is landing.table the one that these leases were landed "
            "in? Nothing was changed"
        )
