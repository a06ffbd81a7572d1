"""The arguments and the answer that `python -m headrace.pipeline.inspect` and `headrace status` share.

Slow imports stand inside functions, so that help and messages about mistyped arguments appear at once.
"""

import argparse
import json
import re
import sys
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from headrace.pipeline.core.words.words import clean
from headrace.pipeline.settings.arguments import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from headrace.pipeline.inspect.finding import Finding
    from headrace.pipeline.inspect.observation import Observation
    from headrace.pipeline.inspect.read import TableNames
    from headrace.pipeline.settings.blocks.aws import AwsSettings

_NEEDS_A_PERSON: Final = 1
_PLACE: Final = ("region", "profile", "endpoint")


def add_table_arguments(parser: argparse.ArgumentParser, *, table_is_required: bool) -> None:
    """Add the arguments that say which application is looked at, and where its tables are."""
    add_table_names(parser, table_is_required=table_is_required)
    parser.add_argument(
        "--cluster-by",
        metavar="REGEX",
        type=_pattern,
        default="^[^-]*",
        help="regular expression whose first group, else whole match, is the name of a worker's cluster "
        "within its id (default: the part before the first -)",
    )


def add_table_names(parser: argparse.ArgumentParser, *, table_is_required: bool) -> None:
    """Add the arguments for the names of an application's tables, and for the AWS region, profile and endpoint."""
    parser.add_argument(
        "--table",
        metavar="NAME",
        type=_table,
        required=table_is_required,
        help="the lease table of any KCL application; no settings are needed then",
    )
    parser.add_argument(
        "--worker-table",
        metavar="NAME",
        type=_table,
        help="with --table: the table of the workers' rows (default: NAME-WorkerMetricStats)",
    )
    parser.add_argument(
        "--state-table",
        metavar="NAME",
        type=_table,
        help="with --table: the table of the leader's lock (default: NAME-CoordinatorState)",
    )
    default = "AWS's own environment" if table_is_required else "the settings, else AWS's own environment"
    for name in _PLACE:
        parser.add_argument(f"--{name}", help=f"AWS {name} (default: from {default})")


def add_inspect_arguments(parser: argparse.ArgumentParser, *, table_is_required: bool) -> None:
    add_table_arguments(parser, table_is_required=table_is_required)
    parser.add_argument(
        "--for",
        dest="period",
        metavar="TIME",
        type=duration,
        help="read the tables twice, this long apart (30s, 2m): "
        "only what changed in between shows which workers are alive",
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print everything as JSON")
    shape.add_argument("--csv", action="store_true", help="print CSV with one line for each lease")
    parser.add_argument(
        "--max-behind",
        metavar="TIME",
        type=duration,
        help="exit with 1 and a sentence when a shard is further behind than this (10m), or its row doesn't tell",
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 when something needs a person")


def place_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """The AWS settings with the region, profile and endpoint that the arguments give."""
    return {name: value for name in _PLACE if (value := getattr(args, name))}


def table_names_in(args: argparse.Namespace) -> "TableNames":
    """The tables of the application that `--table` names."""
    from headrace.pipeline.inspect.read import TableNames

    return TableNames.of(args.table, worker_table=args.worker_table, state_table=args.state_table)


def answer(
    args: argparse.Namespace,
    names: "TableNames",
    aws: "AwsSettings",
    *,
    judge: "Callable[[Observation], Iterable[Finding]]" = lambda _: (),
    lines: "Sequence[str]" = (),
    facts: "Mapping[str, object]" = MappingProxyType({}),
) -> int:
    """Read the tables, print what they show, and return the exit code.

    `judge`: further findings, for which the settings are needed. `lines` and `facts`: what is shown besides the
    tables: for people, before the conclusion, and in the JSON.
    """
    # Imported here, after the arguments were understood, because boto3 takes a second to import.
    from headrace.pipeline.aws.clients.clients import dynamodb_client
    from headrace.pipeline.inspect.as_csv import write_csv
    from headrace.pipeline.inspect.as_json import document_of
    from headrace.pipeline.inspect.as_text import observation_text
    from headrace.pipeline.inspect.findings import findings_of
    from headrace.pipeline.inspect.looking import look_at_tables

    client = dynamodb_client(aws)
    observation = look_at_tables(
        client, names, watch=args.period, cluster_by=args.cluster_by, progress=_tell_progress
    )
    observation = replace(observation, also=tuple(judge(observation)))
    if args.json:
        print(json.dumps({**document_of(observation), **facts}, indent=2))
    elif args.csv:
        write_csv(observation, sys.stdout)
    else:
        *report, blank, conclusion = observation_text(observation)
        also = (blank, *map(clean, lines)) if lines else ()
        print(*report, *also, blank, conclusion, sep="\n", flush=True)
    if args.max_behind is not None and _is_behind(observation, args):
        return _NEEDS_A_PERSON
    is_urgent = any(finding.needs_person for finding in findings_of(observation))
    return _NEEDS_A_PERSON if args.strict and is_urgent else 0


def _is_behind(observation: "Observation", args: argparse.Namespace) -> bool:
    from headrace.pipeline.inspect.progress import progress_of, too_far_behind
    from headrace.pipeline.inspect.telling import in_words

    sentence = too_far_behind(observation, progress_of(observation), args.max_behind)
    # JSON and CSV on standard output stay whole.
    aside = sys.stderr if args.json or args.csv else sys.stdout
    within = (
        f"{observation.last.tables.lease_table}: no shard is more than {in_words(args.max_behind)} behind"
    )
    print(clean(sentence or within), file=aside, flush=True)
    return sentence is not None


def _tell_progress(sentence: str) -> None:
    """Print a sentence on standard error, because a pipe may be reading the answer on standard output."""
    print(sentence, file=sys.stderr, flush=True)


def _table(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{3,255}", text):
        raise argparse.ArgumentTypeError(f"{text[:255]!r} isn't the name of a DynamoDB table")
    return text


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a regular expression: {error}") from error
