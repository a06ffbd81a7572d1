"""`headrace tables create|describe|delete`: the coordination tables in DynamoDB."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.cli.views.json_output import add_json, print_json
from headrace.pipeline.core.words.words import counted

if TYPE_CHECKING:
    from headrace.pipeline.aws.leases.table_facts import TableFacts
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.settings.model import Settings


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "tables", description="Create, describe or delete the coordination tables in DynamoDB."
    )
    actions = parser.add_subparsers(metavar="create|describe|delete", required=True)
    create = actions.add_parser("create", help="create missing tables, whatever coordination.create says")
    create.set_defaults(act=_create)
    describe = actions.add_parser("describe", help="print the tables that exist")
    add_json(describe)
    describe.set_defaults(act=_describe)
    delete = actions.add_parser("delete", help="delete the tables; the records in the lake stay")
    delete.add_argument(
        "--application",
        metavar="NAME",
        help="the application's name, as a confirmation; without it the command asks for the name on the terminal",
    )
    delete.add_argument(
        "--even-if-in-use",
        action="store_true",
        help="delete the tables also while a worker beats or the leader's lock is held",
    )
    delete.set_defaults(act=_delete)
    for action in (create, describe, delete):
        add_config(action)


def run(args: argparse.Namespace) -> int:
    args.act(load(args).settings, args)
    return 0


def _create(settings: "Settings", _: argparse.Namespace) -> None:
    from headrace.pipeline.aws.clients.clients import dynamodb_client
    from headrace.pipeline.aws.leases.tables import DynamoTables

    is_new = DynamoTables(dynamodb_client(settings.aws), settings, progress=tell_aside).create()
    tell("the tables were created" if is_new else "the tables exist already: nothing was created")


def _describe(settings: "Settings", args: argparse.Namespace) -> None:
    from headrace.pipeline.aws.clients.clients import dynamodb_client
    from headrace.pipeline.aws.leases.tables import DynamoTables

    tables = DynamoTables(dynamodb_client(settings.aws), settings)
    tables_found = tables.describe()
    if args.json:
        print_json({"tables": [asdict(table) for table in tables_found]})
        return
    tell(*map(_line, tables_found))
    arranged = tables.arrangement()
    kinds = {"M": "three tables", "S": "one table"}
    exists = any(table.status for table in tables_found)
    state = f"table migration {arranged.status}" if exists else "as they would be created"
    tell(f"layout {arranged.layout}, {kinds[arranged.layout]} ({state})")


def _delete(settings: "Settings", args: argparse.Namespace) -> None:
    from headrace.pipeline.aws.clients.clients import dynamodb_client
    from headrace.pipeline.aws.leases.table_deleting import TableDeletion

    deletion = TableDeletion(dynamodb_client(settings.aws), settings, progress=tell_aside)
    names = deletion.tables()
    if not names:
        tell("there are no tables: nothing was deleted")
        return
    # The name, typed or given, because a "yes" is typed too easily in the wrong folder.
    _require_name(settings.application, args.application, names)
    if not args.even_if_in_use:
        deletion.refuse_if_in_use()
    tell(f"deleted: {', '.join(deletion.delete())}")
    tell(
        "the lake table and its positions are as they were: "
        "the next start creates the coordination tables again and goes on at these positions"
    )


def _require_name(application: str, given: str | None, names: tuple[str, ...]) -> None:
    from headrace.pipeline.errors import BadSetting

    if given is None:
        tell_aside(
            f"this deletes {', '.join(names)}, and nothing in the lake. To go on, type the application's name:"
        )
        try:
            given = input().strip()
        # Standard input has ended, as in a job without a terminal.
        except EOFError:
            raise BadSetting(
                "there is no terminal to type the application's name on. Nothing was deleted; "
                "give the name with --application"
            ) from None
    if given != application:
        raise BadSetting(
            f"the application is {application!r}, not {given!r}. Nothing was deleted; "
            "give the name as it stands in the settings"
        )


def _line(table: "TableFacts") -> str:
    if table.status is None:
        return (
            f"{table.name}: doesn't exist (`headrace tables create` creates the tables that the layout needs)"
        )
    index = f", owner index {table.index}" if table.index else ""
    protected = ", protected from deletion" if table.protected else ""
    rows = f"{counted(table.rows or 0, 'row')} when DynamoDB last counted (every six hours)"
    return f"{table.name}: {table.status}, {rows}, {table.billing}{index}{protected}"
