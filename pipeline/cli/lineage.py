"""`headrace lineage`: the lake table's ledger, which says which records of which shard went into which snapshot.

It is read from the lineage table, and from the lake table's snapshots that aren't recorded there yet.
"""

import argparse
import sys
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.core.words import counted, no_such_shard, records_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.pipeline.adapters import Adapters
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.core.lineage import LedgerEntry, Lost
    from headrace.pipeline.core.lineage_filter import RangeFilter
    from headrace.pipeline.core.window import KeptWindow
    from headrace.pipeline.ports import LeaseStore

_SHORT_OF_TARGET = [
    "at",
    "snapshot",
    "shard",
    "kind",
    "rows",
    "parsed",
    "quarantined",
    "dropped",
    "version",
    "schema",
    "code",
]
_SHORT = ["at", "snapshot", "shard", "kind", "rows", "upto", "parents", "children"]


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "lineage",
        description="Show which records of which shard went into which snapshot, from the lineage table and the lake table's newest snapshots.",
    )
    add_config(parser)
    parser.add_argument("--shard", metavar="ID", help="only this shard")
    parser.add_argument(
        "--window",
        metavar="ID",
        help="show the ledgers of this window (`headrace window`) instead of the lake table's: of its own table, or of the typed table in which "
        "it replaced rows",
    )
    parser.add_argument(
        "--target",
        metavar="NAME",
        help="show the ledgers of this target of `parse`: what became of the rows of each range, and which code and schema decided it",
    )
    parser.add_argument("--csv", action="store_true", help="print all columns, as CSV")
    views = parser.add_mutually_exclusive_group()
    views.add_argument(
        "--sequence",
        type=int,
        metavar="N",
        help="show which run brought the record with this sequence number, which file and snapshot have it now, and what became of it in the typed "
        "tables or their quarantine tables",
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
        help="write the lineage table anew from all that still tells of the lake table's history, and show nothing else",
    )


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.adapters import Adapters
    from headrace.pipeline.errors import BadSetting

    adapters = Adapters(load(args).settings)
    if args.window is not None and (args.rebuild or args.gaps or args.family or args.sequence is not None):
        raise BadSetting("--window goes with --shard and --csv only; nothing was read")
    if args.target is not None and (
        args.window is not None or args.rebuild or args.gaps or args.family or args.sequence is not None
    ):
        raise BadSetting("--target goes with --shard and --csv only; nothing was read")
    _refuse_unused(args)
    if args.target is not None:
        return _show_target(args, adapters)
    if args.rebuild:
        return _rebuild(adapters)
    if args.sequence is not None or args.gaps or args.family:
        return _view(args, adapters)
    return _show(args, adapters)


def _refuse_unused(args: argparse.Namespace) -> None:
    """Refuse options that the chosen view would leave out silently."""
    from headrace.pipeline.errors import BadSetting

    if args.sequence is not None and args.csv:
        raise BadSetting("--sequence prints text, and --csv can't go with it; nothing was read")
    if (args.gaps or args.family or args.rebuild) and (args.csv or args.shard is not None):
        raise BadSetting(
            "--gaps, --family and --rebuild are about all shards, as text: --shard and --csv can't go with them; nothing was read"
        )


def _view(args: argparse.Namespace, adapters: "Adapters") -> int:
    from headrace.pipeline.cli.lineage_views import show_family, show_gaps, show_parsed, show_record
    from headrace.pipeline.core.lineage_filter import ALL_RANGES, RangeFilter
    from headrace.pipeline.core.proof_chains import KINDS_WITHOUT_ROWS, story_of

    if args.gaps:
        asked = RangeFilter(kinds=KINDS_WITHOUT_ROWS)
    elif args.family:
        asked = ALL_RANGES
    else:
        asked = RangeFilter(number=args.sequence, shards=_shards_of(args))
    story = story_of(adapters.lineage("lineage").entries(asked))
    if args.family:
        return show_family(story)
    if args.gaps:
        return show_gaps(story)
    show_record(story, adapters.table("lineage"), args.sequence, shard=args.shard)
    for target in adapters.settings.parse:
        ports = adapters.parsing(target, "lineage")
        if ports.table.exists():
            of_target = story_of(ports.lineage.entries(asked))
            tables = (
                adapters.lake_tables.typed(target, "lineage"),
                adapters.lake_tables.quarantine(target, "lineage"),
            )
            show_parsed(target, of_target, args.sequence, shard=args.shard, tables=tables)
    return 0


def _shards_of(args: argparse.Namespace) -> "frozenset[str] | None":
    return None if args.shard is None else frozenset({args.shard})


def _rebuild(adapters: "Adapters") -> int:
    from headrace.pipeline.core.lineage import Lost
    from headrace.pipeline.core.lineage_filter import RangeFilter
    from headrace.pipeline.lake.lineage_rebuild import rebuild

    lineage = adapters.lineage("headrace lineage --rebuild")
    now = rebuild(lineage)
    tell(
        f"{lineage.identifier} has {counted(now.ranges, 'range')} of {counted(now.snapshots, 'snapshot')}, up to snapshot "
        f"{now.snapshot or 'none'}"
    )
    for lost in lineage.entries(RangeFilter(kinds=frozenset())) if now.gaps else ():
        if isinstance(lost, Lost):
            tell(f"{lost.why}; ranges derived from rows instead: {len(lost.ranges)}")
    return 0


def _show(args: argparse.Namespace, adapters: "Adapters") -> int:
    import pandas as pd

    from headrace.pipeline.core.lineage import Lost
    from headrace.pipeline.core.lineage_filter import ALL_RANGES, RangeFilter
    from headrace.pipeline.lake.lineage_frame import lineage_frame

    asked = RangeFilter(shards=_shards_of(args))
    window = None if args.window is None else _window(adapters, args.window)
    entries = list(_entries(adapters, window, asked))
    if lost := [entry for entry in entries if isinstance(entry, Lost)]:
        tell_aside(f"{counted(len(lost), 'part')} of the history without a ledger; the first: {lost[0].why}")
    frame = lineage_frame(entries)
    if args.shard is not None and frame.empty:
        _require_lease(adapters.leases(), args.shard, also=_shards_in(_entries(adapters, window, ALL_RANGES)))
    if args.csv:
        frame.to_csv(sys.stdout, index=False)
        return 0
    if frame.empty:
        tell(
            (_nothing_yet(window) if window else "no range of records has landed")
            + (f" of {args.shard}" if args.shard else "")
        )
        return 0
    with pd.option_context("display.width", None, "display.max_rows", None, "display.max_colwidth", 64):
        tell(*frame[_SHORT].to_string(index=False).split("\n"))
    rows = int(frame["rows"].sum())
    # How many Kinesis records the rows of a window were made of isn't counted.
    total = records_in(int(frame["records"].sum()), rows) if args.window is None else counted(rows, "row")
    shards = counted(frame["shard"].nunique(), "shard")
    tell(f"{total} in {counted(len(frame), 'range')} of {shards}")
    if args.window is None:
        _tell_through(adapters)
    return 0


def _show_target(args: argparse.Namespace, adapters: "Adapters") -> int:
    import pandas as pd

    from headrace.pipeline.cli.parse import targets_of
    from headrace.pipeline.core.lineage_filter import RangeFilter
    from headrace.pipeline.core.redrive_chain import with_chains
    from headrace.pipeline.errors import Unknown
    from headrace.pipeline.lake.lineage_frame import parsed_frame
    from headrace.pipeline.lake.lineage_table import IcebergLineage

    (target,) = targets_of(adapters.settings, args.target, nothing="Nothing was read")
    table = adapters.lake_tables.typed(target, "lineage")
    if not table.exists():
        raise Unknown(f"nothing was parsed for {target.name} yet; `headrace parse {target.name}` parses")
    shards = None if args.shard is None else with_chains(args.shard)
    frame = parsed_frame(IcebergLineage(table).entries(RangeFilter(shards=shards)))
    if args.shard is not None and frame.empty:
        landed = adapters.lineage("lineage")
        if not any(_shards_in(landed.entries(RangeFilter(shards=_shards_of(args))))):
            _require_lease(adapters.leases(), args.shard, also=_shards_in(landed.entries()))
    if args.csv:
        frame.to_csv(sys.stdout, index=False)
    elif frame.empty:
        tell("no range of records was parsed" + (f" of {args.shard}" if args.shard else ""))
    else:
        with pd.option_context("display.width", None, "display.max_rows", None, "display.max_colwidth", 120):
            tell(*frame[_SHORT_OF_TARGET].to_string(index=False).split("\n"))
    return 0


def _window(adapters: "Adapters", window: str) -> "KeptWindow":
    from headrace.pipeline.errors import Unknown

    found = next((each for each in adapters.windows().all() if each.window.id == window), None)
    if found is None:
        raise Unknown(f"there is no window {window!r}; `headrace window list` names all windows")
    return found


def _nothing_yet(kept: "KeptWindow") -> str:
    """Why a window has no range in the ledgers of its table."""
    window = kept.window
    did = "taken apart" if window.unpack else "replaced" if window.target else "copied"
    what = "aggregate" if window.unpack else "row"
    if kept.is_done:
        return f"the window {window.id} is done, and no {what} was there to be {did}"
    return f"no {what} of the window {window.id} was {did} yet"


def _entries(
    adapters: "Adapters", kept: "KeptWindow | None", asked: "RangeFilter"
) -> "Iterable[LedgerEntry | Lost]":
    return adapters.lineage("lineage").entries(asked) if kept is None else _of_window(adapters, kept, asked)


def _shards_in(entries: "Iterable[LedgerEntry | Lost]") -> "Iterable[str]":
    from headrace.pipeline.core.proof_chains import story_of

    return {key.shard_id for key in story_of(entries).keys}


def _of_window(
    adapters: "Adapters", kept: "KeptWindow", asked: "RangeFilter"
) -> "Iterable[LedgerEntry | Lost]":
    from dataclasses import replace

    from headrace.pipeline.cli.parse import targets_of
    from headrace.pipeline.core.lineage import DONE_ANEW, LedgerEntry
    from headrace.pipeline.core.replace_plan import replays_of
    from headrace.pipeline.errors import Unknown

    found, window = kept.window, kept.window.id
    if found.target or found.unpack:
        of_windows = replace(asked, kinds=DONE_ANEW)
        if found.unpack:
            entries = adapters.lineage("lineage").entries(of_windows)
        else:
            (target,) = targets_of(adapters.settings, found.target, nothing="Nothing was read")
            entries = adapters.parsing(target, "lineage").lineage.entries(of_windows)
        pages = ((each, replays_of(each.page, window)) for each in entries if isinstance(each, LedgerEntry))
        return [replace(each, page=page) for each, page in pages if page.ranges]
    ports = adapters.replaying(window, "lineage")
    if not ports.table.exists():
        raise Unknown(
            f"nothing of the window {window} was copied yet; `headrace window run {window}` copies it"
        )
    return ports.lineage.entries(asked)


def _tell_through(adapters: "Adapters") -> None:
    from headrace.pipeline.core.valid_through_text import time_text
    from headrace.pipeline.errors import HeadraceError

    try:
        state = adapters.table("lineage").load()
    except HeadraceError as error:
        tell_aside(f"up to when every record has landed isn't known: {error}")
        return
    for stream in sorted(state.positions.origins):
        at = state.through.get(stream)
        said = (
            f"every record that arrived before {time_text(at)} has landed, or the lineage tells why not"
            if at
            else "not known yet up to when every record has landed"
        )
        tell(f"{stream}: {said}")


def _require_lease(leases: "LeaseStore", key: str, *, also: "Iterable[str]") -> None:
    """Refuse a shard that has no lease row: nothing landed of it, so its name may be mistyped. `also`: shards in the ledger."""
    from headrace.pipeline.errors import Unknown

    known = {row.key for row in leases.scan().leases}
    if key not in known:
        raise Unknown(no_such_shard(key, [*known, *also]))
