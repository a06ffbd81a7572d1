"""`headrace status`: what the coordination tables of an application tell, ours or any KCL application's."""

import argparse
import csv
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from pipeline.cli.options import add_config, duration, load
from pipeline.cli.telling import tell, tell_aside

if TYPE_CHECKING:
    from pipeline.aws.observing import Names, Observer
    from pipeline.cli.options import Subparsers
    from pipeline.core.observation import Observation
    from pipeline.settings import AwsSettings

NEEDS_A_PERSON = 1


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "status",
        description="Who reads what, by the coordination tables: of the settings' application, or with --table of any KCL "
        "application (2.x to 3.5), without settings. Nothing is written.",
    )
    add_config(parser)
    parser.add_argument(
        "--table", metavar="NAME", help="the lease table of any KCL application; needs no settings"
    )
    parser.add_argument(
        "--worker-table", metavar="NAME", help="with --table (default: NAME-WorkerMetricStats)"
    )
    parser.add_argument("--state-table", metavar="NAME", help="with --table (default: NAME-CoordinatorState)")
    for name in ("region", "profile", "endpoint"):
        parser.add_argument(f"--{name}", help="default: the settings', or AWS's own environment")
    parser.add_argument(
        "--for",
        dest="period",
        metavar="TIME",
        type=duration,
        help="look twice, this long apart (30s, 2m): only so it shows who is alive",
    )
    parser.add_argument(
        "--cluster-by",
        metavar="REGEX",
        type=_pattern,
        default="^[^-]*",
        help="what of a worker's id is its cluster: the first group, else the match (default: what precedes the first -)",
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="everything, as JSON")
    shape.add_argument("--csv", action="store_true", help="one line a lease, as CSV")
    parser.add_argument("--strict", action="store_true", help="exit 1 when something needs a person")


def run(args: argparse.Namespace) -> int:
    from pipeline.aws.clients import dynamodb_client
    from pipeline.aws.observing import Observer
    from pipeline.clock import SystemClock
    from pipeline.core.observe_findings import findings_of

    names, aws = _target(args)
    observer = Observer(dynamodb_client(aws), names, clock=SystemClock(), progress=_progress)
    seen = look(observer, args.period, cluster_by=args.cluster_by)
    findings = findings_of(seen)
    if args.json:
        from pipeline.cli.status_json import document

        print(json.dumps(document(seen, findings, cluster_by=args.cluster_by), indent=2))
    elif args.csv:
        _write_csv(seen, args.cluster_by)
    else:
        from pipeline.cli.status_text import lines

        tell(*lines(seen, findings))
    return NEEDS_A_PERSON if args.strict and any(finding.needs_person for finding in findings) else 0


def look(
    observer: "Observer",
    period: timedelta | None,
    *,
    cluster_by: re.Pattern[str],
    pause: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> "Observation":
    """One look, or two with `period` between them."""
    from pipeline.core.observe import observe
    from pipeline.core.words import counted

    first = observer.look()
    if period is None:
        return observe(first, cluster_by=cluster_by)
    began = monotonic()
    _progress(f"{counted(len(first.leases), 'lease')} seen; looking again in {period.total_seconds():.0f} s")
    pause(period.total_seconds())
    watched = timedelta(seconds=monotonic() - began)
    return observe(first, observer.look(), watched=watched, cluster_by=cluster_by)


def _target(args: argparse.Namespace) -> tuple["Names", "AwsSettings"]:
    from pipeline.aws.observing import Names, names_of
    from pipeline.settings import AwsSettings

    given = {name: value for name in ("region", "profile", "endpoint") if (value := getattr(args, name))}
    if args.table is not None:
        names = names_of(args.table, worker_table=args.worker_table, state_table=args.state_table)
        return names, AwsSettings(**given)
    settings = load(args).settings
    names = Names(
        lease_table=settings.lease_table,
        worker_table=args.worker_table or settings.worker_table,
        state_table=args.state_table or settings.state_table,
    )
    return names, replace(settings.aws, **given)


def _write_csv(seen: "Observation", cluster_by: re.Pattern[str]) -> None:
    from pipeline.core.observe_rows import COLUMNS, rows_of

    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    out.writerows(rows_of(seen, cluster_by=cluster_by))


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a regular expression: {error}") from error


def _progress(sentence: str) -> None:
    tell_aside(sentence)
