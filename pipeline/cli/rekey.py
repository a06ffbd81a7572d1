"""`headrace rekey`: give the lease rows the form of the `streams_mode` in the settings, and remove rows of
the other form."""

import argparse
from collections.abc import Callable, Sequence
from time import sleep
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.plan import change_word
from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.cli.views.json_output import print_json
from headrace.pipeline.core.words.words import cell

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.core.leases.change import Change
    from headrace.pipeline.duties.fleet.rekey import Rekeying


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "rekey",
        description="After a change of streams_mode: give the lease rows the form that the settings ask for, "
        "and remove those that are left over in the other form. The lake table isn't changed, "
        "and its positions stay. Without --yes the command shows what it would write. "
        "Stop the workers first (`headrace stop`). A command that was killed goes on when it is run "
        "again; with the former streams_mode in the settings it goes back, until records of a second "
        "stream have landed.",
    )
    add_config(parser)
    parser.add_argument(
        "--stream",
        metavar="NAME",
        help="the stream that was read with streams_mode: single, where the command asks for it",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the plan as JSON; without --yes it isn't carried out"
    )
    parser.add_argument("--yes", action="store_true", help="write it")


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.wiring import wire

    return rekey(wire(load(args).settings).decisions.rekeying(), args, pause=sleep)


def rekey(rekeying: "Rekeying", args: argparse.Namespace, *, pause: Callable[[float], None]) -> int:
    plan = rekeying.plan(args.stream)
    if args.json:
        print_json({"plan": list(plan.sentences), "changes": _document(plan.changes)})
    else:
        tell(*plan.sentences, *_lines(plan.changes))
    if not plan.changes:
        return 0
    if not args.yes:
        tell_aside("nothing was changed: add --yes to write it")
        return 0
    # Before the rows are read again: a worker that is alive would go on by the old keys.
    rekeying.require_alone(tell_aside, pause)
    # Read anew: the plan above may be older than the last write of a worker that has stopped since.
    done = rekeying.carry_out(rekeying.plan(args.stream))
    (tell_aside if args.json else tell)(done)
    return 0


def _document(changes: "Sequence[Change]") -> list[dict[str, str]]:
    return [{"kind": change_word(change), "lease": change.key, "why": change.why} for change in changes]


def _lines(changes: "Sequence[Change]") -> list[str]:
    width = max((len(cell(change.key)) for change in changes), default=0)
    return [f"  {change_word(change)}  {cell(change.key).ljust(width)}  {change.why}" for change in changes]
