"""`headrace doctor`: whether this host, this project and its settings are as Headrace needs them, and what to
do where they aren't."""

import argparse
import os
from dataclasses import asdict
from typing import TYPE_CHECKING

from headrace.pipeline.cli.json_output import add_json, print_json
from headrace.pipeline.cli.options import add_config
from headrace.pipeline.cli.telling import tell

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers

_DONE, _NEEDS_A_PERSON = 0, 2


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "doctor",
        description="Check whether the settings can be read, whether Java is found, and which local Spark servers "
        "run on this host. Each line says what to do. The command changes nothing, "
        "and asks AWS nothing. The exit code is 2 if a person has to change something first.",
    )
    add_config(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.doctor.case import Case
    from headrace.pipeline.doctor.checks import diagnoses_of
    from headrace.pipeline.doctor.diagnosis import Health

    diagnoses = list(diagnoses_of(Case.of(args.config, os.environ)))
    if args.json:
        print_json({"checks": [asdict(diagnosis) for diagnosis in diagnoses]})
    else:
        tell(*diagnoses)
    is_ill = any(diagnosis.health is Health.ILL for diagnosis in diagnoses)
    return _NEEDS_A_PERSON if is_ill else _DONE
