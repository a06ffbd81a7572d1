"""The `headrace` command.

A subcommand is one line in `COMMANDS` and a module in this package. The module has `add(subparsers)`, which
describes the command's arguments, and `run(args) -> int`, which returns the exit code. Only the module of the
command that the user typed is imported. Heavy packages (Dagster, boto3, pyspark, pyiceberg) are imported
inside `run` only, so that help texts and messages about mistyped arguments appear at once.

Exit codes: 0 done; 2 a person or a setting has to change something first; 75 try again later (EX_TEMPFAIL of
sysexits.h); 130 interrupted by Ctrl-C; 141 the process that read the output has ended. 1 is used by seven
commands only: `consume` when a shard failed, `demo` when the table doesn't match, `health` when the application
isn't well, `lineage --sequence` when no range has the record, `prove` when something is wrong, `shadow` when
both sides differ, `status` with `--strict` when something needs a person, and with `--max-behind` when a shard
is further behind.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from pathlib import Path

import headrace
from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.errors import HeadraceError, ProcessorStopped, Transient, WrongSettings

COMMANDS = {
    "adopt": "take over a stopped KCL application at the positions of its workers",
    "beat": "beat for the workers' leases between their ticks, beside KCL's workers",
    "config": "print each setting and the place that it comes from",
    "console": "serve a web page that shows this or any KCL application as it is now",
    "consume": "read shards up to their newest record, without a run of Dagster's",
    "consumer": "list, register or deregister the consumers of enhanced fan-out",
    "cost": "sum up what the runs of a day have used, and what that costs",
    "demo": "land a stream on this machine through two reshards, and check every record",
    "dev": "run Dagster on this machine with your settings",
    "doctor": "check the settings, this host and the application in AWS, and say what to do",
    "give-back": "hand the leases to KCL's workers, at the positions of the lake table",
    "health": "tell whether the application is well, for scripts and probes",
    "iam": "print the AWS policy that a part of Headrace needs, and no more than that",
    "import": "write settings from the .properties file of KCL's MultiLangDaemon",
    "lineage": "show which records of which shard went into which snapshot",
    "local": "run a local stand-in for AWS, for development and tests",
    "migrate": "drive KCL's migrations: from 2.x to 3.x, and from three tables to one",
    "parse": "bring the typed tables up to the lake table",
    "plan": "show what the leader would change now, without changing it",
    "processor": "let record processors of your own work on what the lake table has",
    "prove": "prove that the lake table holds each record of its ledgers once, or name what it doesn't",
    "redrive": "parse records in quarantine again, with the present settings and code",
    "rekey": "give the lease rows the form of another streams_mode",
    "repair": "rebuild the positions of a lake table whose history was cut",
    "reposition": "decide which is right where a lease row and the lake table disagree",
    "shadow": "compare the lake table with what another consumer made of the same stream, such as a KCL application",
    "skip": "give up records of a shard, and record the gap",
    "status": "show which worker reads which shard, of this or any KCL application",
    "stop": "stop workers cleanly, so that they give up their leases",
    "tables": "create, describe or delete the coordination tables",
    "upkeep": "compact the lake table's files, expire old snapshots, and delete files that nothing names",
    "window": "choose records that have landed, and copy them from the lake table into a table of their own",
}
"""Name of a command -> its line in the help. The module of `give-back` is `headrace.pipeline.cli.give_back`, and that of
`import`, a word of Python's own, is `headrace.pipeline.cli.import_`."""

DOCUMENTS = Path(headrace.__file__).parent / "docs"
"""The folder of the documents, which an installed Headrace has, too."""

# 75 is EX_TEMPFAIL of sysexits.h; 130 and 141 are what a shell tells of a process ended by SIGINT and
# SIGPIPE.
DONE, STOPPED, TRY_LATER, INTERRUPTED, OUTPUT_CLOSED = 0, 2, 75, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = arguments[0] if arguments and arguments[0] in COMMANDS else None
    try:
        parser = _parser(command)
        args = parser.parse_args(arguments)
        if command is None:
            # On standard error: a script that forgot the command must not take the help for an answer.
            parser.print_help(sys.stderr)
            return STOPPED
        code = int(import_module(f"headrace.pipeline.cli.{_module(command)}").run(args))
        # Now, and not when Python ends: a reader that has gone is told here as BrokenPipeError.
        sys.stdout.flush()
    except HeadraceError as error:
        return tell_errors(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return OUTPUT_CLOSED
    return code


def tell_errors(*errors: HeadraceError) -> int:
    """Print the errors on stderr. Returns the exit code, which is that of trying again only if that can help
    with each of them."""
    tell_aside(*(line for error in errors for line in _lines(error)))
    # One error that trying again doesn't mend is enough: a supervisor would try for ever.
    return TRY_LATER if all(isinstance(error, Transient) for error in errors) else STOPPED


def _lines(error: HeadraceError) -> list[str]:
    """WrongSettings has one mistake on each line, and ProcessorStopped the traceback of a user's code. Line breaks in
    other errors come from quoted libraries and mean nothing."""
    text = str(error)
    if isinstance(error, ProcessorStopped):
        return f"headrace: {text}".splitlines()
    lines = text.splitlines() if isinstance(error, WrongSettings) else [text]
    return [f"headrace: {' '.join(line.split())}" for line in lines]


def discard_output() -> None:
    """Send standard output to /dev/null once its reader has ended, as in `headrace ... | head`.

    Otherwise Python flushes standard output when it exits, and prints a second BrokenPipeError.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser(command: str | None) -> argparse.ArgumentParser:
    """A parser that knows the names of all commands, and the arguments of one."""
    parser = argparse.ArgumentParser(
        prog="headrace",
        description="Land Amazon Kinesis streams in Iceberg tables, every record exactly once.",
        epilog="New here: docs/start.md leads through local, dev, lineage, parse, redrive and prove. When something is wrong: "
        "doctor, status.\nComing from KCL: console, status --table, import, adopt, shadow. Each command tells more with "
        "--help.\n"
        f"The documents that messages name, such as docs/use/proof.md, are in {DOCUMENTS.parent}",
        formatter_class=argparse.RawDescriptionHelpFormatter,  # so that the path stays in one piece
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    subparsers = parser.add_subparsers(metavar="command", dest="command")
    for name, line in COMMANDS.items():
        if name == command:
            import_module(f"headrace.pipeline.cli.{_module(name)}").add(subparsers)
        else:
            subparsers.add_parser(name, help=line)
    return parser


class _Version(argparse.Action):
    """Prints the version. argparse's own action wants the text beforehand, and reading package metadata takes
    a while."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            tell(f"headrace {version('headrace')}")
        except PackageNotFoundError:
            tell("headrace (not installed: running from its source)")
        parser.exit()


def _module(command: str) -> str:
    return f"{command.replace('-', '_')}{'_' if iskeyword(command) else ''}"
