"""`headrace status`: `headrace.pipeline.inspect` on the tables that the settings name, or on those of any KCL application."""

import argparse
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.inspect.command import add_arguments, answer, names_of, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.inspect.finding import Finding
    from headrace.pipeline.inspect.observation import Observation
    from headrace.pipeline.settings.model import Settings


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "status",
        description="Show which worker reads which shard, from the coordination tables: those of the application in the settings or, "
        "with --table, those of any KCL application (2.x to 3.5), for which no settings are needed. The command writes nothing.",
    )
    add_config(parser)
    add_arguments(parser, table_is_required=False)


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.inspect.read import TableNames
    from headrace.pipeline.settings.model import AwsSettings

    if args.table is not None:
        return answer(args, names_of(args), AwsSettings(**place_of(args)))
    settings = load(args).settings
    names = TableNames(
        lease_table=settings.lease_table,
        worker_table=args.worker_table or settings.worker_table,
        state_table=args.state_table or settings.state_table,
    )
    return answer(args, names, replace(settings.aws, **place_of(args)), judge=partial(_forms, settings))


def _forms(settings: "Settings", seen: "Observation") -> "Iterator[Finding]":
    """Lease rows whose keys don't have the form of `streams_mode`."""
    from headrace.pipeline.core.lease_form import COMMAND, of_other_form, why_other_mode
    from headrace.pipeline.core.words import counted
    from headrace.pipeline.inspect.finding import Finding

    others = of_other_form(seen.last.leases, multi=settings.multi)
    if not others:
        return
    names = tuple(row.key for row in others)
    if (why := why_other_mode(seen.last.leases, multi=settings.multi)) is not None:
        yield Finding("other-mode", why, needs_person=True, names=names)
        return
    yield Finding(
        "rows-left-over",
        f"{counted(len(others), 'lease row')} ({names[0]}{', ...' if len(names) > 1 else ''}) in the form of another streams_mode than "
        f"{settings.streams_mode}: nobody reads by them, and `{COMMAND}` removes them",
        needs_person=True,
        names=names,
    )
