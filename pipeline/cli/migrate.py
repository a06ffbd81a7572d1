"""`headrace migrate`: KCL's two migrations, from 2.x to 3.x and from three tables to one, step by step."""

import argparse
from collections.abc import Callable
from datetime import timedelta
from time import sleep
from typing import TYPE_CHECKING, Any, Final

from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.cli.views.json_output import print_json
from headrace.pipeline.inspect.command import add_table_names, place_arguments, table_names_in
from headrace.pipeline.settings.arguments import duration

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.migrate.migrating import Migrating
    from headrace.pipeline.migrate.steps import Goal, Plan, Request
    from headrace.pipeline.settings.model import Settings

_BAKE: Final = timedelta(days=1)
_ACTIONS: Final = {
    "status": "tell how far both migrations are, and what they wait for",
    "start": "begin a migration, or take its next step",
    "rollback": "go back, as far as the migration has a way back",
    "roll-forward": "begin again after a rollback",
    "finish": "make a migration final; after a rollback, remove what keeps KCL 2.x from starting",
}


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "migrate",
        description="Drive KCL's migrations: from 2.x to 3.x, and from three coordination tables to one. Each call plans the "
        "next step, and with --yes writes it. A call that was killed does no harm: the next one goes on.",
    )
    actions = parser.add_subparsers(metavar="|".join(_ACTIONS), dest="action", required=True)
    for name, line in _ACTIONS.items():
        action = actions.add_parser(name, help=line)
        if name == "start":
            action.add_argument("goal", choices=["3.x", "one-table"], help="which migration")
        add_config(action)
        add_table_names(action, table_is_required=False)
        action.add_argument("--json", action="store_true", help="print the answer as JSON")
        if name != "status":
            action.add_argument(
                "--yes", action="store_true", help="write it; without this the plan is only shown"
            )
        if name == "finish":
            action.add_argument(
                "--bake",
                metavar="TIME",
                type=duration,
                default=_BAKE,
                help="how long the fleet has to have worked in the new way (default: 1d)",
            )


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.clock import SystemClock
    from headrace.pipeline.migrate.dynamo import DynamoMigrationTables
    from headrace.pipeline.migrate.migrating import Migrating

    settings, client, names = _application(args)
    tables = DynamoMigrationTables(
        client=client,
        lease_table=names.lease_table,
        worker_table=names.worker_table,
        state_table=names.state_table,
        clock=SystemClock(),
    )
    return migrate(Migrating(tables), settings, args, pause=sleep)


def migrate(
    migrating: "Migrating",
    settings: "Settings | None",
    args: argparse.Namespace,
    *,
    pause: Callable[[float], None],
) -> int:
    if args.action == "status":
        sentences = migrating.status()
        if args.json:
            print_json({"status": list(sentences)})
        else:
            tell(*sentences)
        return 0
    request = _request(args, settings)
    plan = migrating.plan(request, _goal(args))
    if args.json:
        print_json(
            {
                "plan": list(plan.sentences),
                "steps": [type(step).__name__ for step in plan.steps],
                "next": plan.after,
            }
        )
    else:
        tell(*plan.sentences)
    # With --json only the plan goes to standard output, which a script reads.
    say = tell_aside if args.json else tell
    # The plan alone by default: some steps have no way back, and KCL's workers act on them within
    # 90 s.
    if plan.steps and not args.yes:
        tell_aside("nothing was changed: add --yes to write it")
        return 0
    if plan.steps:
        migrating.carry_out(plan)
        say("written")
        _wait_after_rollback(migrating, request, plan, pause)
    if plan.after and not args.json:
        tell(f"next: {plan.after}")
    return 0


def _wait_after_rollback(
    migrating: "Migrating", request: "Request", plan: "Plan", pause: Callable[[float], None]
) -> None:
    from headrace.pipeline.migrate.migrating import is_rollback

    if not is_rollback(plan):
        return
    more = migrating.finish_rollback(request, tell_aside, pause)
    if more is not None:
        migrating.carry_out(more)
        tell_aside(*more.sentences, "written")


def _request(args: argparse.Namespace, settings: "Settings | None") -> "Request":
    from headrace.pipeline.migrate.steps import Action, Request
    from headrace.pipeline.settings.choices import Layout, Mode

    return Request(
        action=Action(args.action),
        bake=getattr(args, "bake", _BAKE),
        # Without settings (`--table`) nothing tells how Headrace's workers were started, so that
        # they count as not following.
        follows=settings is not None and settings.kcl.mode is Mode.MIGRATING,
        layout_is_fixed=settings is not None and settings.kcl.layout is Layout.M,
    )


def _goal(args: argparse.Namespace) -> "Goal | None":
    from headrace.pipeline.migrate.steps import Goal

    goal = getattr(args, "goal", None)
    return None if goal is None else Goal(goal)


def _application(args: argparse.Namespace) -> tuple["Settings | None", Any, Any]:
    """The settings, if there are any, DynamoDB's client, and the names of the tables."""
    from dataclasses import replace

    from headrace.pipeline.aws.clients.clients import dynamodb_client
    from headrace.pipeline.inspect.read import TableNames
    from headrace.pipeline.settings.blocks.aws import AwsSettings

    place = place_arguments(args)
    if args.table is not None:
        return None, dynamodb_client(AwsSettings(**place)), table_names_in(args)
    settings = load(args).settings
    names = TableNames(
        lease_table=settings.lease_table,
        worker_table=settings.worker_table,
        state_table=settings.state_table,
    )
    return settings, dynamodb_client(replace(settings.aws, **place)), names
