"""Whether an application may begin anew: make its lake table, or decide the start of a stream in a table without
positions.

An application that has worked before has its positions in a table. If this table can't be found, a new one would take
each stream from its start again, so that records land twice, or with LATEST skip records. So only a person may decide
that it begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.core.words.words import counted

_ON_PURPOSE = (
    "To begin anew on purpose, stop the workers and delete the lease "
    "rows (`headrace tables delete`), or choose another application name"
)


def why_not_make_table(name: str, leases: Iterable[Lease]) -> str | None:
    """Why the lake table may not be created; None where nothing of this application has landed before.

    Headrace commits the origin of a stream before it writes `streamEpoch` into a row, so a row with `streamEpoch`
    shows that there was a table.
    """
    # A row of another program has neither attribute. In the order of the keys, so that the same rows give the
    # same message.
    ours = sorted(row.key for row in leases if row.stream_epoch is not None or row.landed is not None)
    if not ours:
        return None
    return (
        f"the lake table {name} isn't in the catalog, "
        f"but {counted(len(ours), 'lease row')} ({ours[0]}, ...) {_shows(ours)} that "
        "Headrace has worked for this application: "
        "the table was renamed or dropped, or landing.table, landing.catalog or "
        "landing.home was changed. No table was made and nothing was read, so that no record lands twice. "
        "Rename the table back, restore it, or correct "
        f"the setting. {_ON_PURPOSE}"
    )


def why_no_origin(stream: StreamId, leases: Iterable[Lease], *, others_have_positions: bool) -> str | None:
    """Why no origin may be decided for the stream, though the lake table has none; None where nothing of the
    stream has landed before.

    `leases`: all rows of the stream. `others_have_positions`: the table has positions of other streams, or of an
    earlier life of this one, to which rows of the earlier life belong.
    """
    landed = sorted(
        row.key
        for row in leases
        # Where the table knows nothing else, any landed row shows that it isn't the table of before. Where it
        # does, a row with the epoch of another life belongs to that life.
        if row.landed is not None and (not others_have_positions or row.stream_epoch in {None, stream.epoch})
    )
    if not landed:
        return None
    return (
        f"{stream} has no origin in the lake table, "
        f"but {counted(len(landed), 'lease row')} ({landed[0]}, ...) {_shows(landed)} that "
        "Headrace has landed records of this stream: the table was replaced, "
        "or restored from a copy that is too old. Nothing was "
        f"read, so that no record lands twice. Put the right table back. {_ON_PURPOSE}"
    )


def why_other_stream(stream: StreamId, leases: Iterable[Lease], streams: Iterable[StreamId]) -> str | None:
    """Why this stream can't be the one that the settings mean; None where it can be.

    `leases`: all rows of the stream. `streams`: the streams in the lake table. Headrace commits the origin of a
    stream before it makes the stream's first row, so the table knows the stream of each row that has an epoch.
    """
    streams = tuple(streams)
    twins = sorted(
        {
            candidate.arn
            for candidate in streams
            if candidate.name == stream.name and candidate.arn != stream.arn
        }
    )
    if twins and stream not in streams:
        return (
            f"the lake table has the stream {twins[0]}, and the settings now reach {stream.arn}: "
            "the table's rows tell streams apart by their "
            "names only. Nothing was read. Set aws.region, aws.profile, "
            "aws.endpoint, the block aws.kinesis, and the stream's role and ARN as they were, or land this stream "
            "in a table of its own (landing.table)"
        )
    for row in sorted(leases, key=lambda row: row.key):
        row_streams = {candidate for candidate in streams if candidate.epoch == row.stream_epoch}
        if (
            row.stream is None
            and row_streams
            and stream.arn not in {candidate.arn for candidate in row_streams}
        ):
            names = ", ".join(sorted({candidate.name for candidate in row_streams}))
            return (
                f"the settings name the stream {stream.name}, "
                f"but the lease rows of this application ({row.key}, ...) are of {names}. Nothing was "
                f"read, and no row was written. Name {names} again; "
                "to read both, set streams_mode: multi, name both, and use `headrace "
                f"rekey`; to read only {stream.name}, choose another application name"
            )
    return None


def _shows(keys: list[str]) -> str:
    return "shows" if len(keys) == 1 else "show"
