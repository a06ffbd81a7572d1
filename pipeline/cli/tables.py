"""`headrace tables create|describe`: the coordination tables in DynamoDB."""

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from pipeline.cli.options import add_config, load

if TYPE_CHECKING:
    from pipeline.aws.tables import DynamoTables, TableFacts
    from pipeline.cli.options import Subparsers


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser("tables", description="The coordination tables in DynamoDB.")
    actions = parser.add_subparsers(metavar="action", required=True)
    create = actions.add_parser("create", help="create what is missing, whatever coordination.create says")
    create.set_defaults(act=_create)
    describe = actions.add_parser("describe", help="print what is there")
    describe.add_argument("--json", action="store_true", help="as JSON")
    describe.set_defaults(act=_describe)
    for action in (create, describe):
        add_config(action)


def run(args: argparse.Namespace) -> int:
    from pipeline.aws.clients import dynamodb_client
    from pipeline.aws.tables import DynamoTables

    settings = load(args).settings
    args.act(DynamoTables(dynamodb_client(settings.aws), settings, progress=_progress), args)
    return 0


def _create(tables: "DynamoTables", _: argparse.Namespace) -> None:
    made = tables.create()
    print("the tables were created" if made else "the tables are there already: nothing was created")


def _describe(tables: "DynamoTables", args: argparse.Namespace) -> None:
    found = tables.describe()
    if args.json:
        print(json.dumps([asdict(table) for table in found], indent=2))
    else:
        print(*map(_line, found), sep="\n")


def _line(table: "TableFacts") -> str:
    if table.status is None:
        return f"{table.name}: not there (`headrace tables create` makes it)"
    index = f", owner index {table.index}" if table.index else ""
    return f"{table.name}: {table.status}, {table.rows} rows some hours ago, {table.billing}{index}"


def _progress(sentence: str) -> None:
    print(sentence, file=sys.stderr)
