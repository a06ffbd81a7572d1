"""`headrace console`: one web page that shows an application as it is now (`headrace.pipeline.console`)."""

import argparse
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import add_config, load, port_number
from headrace.pipeline.cli.telling import tell
from headrace.pipeline.inspect.command import add_table_arguments, place_arguments, table_names_in
from headrace.pipeline.settings.arguments import duration

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.console.server import Console
    from headrace.pipeline.console.wiring import ShownApplication

PORT = 3030
_LEAST_EVERY = timedelta(seconds=2)
_MOST_PEEKS = 200


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "console",
        description="Serve one web page on this machine that shows an application as it is now: its shards and their family, "
        "who reads them, lags, the leader, handovers, and what may be lost. It shows the application in the settings or, "
        "with --table, any KCL application (1.x to 3.5), for which no settings are needed. The command writes nothing to AWS, "
        "and looks only while a page is open.",
    )
    add_config(parser)
    add_table_arguments(parser, table_is_required=False)
    parser.add_argument(
        "--stream",
        metavar="NAME",
        help="with --table: name or ARN of the stream, which the lease rows of an application with one stream don't tell",
    )
    parser.add_argument(
        "--peek",
        metavar="N",
        type=_peeks,
        default=0,
        help="ask Kinesis, for N shards a look in turns, how far behind their checkpoints are: two requests each, of which "
        "one reads a record and drops it (default: 0)",
    )
    parser.add_argument(
        "--every",
        metavar="TIME",
        type=_interval,
        default=timedelta(seconds=10),
        help="time between two looks while a page is open (default: 10s); longer where a look costs much",
    )
    parser.add_argument(
        "--dagster", metavar="URL", type=_url, help="address of Dagster's UI, for links to runs"
    )
    _add_address(parser)
    parser.add_argument(
        "--once",
        metavar="FILE",
        type=Path,
        help="write everything as one HTML file that needs no server, and end; with --for, of two looks that are compared",
    )
    parser.add_argument(
        "--for",
        dest="period",
        metavar="TIME",
        type=duration,
        help="with --once: time between the two looks (30s)",
    )


def _add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=port_number, default=PORT, help=f"port of the page (default: {PORT})")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--allow-other-hosts",
        action="store_true",
        help="with --host: let other machines reach the page, which has no password",
    )


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.console.guards import ServedAs, require_loopback
    from headrace.pipeline.console.wiring import console_of

    _refuse_unused(args)
    # The page has no password, so that other machines are a decision of the person's.
    require_loopback(args.host, allowed=args.allow_other_hosts)
    if args.once is not None:
        return _once(args)
    from headrace.pipeline.console.serve import address_of, bound, serve_console
    from headrace.pipeline.console.server import app_of

    # First of all, so that a port that is taken is told at once.
    listener = bound(args.host, args.port)
    try:
        console = console_of(_shown(args))
    except BaseException:
        listener.close()
        raise
    others = args.allow_other_hosts
    served_as = ServedAs(frozenset({args.host, *(_own_names() if others else ())}), any_address=others)
    tell(f"headrace: the console is at {address_of(listener)} - press Ctrl-C to stop")
    serve_console(app_of(console, served_as), listener)
    return 0


def _once(args: argparse.Namespace) -> int:
    from headrace.pipeline.clock import SystemClock
    from headrace.pipeline.console.once import write_once
    from headrace.pipeline.console.wiring import console_of

    console = console_of(_shown(args))
    if args.period is not None:
        _first_look(console)
        SystemClock().pause(args.period.total_seconds())
    tell(write_once(console, args.once))
    return 0


def _first_look(console: "Console") -> None:
    from headrace.pipeline.errors import Unreachable

    report = console.watch.report()
    if report.picture is None and report.trouble is not None:
        raise Unreachable(f"{report.trouble.sentence}; no file was written")


def _shown(args: argparse.Namespace) -> "ShownApplication":
    from headrace.pipeline.console.wiring import ShownApplication, of_settings
    from headrace.pipeline.settings.blocks.aws import AwsSettings

    looks = {
        "peek": args.peek,
        "every": args.every,
        "cluster_by": args.cluster_by,
        "dagster": args.dagster,
    }
    if args.table is not None:
        return ShownApplication(
            application=args.table,
            tables=table_names_in(args),
            aws=AwsSettings(**place_arguments(args)),
            stream=args.stream,
            **looks,
        )
    shown = of_settings(load(args).settings)
    return replace(shown, aws=shown.aws.at(**place_arguments(args)), **looks)


def _refuse_unused(args: argparse.Namespace) -> None:
    """Refuse options that would be left out silently."""
    from headrace.pipeline.errors import BadSetting

    if args.stream is not None and args.table is None:
        raise BadSetting(
            "--stream goes with --table: the settings name their streams themselves; nothing was started"
        )
    if args.period is not None and args.once is None:
        raise BadSetting("--for goes with --once: a page compares its looks by itself; nothing was started")


def _own_names() -> tuple[str, ...]:
    import socket

    return (socket.gethostname(), socket.getfqdn())


def _interval(text: str) -> timedelta:
    period = duration(text)
    if period < _LEAST_EVERY:
        raise argparse.ArgumentTypeError(f"{text!r} is too short: allowed are 2s and longer")
    return period


def _peeks(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 3 or int(text) > _MOST_PEEKS:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} isn't a number from 0 to {_MOST_PEEKS}")
    return int(text)


def _url(text: str) -> str:
    from urllib.parse import urlsplit

    parts = urlsplit(text)
    # The address becomes a link on the page: `javascript:` would be code there, and a name before
    # an @ looks like the host.
    if parts.scheme not in {"http", "https"} or not parts.netloc or "@" in parts.netloc:
        raise argparse.ArgumentTypeError(f"{text[:100]!r} isn't an address such as http://127.0.0.1:3000")
    return text.rstrip("/")
