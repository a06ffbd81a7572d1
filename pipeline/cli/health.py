"""`headrace health`: whether the application is well, as an exit code and one sentence, or for probes over HTTP."""

import argparse
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.telling import tell
from headrace.pipeline.cli.views.json_output import add_json, print_json
from headrace.pipeline.settings.arguments import duration

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.health.examining import Examining

_MOST = timedelta(minutes=10)
_EVERY = timedelta(seconds=30)
_LARGEST_PORT = 65_535


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "health",
        description="Tell whether the application is well: somebody leads, no shard fails, none is too far behind, and the "
        "lake table can be read. The command changes nothing. It waits for a beat of the leader, which takes a few seconds. "
        "Exit codes: 0 well, 1 not well, 2 it can't be told, or the settings are wrong.",
    )
    add_config(parser)
    add_json(parser)
    parser.add_argument(
        "--max-lag",
        type=duration,
        default=_MOST,
        metavar="TIME",
        help="the longest lag that is well (default: 10m)",
    )
    parser.add_argument(
        "--serve",
        type=address,
        metavar="HOST:PORT",
        help="answer probes over HTTP instead: /health with 200 or 503, and /alive",
    )
    parser.add_argument(
        "--every",
        type=duration,
        default=_EVERY,
        metavar="TIME",
        help="with --serve: the time between two looks at the tables, each of which reads all lease rows (default: 30s)",
    )


def address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and int(port) <= _LARGEST_PORT):
        raise argparse.ArgumentTypeError(f"{text!r} isn't an address such as 127.0.0.1:8080")
    return host.strip("[]"), int(port)


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.wiring import wire
    from headrace.pipeline.health.examining import Examining
    from headrace.pipeline.health.server import health_document

    settings = load(args).settings
    home = None if settings.landing.catalog else Path(settings.landing.home)
    examining = Examining(wiring=wire(settings), most=args.max_lag, home=home)
    if args.serve is not None:
        return _serve(args, examining)
    verdict = examining.look(patient=True)
    if args.json:
        print_json(health_document(verdict))
    else:
        tell(str(verdict))
    return int(verdict.health)


def _serve(args: argparse.Namespace, examining: "Examining") -> int:
    from headrace.pipeline.cli.beside.services import stopped_by_signals
    from headrace.pipeline.errors import BadSetting
    from headrace.pipeline.health.server import HealthServer, LastLook

    last = LastLook(
        application=examining.wiring.settings.application,
        # Not patient: a probe has to be answered within seconds, and the look before tells whether
        # the lock has moved.
        look=lambda: examining.look(patient=False),
        every=args.every.total_seconds(),
    )
    host, port = args.serve
    try:
        server = HealthServer(host, port, last)
    except OSError as error:
        raise BadSetting(
            f"--serve {host}:{port} can't be listened on ({error}); nothing was started. Choose a free port of this host"
        ) from error
    tell(f"probes are answered at http://{host}:{server.server_port}/health and /alive; Ctrl-C ends it")
    with stopped_by_signals(), server:
        server.serve()
    return 0
