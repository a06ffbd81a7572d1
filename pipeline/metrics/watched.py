"""Wraps ports so that some of their calls are measured: how long they took, and their results. The user of the
port notices nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

from headrace.pipeline.core.leases.change import Change, Outcome
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.ports.leases import NO_ROWS, LeaseStore, Listing

_Port = TypeVar("_Port")
Monotonic = Callable[[], float]


class _Watched:
    """A port, with functions in place of some of its methods."""

    def __init__(self, port: object, methods: Mapping[str, Callable[..., Any]]) -> None:
        self._port = port
        self.__dict__.update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


def watched(port: _Port, **methods: Callable[..., Any]) -> _Port:
    return cast("_Port", _Watched(port, methods))


class LeaseWatch(Protocol):
    """Its methods are called with the requests that a duty sends about lease rows. `took`: milliseconds."""

    def wrote(self, change: Change, outcome: Outcome, took: float) -> None:
        """Called after a write. Rows that are written together took the same time, because they are sent at once."""
        ...

    def scanned(self, listing: Listing | None, took: float) -> None:
        """Called after a scan.

        `listing`: None where the scan failed.
        """
        ...

    def found_own(self, *, succeeded: bool, took: float) -> None: ...


def watched_leases(leases: LeaseStore, watch: LeaseWatch, monotonic: Monotonic) -> LeaseStore:
    def apply(change: Change) -> Outcome:
        began = monotonic()
        try:
            outcome: Outcome = leases.apply(change)
        except HeadraceError as error:
            watch.wrote(change, error, _since(began, monotonic))
            raise
        watch.wrote(change, outcome, _since(began, monotonic))
        return outcome

    def apply_all(changes: Sequence[Change]) -> tuple[Outcome, ...]:
        began = monotonic()
        outcomes = leases.apply_all(changes)
        took = _since(began, monotonic)
        for change, outcome in zip(changes, outcomes, strict=True):
            watch.wrote(change, outcome, took)
        return outcomes

    def scan() -> Listing:
        began = monotonic()
        listing = None
        try:
            listing = leases.scan()
        finally:
            watch.scanned(listing, _since(began, monotonic))
        return listing

    def held_by(worker_id: str, known: Mapping[str, Any] = NO_ROWS) -> Listing:
        began, succeeded = monotonic(), False
        try:
            listing = leases.held_by(worker_id, known)
            succeeded = True
        finally:
            watch.found_own(succeeded=succeeded, took=_since(began, monotonic))
        return listing

    return watched(leases, apply=apply, apply_all=apply_all, scan=scan, held_by=held_by)


def _since(began: float, monotonic: Monotonic) -> float:
    return (monotonic() - began) * 1000
