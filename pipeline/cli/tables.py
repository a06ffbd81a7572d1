"""`headrace tables create|describe|delete`: the coordination tables in DynamoDB."""

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from pipeline.cli.options import add_config, load
from pipeline.cli.telling import tell, tell_aside
from pipeline.core.words import counted

if TYPE_CHECKING:
    from pipeline.aws.table_facts import TableFacts
    from pipeline.cli.options import Subparsers
    from pipeline.settings import Settings


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser("tables", description="The coordination tables in DynamoDB.")
    actions = parser.add_subparsers(metavar="action", required=True)
    create = actions.add_parser("create", help="create what is missing, whatever coordination.create says")
    create.set_defaults(act=_create)
    describe = actions.add_parser("describe", help="print what is there")
    describe.add_argument("--json", action="store_true", help="as JSON")
    describe.set_defaults(act=_describe)
    delete = actions.add_parser("delete", help="delete them; the records in the lake stay")
    delete.add_argument(
        "--application",
        metavar="NAME",
        help="the application's name, for who isn't there to be asked for it",
    )
    delete.add_argument(
        "--even-if-in-use", action="store_true", help="also while a worker beats or the lock is held"
    )
    delete.set_defaults(act=_delete)
    for action in (create, describe, delete):
        add_config(action)


def run(args: argparse.Namespace) -> int:
    args.act(load(args).settings, args)
    return 0


def _create(settings: "Settings", _: argparse.Namespace) -> None:
    from pipeline.aws.clients import dynamodb_client
    from pipeline.aws.tables import DynamoTables

    made = DynamoTables(dynamodb_client(settings.aws), settings, progress=_progress).create()
    tell("the tables were created" if made else "the tables are there already: nothing was created")


def _describe(settings: "Settings", args: argparse.Namespace) -> None:
    from pipeline.aws.clients import dynamodb_client
    from pipeline.aws.tables import DynamoTables

    tables = DynamoTables(dynamodb_client(settings.aws), settings)
    found = tables.describe()
    if args.json:
        print(json.dumps([asdict(table) for table in found], indent=2))
        return
    tell(*map(_line, found))
    arranged = tables.arrangement()
    kinds = {"M": "three tables", "S": "one table"}
    is_there = any(table.status for table in found)
    state = f"table migration {arranged.status}" if is_there else "as they would be made"
    tell(f"layout {arranged.layout}, {kinds[arranged.layout]} ({state})")


def _delete(settings: "Settings", args: argparse.Namespace) -> None:
    from pipeline.aws.clients import dynamodb_client
    from pipeline.aws.table_deleting import TableDeletion

    deletion = TableDeletion(dynamodb_client(settings.aws), settings, progress=_progress)
    names = deletion.tables()
    if not names:
        tell("there are no tables: nothing was deleted")
        return
    _require_name(settings.application, args.application, names)
    if not args.even_if_in_use:
        deletion.refuse_if_in_use()
    tell(f"deleted: {', '.join(deletion.delete())}")
    tell(
        "the lake table and its positions are as they were: the next start makes the tables again from them and goes "
        "on there"
    )


def _require_name(application: str, said: str | None, names: tuple[str, ...]) -> None:
    from pipeline.errors import BadSetting

    if said is None:
        _progress(
            f"this deletes {', '.join(names)}, and nothing in the lake. To go on, type the application's name:"
        )
        try:
            said = input().strip()
        except EOFError:
            raise BadSetting(
                "nobody is there to type the application's name. Nothing was deleted; name it by --application"
            ) from None
    if said != application:
        raise BadSetting(
            f"the application is {application!r}, not {said!r}. Nothing was deleted; say the name as the settings have it"
        )


def _line(table: "TableFacts") -> str:
    if table.status is None:
        return f"{table.name}: not there (`headrace tables create` makes what the layout needs)"
    index = f", owner index {table.index}" if table.index else ""
    protected = ", protected from deletion" if table.protected else ""
    rows = f"{counted(table.rows or 0, 'row')} when DynamoDB last counted (every six hours)"
    return f"{table.name}: {table.status}, {rows}, {table.billing}{index}{protected}"


def _progress(sentence: str) -> None:
    tell_aside(sentence)
