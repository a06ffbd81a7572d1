"""`python -m headrace.pipeline.local`, which is what `headrace local` runs."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from headrace.pipeline.local.endpoint import READY, READY_BY_TLS
from headrace.pipeline.local.kinesis.region import Options
from headrace.pipeline.local.server import Server, Tls, run_until_signal

_LARGEST_PORT = 65535
_REGION = "eu-west-1"
"""The README and the examples use this region. The stand-in serves each region; the line that it prints names one."""
_LONGEST = 86_400
"""The most seconds that a stream may be told to stay CREATING, UPDATING or DELETING."""
_STOPPED = 2
"""All commands of Headrace end with this exit code where a person has to change something."""


def add_local_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
    parser.add_argument(
        "--port", type=_port, default=4567, help="port on 127.0.0.1; 0 chooses a free one (default: 4567)"
    )
    parser.add_argument(
        "--region",
        type=_region,
        default=_REGION,
        help=f"the region in the line of variables to export, that of aws.region in your settings (default: {_REGION})",
    )
    parser.add_argument(
        "--throttle", action="store_true", help="enforce Kinesis's limits on requests and bytes a second"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="seed for stream ids and for the random choices of faults (default: 0)",
    )
    parser.add_argument(
        "--transition",
        type=_seconds,
        default=0.5,
        metavar="SECONDS",
        help="how long a stream stays CREATING, UPDATING or DELETING (default: 0.5)",
    )
    parser.add_argument(
        "--heartbeat",
        type=_seconds,
        default=5.0,
        metavar="SECONDS",
        help="how long a subscription without new records stays silent (default: 5)",
    )
    parser.add_argument(
        "--tls",
        type=Path,
        nargs=2,
        metavar=("CERTIFICATE", "KEY"),
        help="be reached by TLS as well, at a port of its own, with the certificate and key in these PEM files",
    )
    parser.add_argument(
        "--tls-port", type=_port, default=0, help="that port; 0 chooses a free one (default: 0)"
    )
    parser.add_argument(
        "--while-stdin",
        action="store_true",
        help="stop when standard input ends, as it does when the parent process ends",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    options = Options(throttle=args.throttle, transition=args.transition, heartbeat=args.heartbeat)
    tls = Tls(args.tls[0], args.tls[1], args.tls_port) if args.tls else None
    if tls is not None and (unreadable := _unreadable(tls)):
        sys.stderr.write(f"headrace: {unreadable}: name two PEM files with --tls; nothing was started\n")
        return _STOPPED
    server = Server(args.port, options=options, seed=args.seed, tls=tls)

    def ready() -> None:
        _announce(server.endpoint, args.region, server.tls_endpoint)
        if args.while_stdin:
            threading.Thread(target=_stop_with_stdin, args=(server,), daemon=True).start()

    try:
        asyncio.run(run_until_signal(server, ready))
    except OSError as error:
        sys.stderr.write(
            f"headrace: port {args.port}{f' or {args.tls_port}' if tls else ''} of this machine can't be listened on ({error.strerror or error}): "
            "name a free port with --port; nothing was started\n"
        )
        return _STOPPED
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the arguments, and serve."""
    parser = argparse.ArgumentParser(
        prog="headrace local", description="A simulator of Kinesis, beside moto's AWS."
    )
    add_local_arguments(parser)
    return run(parser.parse_args(argv))


def _announce(endpoint: str, region: str, tls_endpoint: str | None) -> None:
    # boto3 reads AWS_DEFAULT_REGION only, other SDKs AWS_REGION only.
    settings = (
        f"AWS_ENDPOINT_URL={endpoint} AWS_REGION={region} AWS_DEFAULT_REGION={region} AWS_ACCESS_KEY_ID=local "
        "AWS_SECRET_ACCESS_KEY=local"
    )
    sys.stdout.write(f"{READY}{endpoint}   (export {settings})\n")
    if tls_endpoint is not None:
        sys.stdout.write(f"{READY_BY_TLS}{tls_endpoint}\n")
    sys.stdout.flush()


def _unreadable(tls: Tls) -> str:
    """Say what is wrong with the files of `--tls`; nothing if they can be used."""
    try:
        tls.context()
    except OSError as error:
        return f"{tls.certificate} and {tls.key} are no certificate and its key ({error.strerror or error})"
    return ""


def _stop_with_stdin(server: Server) -> None:
    # The parent writes nothing: the read ends when its side of the pipe is closed, even by a crash.
    for _ in iter(partial(os.read, 0, 4096), b""):
        continue
    server.stop()


def _port(given: str) -> int:
    if (
        # isdigit alone takes digits of all scripts, and int refuses some of them (and numbers of thousands
        # of digits).
        not (given.isascii() and given.isdigit())
        or len(given) > len(str(_LARGEST_PORT))
        or int(given) > _LARGEST_PORT
    ):
        raise argparse.ArgumentTypeError(f"{given[:40]!r} is no port; allowed: 0 to {_LARGEST_PORT}")
    return int(given)


def _seconds(given: str) -> float:
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _LONGEST:
        raise argparse.ArgumentTypeError(
            f"{given[:40]!r} is no duration; allowed: seconds, such as 0.5, up to {_LONGEST}"
        )
    return seconds


def _region(given: str) -> str:
    if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-[0-9]+", given):
        raise argparse.ArgumentTypeError(f"{given[:40]!r} is no region such as {_REGION}")
    return given


if __name__ == "__main__":
    raise SystemExit(main())
