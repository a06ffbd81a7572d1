"""`headrace prove`: prove that the lake table holds each record of its ledgers once, or list what is wrong."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli.beside.told_dagster import tell_dagster
from headrace.pipeline.cli.options import add_config, add_window, load, require_home, window_of
from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.cli.views.json_output import add_json, print_json
from headrace.pipeline.errors import BadSetting

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "prove",
        description="Prove that the lake table holds what its ledgers state: each range's records once, "
        "in one chain for each shard, children after parents, each hash key read by one shard. "
        "Typed tables, their quarantine tables and the tables of windows are proved with it. "
        "Rows that an earlier proof has read aren't read again while their files are the same. "
        "The exit code is 0 if nothing is wrong, and 1 if something is. "
        "What can't be proved is named in both cases.",
    )
    add_config(parser)
    parser.add_argument(
        "--all", action="store_true", help="read all rows, also those that an earlier proof has read"
    )
    add_window(parser)
    parser.add_argument(
        "--accept-foreign",
        type=int,
        metavar="SNAPSHOT",
        help="note that the rows which another engine has inserted by this snapshot may stay, "
        "though no ledger claims them, and prove nothing. "
        "From then on a proof names them as not proved. Needs --why",
    )
    parser.add_argument("--why", metavar="TEXT", help="with --accept-foreign: the reason, which is kept")
    add_json(parser)


def _require_alone(args: argparse.Namespace) -> None:
    given = {
        "--json": args.json,
        "--from": args.since is not None,
        "--to": args.until is not None,
        "--all": args.all,
    }
    if any(given.values()):
        options = " and ".join(option for option, is_given in given.items() if is_given)
        raise BadSetting(
            f"{options} can't go with --accept-foreign, which proves nothing and prints a sentence; nothing was changed"
        )


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.wiring import wire
    from headrace.pipeline.cli.beside.services import join_spark
    from headrace.pipeline.cli.views.proof_json import proof_document

    window = window_of(args)
    if (args.accept_foreign is None) != (args.why is None):
        raise BadSetting("--accept-foreign and --why go together; nothing was changed")
    if args.accept_foreign is not None:
        _require_alone(args)
    loaded = load(args)
    require_home(loaded.settings)
    join_spark(Path(loaded.name))
    wiring = wire(loaded.settings)
    try:
        if args.accept_foreign is not None:
            from headrace.pipeline.cli.decision.person import person

            tell(wiring.proofs.accepting(person()).accept(args.accept_foreign, why=args.why))
            return 0
        proof = wiring.proofs.proving().run(window, anew=args.all)
    finally:
        wiring.ports.close()
    # Before Dagster is told, which imports Dagster and waits for its storage: a person waits for the answer.
    if args.json:
        print_json(proof_document(proof))
    else:
        tell(*proof.lines())
    if window.is_all or not proof.holds:
        # What was proved of some hours says nothing of the others.
        tell_dagster(
            Path(loaded.name), loaded.settings, lambda changes: changes.by_proving(loaded.settings, proof)
        )
    if proof.holds:
        return 0
    tell_aside(
        "headrace: the proof has changed nothing, and landing goes on; docs/use/proof.md, "
        "`When something is wrong`, tells what to do for each check"
    )
    return 1
