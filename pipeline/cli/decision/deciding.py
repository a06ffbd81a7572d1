"""The steps that `skip`, `reposition` and `repair` share: show the plan, ask the person, claim the shard,
carry it out."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.cli.views.json_output import print_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.pipeline.app.wiring import Wiring
    from headrace.pipeline.core.leases.lease import Lease
    from headrace.pipeline.core.order.start_of_reading import Stop
    from headrace.pipeline.repair.decide import Recovery
    from headrace.pipeline.repair.decision_plan import Decision

# Seconds between two tries for a shard that a run is reading.
_TRY_AGAIN_EVERY = 2.0


def add_deciding(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--why",
        required=True,
        type=_reason,
        metavar="TEXT",
        help="the reason, which is kept in the table's ledger",
    )
    parser.add_argument("--yes", action="store_true", help="don't ask for confirmation")
    parser.add_argument(
        "--json", action="store_true", help="print the plan as JSON; without --yes the plan isn't carried out"
    )


def _reason(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError(
            "the reason is blank, and the table's ledger keeps it for good; nothing was changed"
        )
    return text.strip()


def is_wanted(args: argparse.Namespace, sentences: Iterable[str], **facts: object) -> bool:
    """Show the plan, ask the person, and return whether to carry it out."""
    plan = list(sentences)
    if args.json:
        print_json({"plan": plan, "why": args.why, **facts})
    else:
        tell(*plan)
    if args.yes or args.json:
        return bool(args.yes)
    if not sys.stdin.isatty():
        tell_aside(
            "nothing was changed: there is no terminal to ask on. Add --yes to carry the plan out without asking"
        )
        return False
    return input("Do it? [y/N] ").strip().lower() in {"y", "yes"}


def decide(
    args: argparse.Namespace,
    recovery: "Recovery",
    keys: Iterable[str],
    plan: "Callable[[Lease], Decision | Stop]",
) -> int:
    """Show the plan of all shards, then carry it out shard by shard, each while this command holds the
    shard's claim."""
    shards = [recovery.find(key) for key in keys]
    shown = {key: _planned(recovery, key, plan) for key in shards}
    sentences = [line for decision in shown.values() for line in decision.sentences]
    if not is_wanted(args, sentences, shards=shards):
        # With --json the plan was what was asked for; without, a person said no.
        return 0 if args.json else 2
    done: list[str] = []
    for key in shards:
        with _naming_done(done, key), claim_held(recovery, key) as row:
            # Planned anew under the claim: a run may have landed records since the plan was shown.
            decision = _plan(row, plan)
            _require_same(key, shown[key], decision)
            decision = _as_shown(shown[key], decision)
            # With --json only the plan goes to standard output, which a script reads.
            tell(recovery.carry_out(row, decision), file=sys.stderr if args.json else sys.stdout)
            done.append(key)
    return 0


@contextmanager
def _naming_done(done: "Sequence[str]", key: str) -> "Iterator[None]":
    """An error speaks of one shard ("nothing was changed"): put the shards before it, which were changed, in front."""
    from headrace.pipeline.errors import HeadraceError

    try:
        yield
    except HeadraceError as error:
        if not done:
            raise
        context = f"while the claim on {key} was released" if key in done else f"then, for {key}"
        raise type(error)(f"{', '.join(done)}: done, and not undone. But {context}: {error}") from error


@contextmanager
def claim_held(recovery: "Recovery", key: str) -> "Iterator[Lease]":
    """Claim the shard for this command. Waits until the run that reads the shard releases it, or counts as dead."""
    from headrace.pipeline.errors import Transient
    from headrace.pipeline.repair.decide import Busy

    settings = recovery.settings
    patience = settings.hung_after + settings.times.lease_duration
    until = recovery.clock.monotonic() + patience.total_seconds()
    last_why = ""
    try:
        while isinstance(answer := recovery.hold(key), Busy):
            if recovery.clock.monotonic() > until:
                raise Transient(
                    f"{answer.why}, and didn't release the shard within {patience}; nothing was changed. "
                    "Stop the worker of that run, or try again"
                )
            if answer.why != last_why:
                tell_aside(f"{answer.why}: waiting for the end of the wave")
                last_why = answer.why
            time.sleep(_TRY_AGAIN_EVERY)
        yield answer.row
    finally:
        # Also after an error, and where the claim was never got: then this changes nothing.
        recovery.release(key)


def recovery_of(wiring: "Wiring") -> "Recovery":
    from headrace.pipeline.app.wiring import NoDagster

    return wiring.decisions.recovery(f"shell-{wiring.ports.ids.fresh()}", NoDagster())


def _planned(recovery: "Recovery", key: str, plan: "Callable[[Lease], Decision | Stop]") -> "Decision":
    row = recovery.leases.get(key)
    if row is None:
        recovery.find(key)
        raise AssertionError("`Recovery.find` raises an error for a shard whose lease row is gone")
    return _plan(row, plan)


def _plan(row: "Lease", plan: "Callable[[Lease], Decision | Stop]") -> "Decision":
    from headrace.pipeline.core.order.start_of_reading import Stop
    from headrace.pipeline.errors import PositionsDisagree

    decision = plan(row)
    if isinstance(decision, Stop):
        raise PositionsDisagree(decision.why)
    return decision


def _as_shown(shown: "Decision", fresh: "Decision") -> "Decision":
    """The new decision, with the end that the person saw: the stream may have got newer records since then."""
    if shown.range is None or fresh.range is None:
        return fresh
    return replace(fresh, range=replace(fresh.range, upto=shown.range.upto), sentences=shown.sentences)


def _require_same(key: str, shown: "Decision", fresh: "Decision") -> None:
    from headrace.pipeline.errors import PositionsDisagree

    planned_after, fresh_after = (d.range.after if d.range else None for d in (shown, fresh))
    if planned_after != fresh_after or shown.row != fresh.row:
        raise PositionsDisagree(
            f"{key} moved between the plan and now ({planned_after or 'nothing'}, then {fresh_after or 'nothing'}); "
            "nothing was changed. Run the command again to see the plan as it is now"
        )
