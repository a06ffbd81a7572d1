"""`headrace lineage`: the ledger of the lake table, which records of which shard went into which snapshot."""

import argparse
import sys
from typing import TYPE_CHECKING

from pipeline.cli.options import add_config, load
from pipeline.cli.telling import tell
from pipeline.core.words import counted

if TYPE_CHECKING:
    from pipeline.cli.options import Subparsers

_SHORT = ["at", "snapshot", "shard", "kind", "rows", "upto", "parents", "children"]


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "lineage",
        description="Which records of which shard went into which snapshot, from the table's ledger.",
    )
    add_config(parser)
    parser.add_argument("--shard", metavar="ID", help="only this shard")
    parser.add_argument("--csv", action="store_true", help="all columns, as CSV")


def run(args: argparse.Namespace) -> int:
    import pandas as pd

    from pipeline.lake.lineage_frame import lineage_frame
    from resources.lake import LakeResource

    settings = load(args).settings
    frame = lineage_frame(LakeResource.of(settings).landing_table("lineage"))
    if args.shard is not None:
        frame = frame[frame["shard"] == args.shard]
    if args.csv:
        frame.to_csv(sys.stdout, index=False)
        return 0
    if frame.empty:
        tell("no range has landed" + (f" of {args.shard}" if args.shard else ""))
        return 0
    with pd.option_context("display.width", None, "display.max_rows", None, "display.max_colwidth", 64):
        tell(*frame[_SHORT].to_string(index=False).split("\n"))
    total = int(frame["rows"].sum())
    shards = counted(frame["shard"].nunique(), "shard")
    tell(f"{counted(total, 'record')} in {counted(len(frame), 'range')} of {shards}")
    return 0
