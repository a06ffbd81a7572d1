"""What `skip`, `reposition` and `repair` share: show what would be done, ask, hold the shard, do it."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.cli.telling import tell, tell_aside

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipeline.core.begin import Stop
    from pipeline.core.lease import Lease
    from pipeline.core.recover import Decision
    from pipeline.duties.recover import Recovery
    from pipeline.settings import Settings

_TRY_AGAIN_EVERY = 2.0
"""Seconds between two tries for a shard that a run is reading."""


def add_deciding(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--why", required=True, type=_reason, metavar="TEXT", help="the reason, for the table's ledger"
    )
    parser.add_argument("--yes", action="store_true", help="don't ask")
    parser.add_argument(
        "--json", action="store_true", help="print the plan as JSON; without --yes nothing is done"
    )


def _reason(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError(
            "it is blank: the ledger keeps the reason for good; nothing was changed"
        )
    return text.strip()


def is_wanted(args: argparse.Namespace, sentences: Iterable[str], **facts: object) -> bool:
    """Shows the plan; whether to go on."""
    told = list(sentences)
    if args.json:
        print(json.dumps({"plan": told, "why": args.why, **facts}, indent=2))
    else:
        tell(*told)
    if args.yes or args.json:
        return bool(args.yes)
    if not sys.stdin.isatty():
        tell_aside("nothing was changed: --yes does it without asking")
        return False
    return input("Do it? [y/N] ").strip().lower() in {"y", "yes"}


def decide(
    args: argparse.Namespace,
    recovery: "Recovery",
    keys: Iterable[str],
    plan: "Callable[[Lease], Decision | Stop]",
) -> int:
    """Plans for all shards first; done one after the other, each while its row is held."""
    found = [recovery.find(key) for key in keys]
    shown = {key: _planned(recovery, key, plan) for key in found}
    sentences = [told for decision in shown.values() for told in decision.sentences]
    if not is_wanted(args, sentences, shards=found):
        return 0 if args.json else 2
    done: list[str] = []
    for key in found:
        with _telling(done, key), held(recovery, key) as row:
            decision = _plan(row, plan)
            _require_same(key, shown[key], decision)
            decision = _as_shown(shown[key], decision)
            tell(recovery.carry_out(row, decision), file=sys.stderr if args.json else sys.stdout)
            done.append(key)
    return 0


@contextmanager
def _telling(done: "Sequence[str]", key: str) -> "Iterator[None]":
    """What an error says is safe is said of one shard; those before it stay done."""
    from pipeline.errors import HeadraceError

    try:
        yield
    except HeadraceError as error:
        if not done:
            raise
        then = "letting go of it" if key in done else key
        raise type(error)(f"{', '.join(done)}: done, and it stays so. Then {then}: {error}") from error


@contextmanager
def held(recovery: "Recovery", key: str) -> "Iterator[Lease]":
    """A run that reads the shard is waited for until it gives it up, or counts as dead."""
    from pipeline.duties.recover import Busy
    from pipeline.errors import Transient

    times = recovery.settings.times
    patience = times.hung_after + times.lease_duration
    until = recovery.clock.monotonic() + patience.total_seconds()
    told = ""
    try:
        while isinstance(answer := recovery.hold(key), Busy):
            if recovery.clock.monotonic() > until:
                raise Transient(
                    f"{answer.why}, and didn't give it up within {patience}; nothing was changed. Stop its worker, or try again"
                )
            if answer.why != told:
                tell_aside(f"{answer.why}: waiting for the end of its wave")
                told = answer.why
            time.sleep(_TRY_AGAIN_EVERY)
        yield answer.row
    finally:
        recovery.let_go(key)


def recovery_of(settings: "Settings") -> "Recovery":
    from pipeline.clock import SystemClock, SystemIds
    from pipeline.duties.recover import Recovery
    from resources.lake import LakeResource
    from resources.lease_tables import LeaseTablesResource
    from resources.runs import NoDagster
    from resources.stream import StreamResource

    run = f"shell-{SystemIds().fresh()}"
    tables, source = LeaseTablesResource.of(settings), StreamResource.of(settings).source()
    return Recovery(
        claim=f"{run}/{SystemIds().fresh()}",
        settings=settings,
        leases=tables.leases(),
        workers=tables.workers(),
        runs=NoDagster(),
        source=source,
        table=LakeResource.of(settings).landing_table(run, source),
        clock=SystemClock(),
    )


def _planned(recovery: "Recovery", key: str, plan: "Callable[[Lease], Decision | Stop]") -> "Decision":
    row = recovery.leases.get(key)
    if row is None:
        recovery.find(key)
        raise AssertionError("a row that is gone is named by find")
    return _plan(row, plan)


def _plan(row: "Lease", plan: "Callable[[Lease], Decision | Stop]") -> "Decision":
    from pipeline.core.begin import Stop
    from pipeline.errors import PositionsDisagree

    decision = plan(row)
    if isinstance(decision, Stop):
        raise PositionsDisagree(decision.why)
    return decision


def _as_shown(shown: "Decision", now: "Decision") -> "Decision":
    """Up to where the person saw it, though the stream's tip is another one by now."""
    if shown.range is None or now.range is None:
        return now
    return replace(now, range=replace(now.range, upto=shown.range.upto), sentences=shown.sentences)


def _require_same(key: str, shown: "Decision", now: "Decision") -> None:
    from pipeline.errors import PositionsDisagree

    was, is_ = (d.range.after if d.range else None for d in (shown, now))
    if was != is_ or shown.row != now.row:
        raise PositionsDisagree(
            f"{key} moved between the plan and now ({was or 'nothing'}, then {is_ or 'nothing'}); nothing was changed. Look "
            "at the plan again"
        )
