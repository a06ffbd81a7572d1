"""The form of a lease row, which `streams_mode` decides.

    streams_mode   key of the row                                      its attributes streamName and shardId
    single         shardId-000000000000                                left out
    multi          123456789012:orders:1767225600:shardId-000000000000 both, as in the key

An application's rows have one form. Rows of the other form come from a change of `streams_mode`, or from another
program. The lake table has no such form: its positions and ledgers name stream, life and shard in both modes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.stream import epoch_of_serialized
from headrace.pipeline.core.words.words import counted

COMMAND: Final = "headrace rekey"
"""The command that gives rows the other form, and that removes rows which nobody needs in theirs."""


def mode_of(*, multi: bool) -> str:
    return "multi" if multi else "single"


def is_of_form(row: Lease, *, multi: bool) -> bool:
    """Whether the row has the form that this application's rows have: with one stream or several, and with a key that
    fits the row's attributes."""
    if row.stream is None:
        return not multi
    # A key that contradicts the row's attributes is another program's, or damaged: such a row is reported and
    # not used.
    return multi and epoch_of_serialized(row.stream) is not None and row.key == f"{row.stream}:{row.shard_id}"


def of_other_form(leases: Iterable[Lease], *, multi: bool) -> tuple[Lease, ...]:
    """The rows that have the form of the other `streams_mode`, in the order of their keys. A row whose key
    contradicts its attributes has neither form.
    """
    rows = (row for row in leases if is_of_form(row, multi=not multi))
    return tuple(sorted(rows, key=lambda row: row.key))


def why_other_mode(leases: Iterable[Lease], *, multi: bool) -> str | None:
    """Why an application may do nothing with these settings: all of its rows have the form of the other
    `streams_mode`. None where some rows have its own form, or where there is no row yet. A few rows of the other
    form beside them are left over from earlier, and stop nothing.
    """
    leases = tuple(leases)
    other_rows = of_other_form(leases, multi=multi)
    # One row of its own form is enough: beside it, the others are left over from a command that was killed,
    # or a late create.
    if not other_rows or any(is_of_form(row, multi=multi) for row in leases):
        return None
    mode, other_mode = mode_of(multi=multi), mode_of(multi=not multi)
    return (
        f"streams_mode is {mode}, but the application's {counted(len(other_rows), 'lease row')} ({other_rows[0].key}, "
        f"...) {_have(len(other_rows))} the "
        f"form of streams_mode: {other_mode}. Nothing was read, and no row was written. "
        f"Set streams_mode: {other_mode} again; or stop the workers "
        f"(`headrace stop`) and let `{COMMAND}` give the rows the form of streams_mode: {mode}"
    )


def why_left_over(*, multi: bool) -> str:
    """Why a row of the other form isn't used, beside rows of the application's own form."""
    return f"the row has the form of streams_mode: {mode_of(multi=not multi)}; `{COMMAND}` removes it"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"
