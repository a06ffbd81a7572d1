"""The ranges that `headrace lineage` shows: of the lake table, of a typed table or of a window, as text, CSV
or JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.cli.views.json_output import print_json
from headrace.pipeline.cli.views.lineage_json import lineage_document
from headrace.pipeline.core.words.words import counted, no_such_shard, records_in

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    import pandas as pd

    from headrace.pipeline.app.adapters import Adapters
    from headrace.pipeline.core.ledger.filter import RangeFilter
    from headrace.pipeline.core.ledger.ledger import LedgerEntry, Lost
    from headrace.pipeline.lineage.cut import Cut
    from headrace.pipeline.windows.window import KeptWindow

    Entry = LedgerEntry | Lost

_OF_TARGET = ["at", "snapshot", "stream", "shard", "kind", "rows", "parsed", "quarantined", "dropped"]
_OF_TARGET += ["version", "schema", "code"]
_SHORT = ["at", "snapshot", "stream", "shard", "kind", "rows", "upto", "parents", "children"]


def show_ranges(args: argparse.Namespace, adapters: Adapters, cut: Cut) -> int:
    from headrace.pipeline.core.ledger.ledger import Lost
    from headrace.pipeline.lineage.cut import newest
    from headrace.pipeline.windows.windows import find_window

    window = None if args.window is None else find_window(adapters.windows(), args.window)
    table, entries = _ledgers(args, adapters, window, cut)
    shown_entries, left_out = newest(cut.of(entries), args.limit)
    if lost := [entry for entry in shown_entries if isinstance(entry, Lost)]:
        tell_aside(f"{counted(len(lost), 'part')} of the history without a ledger; the first: {lost[0].why}")
    frame = _frame(args, shown_entries)
    if args.shard is not None and frame.empty:
        # Only where nothing is shown: it reads all ledgers, and all lease rows.
        _require_shard(args, adapters, window, cut)
    if args.json:
        print_json(lineage_document(args, adapters, table, shown_entries, left_out))
    elif args.csv:
        frame.to_csv(sys.stdout, index=False)
    elif frame.empty:
        tell(_nothing(args, window))
    else:
        _tell(args, frame, left_out)
        if args.window is None and args.target is None:
            _tell_through(adapters)
    return 0


def _frame(args: argparse.Namespace, entries: list[Entry]) -> pd.DataFrame:
    from headrace.pipeline.lineage.frame import lineage_frame, parsed_frame

    return lineage_frame(entries) if args.target is None else parsed_frame(entries)


def _tell(args: argparse.Namespace, frame: pd.DataFrame, left_out: int) -> None:
    import pandas as pd

    from headrace.pipeline.core.ledger.ledger import Kind

    columns, width = (_SHORT, 64) if args.target is None else (_OF_TARGET, 120)
    # pandas would else cut the table to the width of a terminal, and leave rows out in the middle.
    with pd.option_context("display.width", None, "display.max_rows", None, "display.max_colwidth", width):
        tell(*frame[_with_lives(columns, frame)].to_string(index=False).split("\n"))
    is_again = frame["kind"].isin([Kind.REPLAY, Kind.GENERATION] if args.target else [])
    rows = int(frame.loc[~is_again, "rows"].sum())
    # How many Kinesis records the rows of a window, or those of a typed table, were made of isn't counted.
    is_lake = args.window is None and args.target is None
    total = records_in(int(frame["records"].sum()), rows) if is_lake else counted(rows, "row")
    # The number of a shard's redrives is a position of its own, with `#redrive` after the shard's name.
    names = frame[["stream", "stream_epoch", "shard"]].assign(shard=frame["shard"].str.partition("#")[0])
    shards = counted(len(names.drop_duplicates()), "shard")
    # A window replaces rows that an earlier range has counted.
    again = int(frame.loc[is_again, "rows"].sum())
    total += f", and {counted(again, 'row')} that took the place of others," if again else ""
    older = f"; {counted(left_out, 'older range')} left out by --limit" if left_out else ""
    tell(f"{total} in {counted(len(frame), 'range')} of {shards}{older}")


def _with_lives(columns: list[str], frame: pd.DataFrame) -> list[str]:
    """With the lives of streams, where one was deleted and created again: its shards then have the same names."""
    if bool((frame.groupby("stream")["stream_epoch"].nunique() == 1).all()):
        return columns
    return [
        part for column in columns for part in ((column, "stream_epoch") if column == "stream" else (column,))
    ]


# --- the ledgers --------------------------------------------------------------------------------------------


def _ledgers(
    args: argparse.Namespace, adapters: Adapters, window: KeptWindow | None, cut: Cut
) -> tuple[str, Iterable[Entry]]:
    """The name of the table, and its ledgers."""
    from headrace.pipeline.errors import Unknown
    from headrace.pipeline.lineage.table import IcebergLineage
    from headrace.pipeline.settings.targets import targets_of

    if window is not None:
        return _of_window(adapters, window, cut.filter())
    if args.target is None:
        return adapters.table("lineage").identifier, adapters.lineage("lineage").entries(cut.filter())
    (target,) = targets_of(adapters.settings, args.target, nothing="Nothing was read")
    typed = adapters.typed(target, "lineage")
    if not typed.exists():
        raise Unknown(f"nothing was parsed for {target.name} yet; `headrace parse {target.name}` parses")
    return target.table, IcebergLineage(typed).entries(cut.filter())


def _of_window(
    adapters: Adapters, kept_window: KeptWindow, asked_for: RangeFilter
) -> tuple[str, Iterable[Entry]]:
    from dataclasses import replace

    from headrace.pipeline.core.ledger.ledger import DONE_ANEW, LedgerEntry
    from headrace.pipeline.errors import Unknown
    from headrace.pipeline.settings.targets import targets_of
    from headrace.pipeline.windows.replace_plan import replays_of
    from headrace.pipeline.windows.window import window_table

    window, lake = kept_window.window, adapters.settings.landing.table
    if window.processor:
        name = window.own_table(lake)
        processor_ports = adapters.processing(window.maker(lake), "lineage")
        if not processor_ports.table.exists():
            raise Unknown(
                f"nothing of the window {window.id} was processed yet; `headrace window run {window.id}` does so"
            )
        return name, processor_ports.lineage.entries(asked_for)
    if not (window.target or window.unpack):
        ports = adapters.replaying(window.id, "lineage")
        if not ports.table.exists():
            raise Unknown(
                f"nothing of the window {window.id} was copied yet; `headrace window run {window.id}` copies it"
            )
        return window_table(lake, window.id), ports.lineage.entries(asked_for)
    # Such a window has no table of its own: its ranges are in the ledger of the table that it changes.
    of_windows = replace(asked_for, kinds=DONE_ANEW)
    if window.unpack:
        table, entries = lake, adapters.lineage("lineage").entries(of_windows)
    else:
        (target,) = targets_of(adapters.settings, window.target, nothing="Nothing was read")
        table, entries = target.table, adapters.parsing(target, "lineage").lineage.entries(of_windows)
    pages = (
        (entry, replays_of(entry.page, window.id)) for entry in entries if isinstance(entry, LedgerEntry)
    )
    return table, [replace(entry, page=page) for entry, page in pages if page.ranges]


# --- where there is nothing ---------------------------------------------------------------------------------


def _nothing(args: argparse.Namespace, kept_window: KeptWindow | None) -> str:
    """Why no range is shown."""
    of = f" of {args.shard}" if args.shard else ""
    when = " with records of that time" if args.since is not None or args.until is not None else ""
    if kept_window is None:
        return f"no range of records {'has landed' if args.target is None else 'was parsed'}{of}{when}"
    window = kept_window.window
    did = (
        "taken apart"
        if window.unpack
        else "replaced"
        if window.target
        else "processed"
        if window.processor
        else "copied"
    )
    what = "aggregate" if window.unpack else "record" if window.processor else "row"
    if kept_window.is_done:
        return f"the window {window.id} is done, and no {what} was there to be {did}{of}{when}"
    return f"no {what} of the window {window.id} was {did} yet{of}{when}"


def _require_shard(args: argparse.Namespace, adapters: Adapters, window: KeptWindow | None, cut: Cut) -> None:
    """Refuse a name that no shard of the ledgers and no lease row has: it may be mistyped."""
    from headrace.pipeline.core.ledger.filter import ALL_RANGES
    from headrace.pipeline.core.shards.partition import meant_by, partition_of
    from headrace.pipeline.errors import Unknown
    from headrace.pipeline.lineage.cut import Cut, ranges_in

    landed = Cut(cut.shard).of(adapters.lineage("lineage").entries(cut.filter()))
    if any(ranges_in(entry) for entry in landed):
        return
    leases = [row.key for row in adapters.leases().scan().leases]
    if meant_by(args.shard, leases, only_stream=adapters.settings.only_stream):
        return
    every = _of_window(adapters, window, ALL_RANGES)[1] if window else adapters.lineage("lineage").entries()
    in_ledgers = {covered.key.shard_id for entry in every for covered in ranges_in(entry)}
    raise Unknown(no_such_shard(args.shard, {*map(partition_of, leases), *in_ledgers}))


# --- what is told beside the ranges -------------------------------------------------------------------------


def _tell_through(adapters: Adapters) -> None:
    from headrace.pipeline.core.landing.valid_through_text import time_text
    from headrace.pipeline.errors import HeadraceError

    try:
        state = adapters.table("lineage").load()
    except HeadraceError as error:
        tell_aside(f"up to when every record has landed isn't known: {error}")
        return
    for stream in sorted(state.positions.origins):
        through = state.through.get(stream)
        said = (
            f"every record that arrived before {time_text(through)} has landed, or the lineage tells why not"
            if through
            else "not known yet up to when every record has landed"
        )
        tell(f"{stream}: {said}")
