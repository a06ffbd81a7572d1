"""Which files of the lake table have no row left that a typed table still has to parse. Pure functions on values.

    a wave has looked into files ─► looked_after ─► its commit's ledger ─► looked_in ─► the next wave looks into the
    other files only

A data file never changes. So once each of its rows is at or below a position of the typed table, the file has
nothing left for this table, unless the positions go back. A ledger names such files by the commits that added
them: all files of commits up to a sequence number are done. A file that is written anew, as by a compaction, is a
new file, and is looked into once more. See docs/reference/protocol.md, "What a typed table needn't look into".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from headrace.pipeline.core.ledger.ledger import FilesDone, LedgerPage
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.sort_texts import RowShard, past, row_shard
from headrace.pipeline.typed.values import SourceFile, WavePlan

MOST_OPEN = 100
"""The most names of files with something left that one ledger has."""
_FARTHEST = 100
"""Ledgers that are read, the newest first."""


def covers(looked: FilesDone, file: SourceFile) -> bool:
    """Whether `looked` says that the file has no row left for the typed table."""
    # Another file of that name is looked into, too, which costs time and nothing else.
    return file.added is not None and file.added <= looked.upto and _name(file) not in looked.still


def looked_in(
    pages: Iterable[LedgerPage], *, stream: str | None, leads_to: Callable[[int, int], bool]
) -> FilesDone | None:
    """What the typed table's ledgers (newest first) say about files with nothing left; None where they say
    nothing that can still be used. `stream`: the stream of which the typed table is made now; None for all
    streams. `leads_to`: whether the lake table's `main` leads to a snapshot.
    """
    for page in islice(pages, _FARTHEST):
        # A person has set the typed table back: rows of files that were done may be wanted again.
        if any(recorded.may_go_back for recorded in page.ranges):
            return None
        if page.looked is not None:
            looked = page.looked
            is_enough = looked.stream is None or looked.stream == stream
            return looked if is_enough and leads_to(looked.snapshot, looked.sequence) else None
    return None


def looked_after(
    files: Iterable[SourceFile],
    positions: Positions,
    *,
    snapshot: int | None,
    sequence: int,
    stream: str | None,
    before: FilesDone | None,
) -> FilesDone | None:
    """What a commit that brings the typed table to these `positions` may say about files with nothing left.
    `files`: all files of the lake table in this snapshot, with what surveys have found in them. `before`: what
    the typed table's earlier ledgers say.
    """
    if snapshot is None:
        return None
    passed = {row_shard(key): past(position) for key, position in positions.shards.items()}
    unfinished = sorted(
        (file.added, _name(file))
        for file in files
        if file.added is not None
        and not (before is not None and covers(before, file))
        and not _is_done(file, passed, stream)
    )
    # Where more files are open than a ledger names, the statement ends just before the first one that has no
    # room.
    upto = unfinished[MOST_OPEN][0] - 1 if len(unfinished) > MOST_OPEN else sequence
    still = frozenset(name for added, name in unfinished if added <= upto)
    return FilesDone(snapshot, sequence, upto, stream, still)


def after(plan: WavePlan, target: Positions) -> Positions:
    """The positions of the typed table after the wave."""
    return target.with_shards({planned.key: planned.upto for planned in plan.ranges})


def _is_done(file: SourceFile, passed: Mapping[RowShard, str], stream: str | None) -> bool:
    """Whether each row is at or below a position of the typed table, or of a stream that the table isn't for."""
    if file.parts is None:
        return False
    return all(
        (stream is not None and part.stream != stream)
        or (part.name in passed and part.last <= passed[part.name])
        for part in file.parts
    )


def _name(file: SourceFile) -> str:
    return file.path.rsplit("/", 1)[-1]
