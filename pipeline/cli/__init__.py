"""The `headrace` command.

A subcommand is a module here with `add(subparsers)`, which describes its arguments, and `run(args) -> int`,
and one line in `COMMANDS`. Only the module of the command that was asked for is imported, and what is heavy
(Dagster, boto3, pyspark, pyiceberg) only inside its `run`, so that help and mistakes answer at once.

Exit codes: 0 done, 2 a person or a setting has to change something first, 75 try again later (EX_TEMPFAIL),
130 interrupted, 141 nobody reads the output any more; 1 is an answer of `consume`, `demo` and `status --strict`.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from pipeline.cli.telling import tell, tell_aside
from pipeline.errors import HeadraceError, Transient

COMMANDS = {
    "adopt": "take over a stopped KCL application where its workers stand",
    "config": "print the settings and where each came from",
    "consume": "read shards to their tip, without Dagster",
    "demo": "a stream, two workers and two reshards on this machine, and a summary to trust",
    "dev": "run Dagster on these settings",
    "give-back": "let KCL's workers read on where the lake table stands",
    "lineage": "tell which records of which shard went into which snapshot",
    "local": "run the AWS stand-in for development and tests",
    "plan": "print what the leader would do now",
    "repair": "rebuild the landing table's positions after others have cut its history",
    "reposition": "say which is right where a lease row and the landing table disagree",
    "skip": "pass over records of a shard, and record the gap",
    "status": "tell who reads what, of this or any KCL application",
    "stop": "stop workers cleanly: their leases are given up",
    "tables": "create, describe or delete the coordination tables",
}
"""Name -> line in the help. `a-name` lives in `pipeline.cli.a_name`."""

DONE, STOPPED, TRY_LATER, INTERRUPTED, OUTPUT_CLOSED = 0, 2, 75, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = arguments[0] if arguments and arguments[0] in COMMANDS else None
    try:
        parser = _parser(command)
        args = parser.parse_args(arguments)
        if command is None:
            parser.print_help(sys.stderr)
            return STOPPED
        code = int(import_module(f"pipeline.cli.{_module(command)}").run(args))
        sys.stdout.flush()
    except HeadraceError as error:
        tell_aside(f"headrace: {' '.join(str(error).split())}")
        return TRY_LATER if isinstance(error, Transient) else STOPPED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        unheard()
        return OUTPUT_CLOSED
    return code


def unheard() -> None:
    """Whoever read our output has left, as `| head` does. Python would complain once more when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser(command: str | None) -> argparse.ArgumentParser:
    """The whole command line's names, with the arguments of one command."""
    parser = argparse.ArgumentParser(
        prog="headrace", description="Amazon Kinesis streams into Iceberg tables, every record exactly once."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    subparsers = parser.add_subparsers(metavar="command", dest="command")
    for name, line in COMMANDS.items():
        if name == command:
            import_module(f"pipeline.cli.{_module(name)}").add(subparsers)
        else:
            subparsers.add_parser(name, help=line)
    return parser


class _Version(argparse.Action):
    """argparse's own wants the text beforehand, and reading package metadata takes a while."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            tell(f"headrace {version('headrace')}")
        except PackageNotFoundError:
            tell("headrace (not installed: running from its source)")
        parser.exit()


def _module(command: str) -> str:
    return command.replace("-", "_")
