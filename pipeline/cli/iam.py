"""`headrace iam`: the rights that a part of Headrace needs from AWS, as a policy of IAM."""

import argparse
import json
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.telling import tell

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers

ROLES = ("leader", "worker", "spark", "upkeep", "reader", "migrate")


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "iam",
        description="Print the policy of IAM that a part of Headrace needs: the actions that it calls, on the streams, "
        "tables and folders of the settings, and nothing else. Several roles are printed as one policy, for a process "
        "that has the duties of all of them. The command asks AWS nothing.",
    )
    add_config(parser)
    parser.add_argument(
        "--role",
        action="append",
        required=True,
        choices=ROLES,
        help="leader: the leader's sensor. worker: the workers' sensors, runs, and commands that land or parse. "
        "spark: Spark's tasks. upkeep: the upkeep job. reader: what only looks. migrate: `headrace migrate`. May be given several times",
    )
    parser.add_argument(
        "--account",
        metavar="NUMBER",
        type=_account,
        help="the AWS account of the tables and streams (default: that of a stream's ARN in the settings)",
    )
    parser.add_argument("--region", help="the AWS region (default: aws.region of the settings)")


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.iam.places import ApplicationArns, account_of
    from headrace.pipeline.iam.policy import role_policy
    from headrace.pipeline.iam.roles import Role

    settings = load(args).settings
    account = account_of(settings, number=args.account, region=args.region)
    policy = role_policy(map(Role, args.role), ApplicationArns(settings, account))
    tell(*json.dumps(policy, indent=2).splitlines())
    return 0


def _account(text: str) -> str:
    if not (text.isascii() and text.isdigit() and len(text) == 12):
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} isn't the number of an AWS account, which has twelve digits"
        )
    return text
