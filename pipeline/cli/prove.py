"""`headrace prove`: the proof that the lake table holds each record of its ledgers once, or the names of what is wrong."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli.options import add_config, load, moment
from pipeline.cli.telling import tell

if TYPE_CHECKING:
    from pipeline.cli.options import Subparsers


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "prove",
        description="Prove that the lake table holds what its ledgers state: each range's records once, in one chain for each shard, "
        "children after parents, each hash key read by one shard. Typed tables, their quarantine tables and the tables of windows are proved with it. Rows that an earlier proof has read aren't read again while their files "
        "are the same. The exit code is 0 if nothing is wrong, and 1 if something is. What can't be proved is named in both cases.",
    )
    add_config(parser)
    parser.add_argument(
        "--all", action="store_true", help="read all rows, also those that an earlier proof has read"
    )
    parser.add_argument(
        "--from",
        dest="since",
        type=moment,
        metavar="TIME",
        help="only ranges with records that arrived at this time or later (such as 2026-01-31 or 2026-01-31T12:00; UTC)",
    )
    parser.add_argument(
        "--to",
        dest="until",
        type=moment,
        metavar="TIME",
        help="only ranges with records that arrived before this time",
    )


def run(args: argparse.Namespace) -> int:
    from pipeline.cli.services import join_spark
    from pipeline.core.proof import Window
    from pipeline.errors import BadSetting
    from pipeline.wiring import wire

    if args.since is not None and args.until is not None and args.since >= args.until:
        raise BadSetting(
            f"--to is {args.until.isoformat()}; allowed: a time after --from, {args.since.isoformat()}; nothing was read"
        )
    loaded = load(args)
    join_spark(Path(loaded.name))
    wiring = wire(loaded.settings)
    try:
        proof = wiring.proving().run(Window(args.since, args.until), anew=args.all)
    finally:
        wiring.ports.close()
    tell(*proof.lines())
    return 0 if proof.holds else 1
