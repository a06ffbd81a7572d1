"""`headrace stop`: workers give up their leases, so that other workers read on at once instead of after an expiry."""

import argparse
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING

from headrace.pipeline.cli import DONE, TRY_LATER
from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.core.words.words import clean, counted
from headrace.pipeline.errors import BadSetting, Unknown
from headrace.pipeline.settings.arguments import duration

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.core.leases.lease import Lease
    from headrace.pipeline.ports.leases import LeaseStore, WorkerStore
    from headrace.pipeline.settings.model import Settings

WAIT = timedelta(seconds=120)
"""Enough for a wave of a minute (wave.seconds), the commit after it, and a few ticks."""
_LOOK = 1.0
_TELL_EVERY = 5.0


@dataclass(frozen=True, slots=True)
class Stopped:
    workers: tuple[str, ...]
    still_held: Mapping[str, int]
    """The number of open leases that each worker still holds; empty when all are given up."""
    silent: tuple[str, ...]
    """The workers in `still_held` that didn't beat while this command waited."""
    after: timedelta

    def __str__(self) -> str:
        names, seconds = ", ".join(self.workers), f"{self.after.total_seconds():.0f} s"
        if not self.still_held:
            return (
                f"stopped: {names} held no open lease any more after {seconds}; "
                "`headrace stop --cancel` lets these workers work again"
            )
        held = ", ".join(f"{name} {count}" for name, count in self.still_held.items())
        leases = counted(sum(self.still_held.values()), "open lease is", "open leases are")
        why = (
            f"; {', '.join(self.silent)} didn't beat, so no sensor runs for it: "
            "other workers take its leases once they expire"
            if self.silent
            else "; the runs of these workers may still be in a wave, and release each lease at the end of that wave"
        )
        return f"the workers were asked to stop, but after {seconds} {leases} still held ({held}){why}"


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "stop",
        description="Stop workers cleanly: their runs end after the wave that they are in, the workers give up "
        "their leases, and a worker that is the leader gives up the leader's lock. "
        "The workers stay stopped until --cancel or the next `headrace dev`.",
    )
    add_config(parser)
    parser.add_argument(
        "--worker",
        metavar="ID",
        action="append",
        help="stop only this worker (may be repeated; default: all workers in the settings)",
    )
    parser.add_argument("--yes", action="store_true", help="don't ask for confirmation")
    parser.add_argument("--cancel", action="store_true", help="let stopped workers work again")
    parser.add_argument(
        "--wait",
        metavar="TIME",
        type=duration,
        default=WAIT,
        help="how long to wait until the workers have stopped (default: 120s)",
    )


def run(args: argparse.Namespace) -> int:
    settings = load(args).settings
    leases, workers = _stores(settings)
    names = _chosen(args.worker, settings, workers)
    if args.cancel:
        again = cancel(workers, names)
        tell(f"working again: {', '.join(again)}" if again else "none of these workers was stopped")
        return 0
    if not args.yes:
        _ask(names)
    stopped = stop_and_wait(leases, workers, names, wait=args.wait, progress=tell_aside)
    tell(stopped)
    # The same command, run again later, goes on where this one stopped waiting.
    return TRY_LATER if stopped.still_held else DONE


def stop_workers(settings: "Settings", *, wait: timedelta, progress: Callable[[str], None]) -> Stopped:
    """Stop all workers in these settings, for a command that is about to end their Dagster."""
    leases, workers = _stores(settings)
    return stop_and_wait(leases, workers, [w.id for w in settings.workers], wait=wait, progress=progress)


def start_workers(settings: "Settings") -> tuple[str, ...]:
    """Let those workers work again that an earlier command has stopped. Returns their names."""
    _, workers = _stores(settings)
    return cancel(workers, [w.id for w in settings.workers])


def cancel(workers: "WorkerStore", names: Collection[str]) -> tuple[str, ...]:
    stopped = tuple(
        row.worker_id for row in workers.listing().workers if row.stopping and row.worker_id in names
    )
    for name in stopped:
        workers.set_stopping(name, stopping=False)
    return stopped


def stop_and_wait(
    leases: "LeaseStore",
    workers: "WorkerStore",
    names: Sequence[str],
    *,
    wait: timedelta,
    progress: Callable[[str], None],
    pause: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Stopped:
    """Mark the workers' rows as stopping and wait: each worker gives up its leases by itself, at its next ticks."""
    # Before the rows are marked: a worker that beats later is alive, and only slow to give up its leases.
    before = beats_of(workers, names)
    for name in names:
        workers.set_stopping(name, stopping=True)
    began = monotonic()
    said_at = -_TELL_EVERY
    while True:
        still_held = _left(leases, names)
        passed = monotonic() - began
        if not still_held or passed >= wait.total_seconds():
            break
        if passed - said_at >= _TELL_EVERY:
            progress(
                f"{counted(sum(still_held.values()), 'open lease')} still held ({', '.join(still_held)}), "
                f"waited {passed:.0f} s"
            )
            said_at = passed
        pause(min(_LOOK, wait.total_seconds() - passed))
    after = beats_of(workers, still_held)
    silent = tuple(name for name in still_held if after[name] == before[name])
    return Stopped(tuple(names), still_held, silent, timedelta(seconds=passed))


def _left(leases: "LeaseStore", names: Collection[str]) -> dict[str, int]:
    counts = {name: _held(leases.held_by(name).leases, name) for name in names}
    if not any(counts.values()):
        # The owner index lags behind the table and shows no worker that is only the old holder in a handover:
        # a scan decides.
        every = leases.scan().leases
        counts = {name: _held(every, name) for name in names}
    return {name: count for name, count in counts.items() if count}


def _held(leases: "Collection[Lease]", name: str) -> int:
    """Open leases that the worker holds, or that are being handed to it: no other worker would read these."""
    return sum(name in {lease.holder, lease.owner} and not lease.has_ended for lease in leases)


def beats_of(workers: "WorkerStore", names: Collection[str]) -> dict[str, object]:
    rows = {name: workers.get(name) for name in names}
    return {name: None if row is None else row.token for name, row in rows.items()}


def _stores(settings: "Settings") -> tuple["LeaseStore", "WorkerStore"]:
    from headrace.pipeline.app.wiring import wire

    ports = wire(settings).ports
    return ports.leases(), ports.workers()


def _chosen(names: Sequence[str] | None, settings: "Settings", workers: "WorkerStore") -> tuple[str, ...]:
    own = tuple(worker.id for worker in settings.workers)
    if not names:
        return own
    known_names = sorted({*own, *(row.worker_id for row in workers.listing().workers)})
    for name in names:
        if name not in known_names:
            near = ", ".join(get_close_matches(name, known_names) or known_names[:5])
            raise Unknown(f"there is no worker {name!r}; nothing was stopped. Known workers: {near}")
    return tuple(dict.fromkeys(names))


def _ask(names: Sequence[str]) -> None:
    what = f"stop {', '.join(names)}: their runs end after the wave that they are in, and all their leases are given up"
    if not sys.stdin.isatty():
        raise BadSetting(f"{what}. There is no terminal to ask on: confirm with --yes; nothing was stopped")
    if input(clean(f"{what}. Go on? [y/N] ")).strip().lower() not in {"y", "yes"}:
        raise BadSetting("nothing was stopped")
