"""The lake table at the beginning of a tick or run: it is made only for an application that has never worked before."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.first_start import why_not_make_table
from headrace.pipeline.errors import OriginUnsafe
from headrace.pipeline.ports.landing import LandingTable
from headrace.pipeline.ports.leases import LeaseStore


def ensure_table(table: LandingTable, leases: LeaseStore, *, name: str) -> None:
    """Make sure that the table exists, with Headrace's columns and properties. Raises OriginUnsafe where only a person
    may make it.

    `name`: the table's name, for people.
    """
    is_new = not table.exists()
    if is_new:
        # All rows are scanned only here, which is once in an application's life.
        rows = leases.scan().leases
        # Asked again after the scan: another process may have made the table and its first rows meanwhile.
        is_new = not table.exists()
        if is_new:
            check_new_table(name, rows)
    table.ensure(create=is_new)


def check_new_table(name: str, leases: Iterable[Lease]) -> None:
    """Raise OriginUnsafe where the lease rows show that there was a table before."""
    if (why := why_not_make_table(name, leases)) is not None:
        raise OriginUnsafe(why)
