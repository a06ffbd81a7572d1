"""`headrace lineage`: the lake table's ledger, which says which records of which shard went into which snapshot.

It is read from the lineage table, and from the lake table's snapshots that aren't recorded there yet.
"""

import argparse
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import (
    add_config,
    add_limit,
    add_window,
    load,
    require_home,
    sequence_number,
    window_of,
)
from headrace.pipeline.cli.telling import tell
from headrace.pipeline.cli.views.json_output import add_json
from headrace.pipeline.core.words.words import counted

if TYPE_CHECKING:
    from headrace.pipeline.app.adapters import Adapters
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.lineage.cut import Cut


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "lineage",
        description="Show which records of which shard went into which snapshot, from the lineage table and the "
        "lake table's newest snapshots.",
    )
    add_config(parser)
    parser.add_argument(
        "--shard",
        metavar="NAME",
        help="only this shard, such as shardId-000000000000; of one of several streams orders/0, "
        "or its whole name in Dagster",
    )
    add_window(parser)
    add_limit(parser, "print only the newest N ranges")
    parser.add_argument(
        "--window",
        metavar="ID",
        help="show the ledgers of this window (`headrace window`) instead of the lake table's: "
        "of its own table, or of the typed table in which it replaced rows",
    )
    parser.add_argument(
        "--target",
        metavar="NAME",
        help="show the ledgers of this target of `parse`: what became of the rows of each range, "
        "and which code and schema decided it",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print all columns, as CSV")
    add_json(form)
    _add_views(parser)


def _add_views(parser: argparse.ArgumentParser) -> None:
    views = parser.add_mutually_exclusive_group()
    views.add_argument(
        "--sequence",
        type=sequence_number,
        metavar="N",
        help="show the range that has the record with this sequence number: which run brought it, "
        "which file and snapshot have the record now, and what became of it in the typed tables or "
        "their quarantine tables. The exit code is 1 if no range has the number",
    )
    views.add_argument("--gaps", action="store_true", help="show what isn't in the table, and why")
    views.add_argument(
        "--family",
        action="store_true",
        help="print a picture of the shards and their states, as text for Mermaid",
    )
    views.add_argument(
        "--rebuild",
        action="store_true",
        help="write the lineage table anew from all that still tells of the lake table's history, "
        "and show nothing else",
    )


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.adapters import Adapters
    from headrace.pipeline.cli.views.lineage_ranges import show_ranges
    from headrace.pipeline.cli.views.lineage_record import show_record
    from headrace.pipeline.core.shards.partition import read_name
    from headrace.pipeline.lineage.cut import Cut

    _refuse_unused(args)
    cut = Cut(None if args.shard is None else read_name(args.shard), window_of(args))
    settings = load(args).settings
    if args.rebuild:
        return _rebuild(Adapters(settings))
    require_home(settings)
    adapters = Adapters(settings)
    if args.gaps or args.family:
        return _view(args, adapters, cut)
    if args.sequence is not None:
        return show_record(args, adapters, cut)
    return show_ranges(args, adapters, cut)


def _refuse_unused(args: argparse.Namespace) -> None:
    """Refuse options that the chosen view would leave out silently."""
    from headrace.pipeline.errors import BadSetting

    by_time = args.since is not None or args.until is not None
    is_view = args.gaps or args.family or args.rebuild
    if args.target is not None and args.window is not None:
        raise BadSetting("--target and --window are two tables' ledgers: give one of them; nothing was read")
    if (args.window is not None or args.target is not None) and (is_view or args.sequence is not None):
        raise BadSetting(
            f"{'--target' if args.window is None else '--window'} goes with --shard, --from, --to, --limit, "
            "--csv and --json only; nothing was read"
        )
    if args.sequence is not None and (args.csv or by_time or args.limit is not None):
        raise BadSetting(
            "--sequence is about one record: --csv, --from, --to and --limit can't go with it; nothing was read"
        )
    if is_view and (args.csv or args.json or by_time or args.limit is not None or args.shard is not None):
        raise BadSetting(
            "--gaps, --family and --rebuild are about all shards, as text: --shard, --from, --to, --limit, "
            "--csv and --json can't go with them; nothing was read"
        )


def _view(args: argparse.Namespace, adapters: "Adapters", cut: "Cut") -> int:
    from headrace.pipeline.cli.views.lineage_views import show_family, show_gaps
    from headrace.pipeline.core.ledger.filter import RangeFilter
    from headrace.pipeline.core.ledger.story import story_of
    from headrace.pipeline.proof.chains import KINDS_WITHOUT_ROWS

    range_filter = RangeFilter(kinds=KINDS_WITHOUT_ROWS) if args.gaps else cut.filter()
    story = story_of(adapters.lineage("lineage").entries(range_filter))
    return show_gaps(story) if args.gaps else show_family(story)


def _rebuild(adapters: "Adapters") -> int:
    from headrace.pipeline.core.ledger.filter import RangeFilter
    from headrace.pipeline.core.ledger.ledger import Lost
    from headrace.pipeline.lineage.rebuild import rebuild

    lineage = adapters.lineage("headrace lineage --rebuild")
    content = rebuild(lineage)
    tell(
        f"{lineage.identifier} has {counted(content.ranges, 'range')} of {counted(content.snapshots, 'snapshot')}, "
        f"up to snapshot {content.snapshot or 'none'}"
    )
    # A filter without kinds takes no range: lost parts are left.
    for lost in lineage.entries(RangeFilter(kinds=frozenset())) if content.gaps else ():
        if isinstance(lost, Lost):
            tell(f"{lost.why}; ranges derived from rows instead: {len(lost.ranges)}")
    return 0
