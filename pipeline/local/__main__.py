"""`python -m headrace.pipeline.local`, which is what `headrace local` runs."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from functools import partial

from headrace.pipeline.local.endpoint import READY
from headrace.pipeline.local.kinesis_region import Options
from headrace.pipeline.local.server import Server, run_until_signal

_LARGEST_PORT = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
    parser.add_argument(
        "--port", type=_port, default=4567, help="port on 127.0.0.1; 0 chooses a free one (default: 4567)"
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
        "--while-stdin",
        action="store_true",
        help="stop when standard input ends, as it does when the parent process ends",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    server = Server(
        args.port, options=Options(throttle=args.throttle, transition=args.transition), seed=args.seed
    )

    def ready() -> None:
        _announce(server.endpoint)
        if args.while_stdin:
            threading.Thread(target=_stop_with_stdin, args=(server,), daemon=True).start()

    try:
        asyncio.run(run_until_signal(server, ready))
    except OSError as error:
        sys.stderr.write(f"headrace local: port {args.port}: {error.strerror or error}\n")
        return 1
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the arguments, and serve."""
    parser = argparse.ArgumentParser(
        prog="headrace local", description="A simulator of Kinesis, beside moto's AWS."
    )
    add_arguments(parser)
    return run(parser.parse_args(argv))


def _announce(endpoint: str) -> None:
    # boto3 reads AWS_DEFAULT_REGION only, other SDKs AWS_REGION only.
    settings = (
        f"AWS_ENDPOINT_URL={endpoint} AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=local "
        "AWS_SECRET_ACCESS_KEY=local"
    )
    sys.stdout.write(f"{READY}{endpoint}   (export {settings})\n")
    sys.stdout.flush()


def _stop_with_stdin(server: Server) -> None:
    for _ in iter(partial(os.read, 0, 4096), b""):
        continue
    server.stop()


def _port(given: str) -> int:
    port = int(given)
    if not 0 <= port <= _LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"{given} is no port")
    return port


def _seconds(given: str) -> float:
    seconds = float(given)
    if not seconds >= 0:
        raise argparse.ArgumentTypeError(f"{given} is no duration")
    return seconds


if __name__ == "__main__":
    raise SystemExit(main())
