"""`headrace doctor`: whether this host, this project, its settings and its application are as Headrace needs them, and
what to do where they aren't."""

import argparse
import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from headrace.pipeline.cli.iam import ROLES
from headrace.pipeline.cli.options import add_config
from headrace.pipeline.cli.telling import tell
from headrace.pipeline.cli.views.json_output import add_json, print_json
from headrace.pipeline.settings.arguments import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.doctor.case import Case
    from headrace.pipeline.doctor.diagnosis import Diagnosis

_DONE, _NEEDS_A_PERSON = 0, 2


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "doctor",
        description="Check the settings, the installed versions, Java, Spark and Dagster on this host, and then in AWS "
        "the clock, the rights, the coordination tables, workers and leader, leases and shards, and the lake table. "
        "Each line says what was found and what to do. The command changes nothing: rights to write are tried by writes "
        "whose condition never holds. The exit code is 2 if a person has to change something.",
    )
    add_config(parser)
    parser.add_argument("--offline", action="store_true", help="ask AWS nothing: check this host only")
    parser.add_argument(
        "--for",
        dest="watch",
        metavar="TIME",
        type=duration,
        help="watch the workers and the leader this long (30s): only then a dead one is told from a living one",
    )
    parser.add_argument(
        "--role",
        action="append",
        choices=ROLES,
        help="try the rights of this role (default: leader and worker); may be given several times",
    )
    parser.add_argument(
        "--spark", action="store_true", help="start a session on each worker's Spark, and run a task there"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.doctor.case import DUTIES, Case
    from headrace.pipeline.doctor.diagnosis import Health
    from headrace.pipeline.iam.roles import Role

    case = replace(
        Case.of(args.config, os.environ),
        roles=tuple(map(Role, args.role)) if args.role else DUTIES,
        watch=args.watch,
        tries_spark=args.spark,
    )
    if args.spark:
        from headrace.pipeline.cli.beside.services import join_spark

        join_spark(case.file)
    diagnoses = []
    for diagnosis in _diagnoses(case, offline=args.offline):
        diagnoses.append(diagnosis)
        if not args.json:
            tell(diagnosis)
    if args.json:
        print_json({"checks": [asdict(diagnosis) for diagnosis in diagnoses]})
    is_ill = any(diagnosis.health is Health.ILL for diagnosis in diagnoses)
    return _NEEDS_A_PERSON if is_ill else _DONE


def _diagnoses(case: "Case", *, offline: bool) -> "Iterator[Diagnosis]":
    from headrace.pipeline.app.wiring import wire
    from headrace.pipeline.doctor.case import LiveCase
    from headrace.pipeline.doctor.checks import diagnoses_of, live_diagnoses_of

    yield from diagnoses_of(case)
    if case.settings is None or offline:
        return
    ports = wire(case.settings).ports
    try:
        yield from live_diagnoses_of(LiveCase(case, case.settings, ports))
    finally:
        ports.close()
