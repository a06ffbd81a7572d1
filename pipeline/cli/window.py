"""`headrace window`: choose records that have landed. Then copy them from the lake table into a table of their
own, parse them again, let a processor work on them, or take their aggregates apart. Records that the lake table
lacks can be read from the stream.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli.beside.told_dagster import tell_dagster
from headrace.pipeline.cli.decision.person import person
from headrace.pipeline.cli.options import add_config, add_window, load, require_home
from headrace.pipeline.cli.telling import tell, tell_aside, tell_waves
from headrace.pipeline.cli.views.json_output import add_json, print_json
from headrace.pipeline.cli.views.window_views import costs, listed, run_json, shown, shown_json, window_json
from headrace.pipeline.cli.window_options import add_purpose, add_records, asked, refuse_together

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.typed.done_wave import Wave
    from headrace.pipeline.windows.make import Asked
    from headrace.pipeline.windows.window import ReplayWindow
    from headrace.pipeline.windows.wiring import WindowWiring


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "window",
        description="Choose records that have landed, as a window: a range of each shard that never changes. "
        "Then copy them from the lake table into a table of their own, or parse them again into a "
        "typed table in the place of their older rows, or let a record processor work on them into a table of their "
        "own, or take their aggregates apart in the lake table; exactly once, beside everything else that is at work. "
        "Only --unpack changes the lake table.",
    )
    actions = parser.add_subparsers(metavar="create|list|show|run|cancel", dest="action", required=True)
    _add_create(actions)
    listing = actions.add_parser(
        "list", help="list all windows", description="List all windows, oldest first."
    )
    add_config(listing)
    add_json(listing)
    for name, short, what in (
        (
            "show",
            "show a window, and how far it is done",
            "Show a window: its ranges, its cost, and how far it was copied, replaced or processed.",
        ),
        (
            "cancel",
            "let no further wave of a window be committed",
            "Let no further wave of the window be committed. What was committed before stays.",
        ),
    ):
        action = actions.add_parser(name, help=short, description=what)
        add_config(action)
        action.add_argument("id", help="the id of the window")
        if name == "show":
            add_json(action)
    _add_run(actions)


def _add_run(actions: "Subparsers") -> None:
    copy = actions.add_parser(
        "run",
        help="copy a window, or replace its rows, or let its processor work, or take its aggregates apart",
        description="Copy the window into its own table, wave after wave; "
        "or replace its rows in the table for which it was made, or let its processor work on it, or take its aggregates "
        "apart in the lake table. A run that was killed is gone on with, and a window that was done as a whole "
        "gives nothing more.",
    )
    add_config(copy)
    copy.add_argument("id", help="the id of the window")
    copy.add_argument("--resume", action="store_true", help="go on with a cancelled window")
    copy.add_argument(
        "--accept-difference",
        action="store_true",
        help="of a window with --processor: work on the records that are there, where the lake table has other rows than "
        "its ledgers state",
    )
    add_json(copy)


def _add_create(actions: "Subparsers") -> None:
    create = actions.add_parser(
        "create",
        help="make a window, and tell what it costs",
        description="Make a window, and tell what it costs and what is out of reach. By one of: --from and --to, "
        "--snapshot, --run, --shard. Nothing is copied or replaced before `headrace window run`.",
    )
    add_config(create)
    add_window(create, records="ranges with records")
    add_records(create)
    add_purpose(create)
    add_json(create)


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.wiring import wire

    loaded = load(args)
    # Before anything is opened: a wrong combination of options is told at once.
    choice = asked(args) if args.action == "create" else None
    if args.action in {"list", "show"}:
        require_home(loaded.settings)
    wiring = wire(loaded.settings)
    windows = wiring.windows
    try:
        if choice is not None:
            _create(args, windows, *choice)
        elif args.action == "list":
            _list(args, windows)
        elif args.action == "show":
            _show(args, windows)
        elif args.action == "cancel":
            _cancel(args.id, windows)
        else:
            _run(args, windows, Path(loaded.name))
    finally:
        wiring.ports.close()
    return 0


def _create(args: argparse.Namespace, windows: "WindowWiring", choice: "Asked", how: str) -> None:
    from headrace.pipeline.windows.window import KeptWindow
    from headrace.pipeline.windows.windows import WindowRequest

    refuse_together(args)
    stream = args.stream
    if args.replace is not None:
        from headrace.pipeline.windows.asking import stream_of_target

        stream = stream_of_target(windows.settings, args.replace, stream)
    if args.processor is not None:
        stream = windows.stream_for_processor(args.processor, args.into or "", stream)
    window = windows.windowing(person()).create(
        WindowRequest(
            choice,
            how=how,
            stream=stream,
            target=args.replace or "",
            processor=args.processor or "",
            into=args.into or "",
            unpack=args.unpack,
            from_stream=args.from_stream,
        )
    )
    if args.json:
        print_json(window_json(KeptWindow(window), windows))
    else:
        _tell_created(window, windows, from_stream=args.from_stream)


def _tell_created(window: "ReplayWindow", windows: "WindowWiring", *, from_stream: bool) -> None:
    table = windows.table_of(window)
    tell(f"window {window.id}: {window.how}", *costs(window, windows))
    if from_stream and not any(planned.stretches for planned in window.ranges):
        tell(
            "nothing of this window is read from the stream: "
            "the lake table has all of its records that Kinesis may still have"
        )
    if window.unpack:
        tell(
            f"`headrace window run {window.id}` takes aggregates of these records apart in {table}; "
            "rows that are no whole aggregate stay as they are"
        )
    elif window.target:
        tell(
            f"`headrace window run {window.id}` parses these records again, and replaces their rows in "
            f"{table} and {table}_quarantine"
        )
    elif window.processor:
        tell(
            f"`headrace window run {window.id}` gives these records to {window.processor}, as to a new processor, and its rows "
            f"and states come into {table}"
        )
    else:
        tell(f"`headrace window run {window.id}` copies it into {table}")


def _list(args: argparse.Namespace, windows: "WindowWiring") -> None:
    windows_kept = windows.windowing(person()).windows.all()
    if args.json:
        print_json({"windows": [window_json(window_kept, windows) for window_kept in windows_kept]})
    else:
        tell(*listed(windows_kept, windows))


def _show(args: argparse.Namespace, windows: "WindowWiring") -> None:
    window = windows.windowing(person()).find(args.id)
    if args.json:
        print_json(shown_json(window, windows))
    else:
        tell(*shown(window, windows))


def _cancel(window: str, windows: "WindowWiring") -> None:
    from headrace.pipeline.windows.window import Word

    windowing = windows.windowing(person())
    cancelled = windowing.find(window)
    windowing.say(window, Word.CANCELLED)
    if not cancelled.is_done:
        tell(f"window {window} is cancelled; `headrace window run {window} --resume` goes on")
        return
    table = windows.table_of(cancelled.window)
    again = (
        f"looks for rows of the window that {table} lacks, as after that table was dropped"
        if not (cancelled.window.unpack or cancelled.window.target)
        else "finds nothing left to do, unless that table was rolled back or dropped since"
    )
    tell(
        f"window {window} was done before, and is cancelled: what it has brought into {table} stays there. "
        f"`headrace window run {window} --resume` takes the cancelling back, and {again}"
    )


def _run(args: argparse.Namespace, windows: "WindowWiring", config: Path) -> None:
    from headrace.pipeline.cli.beside.services import join_spark
    from headrace.pipeline.windows.window import Word

    windowing = windows.windowing(person())
    window = windowing.find(args.id).window
    if args.accept_difference and not window.processor:
        from headrace.pipeline.errors import BadSetting

        raise BadSetting(
            f"--accept-difference is for windows that were made with --processor, and {window.id} wasn't; nothing was done"
        )
    if args.resume:
        windowing.say(args.id, Word.RESUMED)
    # In JSON the answer comes at the end, and progress goes aside.
    say = tell_aside if args.json else tell
    say(*costs(window, windows))
    # After all that can be refused without it: a first start of Spark takes many seconds.
    join_spark(config)
    table = windows.table_of(window)
    waves: list[Wave] = []
    try:
        run_id = f"headrace window {windows.ports.ids.fresh()}"
        redoing = windows.redoing(window, run_id, accepts_difference=args.accept_difference)
        tell_waves(args.id, redoing.waves(), waves, say=say)
    finally:
        # Also after an error: waves that were committed before it have changed the tables.
        settings = windows.settings
        tell_dagster(config, settings, lambda changes: changes.by_redoing(settings, window, table, waves))
        if args.json:
            print_json(run_json(window, windows, waves))
    if window.unpack:
        say(f"the aggregates of the window are taken apart in {table}")
    elif window.target:
        say(f"the rows of the window are replaced in {table} and {table}_quarantine")
    elif window.processor:
        say(f"{window.processor} has worked on the window, into {table}")
    else:
        say(f"the window is copied into {table}")
