"""`headrace stop`: workers let go of their leases and leave, so that others read on at once."""

import argparse
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pipeline.cli.options import add_config, duration, load
from pipeline.cli.telling import clean, tell, tell_aside
from pipeline.core.words import counted
from pipeline.errors import BadSetting, Unknown

if TYPE_CHECKING:
    from pipeline.cli.options import Subparsers
    from pipeline.core.lease import Lease
    from pipeline.ports import LeaseStore, WorkerStore
    from pipeline.settings import Settings

WAIT = timedelta(seconds=120)
"""A wave of a minute, the commit after it, and a few ticks."""
_LOOK = 1.0
_TELL_EVERY = 5.0
_TRY_LATER = 75


@dataclass(frozen=True, slots=True)
class Stopped:
    workers: tuple[str, ...]
    left: Mapping[str, int]
    """Open leases that each still holds; empty when all are given up."""
    silent: tuple[str, ...]
    """Those of them that nobody was seen to beat for."""
    after: timedelta

    def __str__(self) -> str:
        names, seconds = ", ".join(self.workers), f"{self.after.total_seconds():.0f} s"
        if not self.left:
            return f"stopped: {names} held no open lease any more after {seconds}; `headrace stop --cancel` lets them work again"
        held = ", ".join(f"{name} {count}" for name, count in self.left.items())
        leases = counted(sum(self.left.values()), "open lease is", "open leases are")
        why = (
            f"; {', '.join(self.silent)} didn't beat: no sensor of it runs, and others take its leases once they expire"
            if self.silent
            else "; their waves may still be at work, and each lease is given up at the end of its wave"
        )
        return f"told to stop, but after {seconds} {leases} still held ({held}){why}"


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "stop",
        description="Stop workers cleanly: their runs end after their wave, their leases are given up and, if one of them "
        "leads, the lock is released. They stay stopped until --cancel, or the next `headrace dev`.",
    )
    add_config(parser)
    parser.add_argument(
        "--worker",
        metavar="ID",
        action="append",
        help="only this one (may be repeated; default: all of the settings)",
    )
    parser.add_argument("--yes", action="store_true", help="don't ask")
    parser.add_argument("--cancel", action="store_true", help="let stopped workers work again")
    parser.add_argument(
        "--wait", metavar="TIME", type=duration, default=WAIT, help="how long to wait for it (default: 120s)"
    )


def run(args: argparse.Namespace) -> int:
    settings = load(args).settings
    leases, workers = _stores(settings)
    names = _chosen(args.worker, settings, workers)
    if args.cancel:
        again = cancel(workers, names)
        tell(f"working again: {', '.join(again)}" if again else "none of them was told to stop")
        return 0
    if not args.yes:
        _ask(names)
    stopped = stop(leases, workers, names, wait=args.wait, progress=_progress)
    tell(stopped)
    return _TRY_LATER if stopped.left else 0


def stop_workers(settings: "Settings", *, wait: timedelta, progress: Callable[[str], None]) -> Stopped:
    """All workers of these settings, for a process that is about to end them."""
    leases, workers = _stores(settings)
    return stop(leases, workers, [w.id for w in settings.workers], wait=wait, progress=progress)


def start_workers(settings: "Settings") -> tuple[str, ...]:
    """Let those work that a former stop has left stopped."""
    _, workers = _stores(settings)
    return cancel(workers, [w.id for w in settings.workers])


def cancel(workers: "WorkerStore", names: Collection[str]) -> tuple[str, ...]:
    stopped = tuple(
        row.worker_id for row in workers.listing().workers if row.stopping and row.worker_id in names
    )
    for name in stopped:
        workers.set_stopping(name, stopping=False)
    return stopped


def stop(
    leases: "LeaseStore",
    workers: "WorkerStore",
    names: Sequence[str],
    *,
    wait: timedelta,
    progress: Callable[[str], None],
    pause: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Stopped:
    """The workers do it themselves, at their next ticks; this only tells them and looks on."""
    before = beats_of(workers, names)
    for name in names:
        workers.set_stopping(name, stopping=True)
    began = monotonic()
    told = -_TELL_EVERY
    while True:
        left = _left(leases, names)
        passed = monotonic() - began
        if not left or passed >= wait.total_seconds():
            break
        if passed - told >= _TELL_EVERY:
            progress(
                f"{counted(sum(left.values()), 'open lease')} still held ({', '.join(left)}), waited {passed:.0f} s"
            )
            told = passed
        pause(min(_LOOK, wait.total_seconds() - passed))
    after = beats_of(workers, left)
    silent = tuple(name for name in left if after[name] == before[name])
    return Stopped(tuple(names), left, silent, timedelta(seconds=passed))


def _left(leases: "LeaseStore", names: Collection[str]) -> dict[str, int]:
    found = {name: _held(leases.held_by(name).leases, name) for name in names}
    if not any(found.values()):
        # The owner index doesn't show who hands over, and it is late: one scan has the last word.
        every = leases.scan().leases
        found = {name: _held(every, name) for name in names}
    return {name: count for name, count in found.items() if count}


def _held(leases: "Collection[Lease]", name: str) -> int:
    """What it is to be handed counts too: nobody else would read that."""
    return sum(name in {lease.holder, lease.owner} and not lease.has_ended for lease in leases)


def beats_of(workers: "WorkerStore", names: Collection[str]) -> dict[str, object]:
    rows = {name: workers.get(name) for name in names}
    return {name: None if row is None else row.token for name, row in rows.items()}


def _stores(settings: "Settings") -> tuple["LeaseStore", "WorkerStore"]:
    from resources.lease_tables import LeaseTablesResource

    tables = LeaseTablesResource.of(settings)
    return tables.leases(), tables.workers()


def _chosen(asked: Sequence[str] | None, settings: "Settings", workers: "WorkerStore") -> tuple[str, ...]:
    own = tuple(worker.id for worker in settings.workers)
    if not asked:
        return own
    known = sorted({*own, *(row.worker_id for row in workers.listing().workers)})
    for name in asked:
        if name not in known:
            near = ", ".join(get_close_matches(name, known) or known[:5])
            raise Unknown(f"there is no worker {name!r}; nothing was stopped. Known are {near}")
    return tuple(dict.fromkeys(asked))


def _ask(names: Sequence[str]) -> None:
    what = f"stop {', '.join(names)}: runs end after their wave and all leases are given up"
    if not sys.stdin.isatty():
        raise BadSetting(f"{what}. Say so with --yes; nothing was stopped")
    if input(clean(f"{what}. Go on? [y/N] ")).strip().lower() not in {"y", "yes"}:
        raise BadSetting("nothing was stopped")


def _progress(sentence: str) -> None:
    tell_aside(sentence)
