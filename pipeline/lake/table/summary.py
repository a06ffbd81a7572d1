"""The entries that Headrace writes into a snapshot's summary, and how they are read again.

Positions and ledger are in the summary where they fit, and else in files that the summary names
(`headrace.pipeline.lake.table.state_files`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from headrace.pipeline.core.landing.landing import Landing
from headrace.pipeline.core.landing.ledger_codec import (
    read_delta,
    read_ledger,
    read_positions,
    write_delta,
    write_full,
    write_ledger,
    write_positions,
)
from headrace.pipeline.core.landing.state_delta import TiedState, as_full, plan_state, restored, unchanged
from headrace.pipeline.core.landing.valid_through import Through, overall
from headrace.pipeline.core.landing.valid_through_text import read_through, time_text, write_through
from headrace.pipeline.core.ledger.ledger import LedgerPage
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.errors import ChainBroken
from headrace.pipeline.lake.table.position_chain import POSITIONS, STATE
from headrace.pipeline.lake.table.state_files import Pointer, StateFile, StateFiles

LEDGER = "headrace.ledger"
RUN = "headrace.run"
WRITER = "headrace.writer"
"""Name of the worker or command that committed, for people who look at the table's history. Headrace doesn't read
it."""

APPLICATION = "headrace.application"
"""The application that committed. By it the leader sees that two applications land one stream in one table, and people
see which rows are whose (docs/use/workers-and-streams.md)."""

THROUGH = "headrace.valid-through"
"""Up to when the table has all records of all streams, for people and other programs. Left out where that isn't
known."""
THROUGH_OF = "headrace.valid-through.streams"
"""Up to when the table has all records of each stream. The next commit reads it and carries it on: [[ARN, epoch, time],
...]."""

LIMIT = 64 * 1024
"""The most bytes in a summary. Each commit writes a metadata file that repeats the summaries of all snapshots."""
_SHARDS = LIMIT // 32
"""With more shards than this, positions aren't even packed to see whether they fit: they seldom take less than 32 bytes
a shard."""
_MOST_TEXT = 500
"""The most characters of an entry that only people read."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The positions (the state) of a snapshot that keeps them in files."""

    state: TiedState
    full: StateFile


@dataclass(frozen=True, slots=True)
class Committer:
    """Who commits, written into the snapshot's summary for people who look at the table's history."""

    writer: str = ""
    """The name of the worker or command."""
    application: str = ""


def summary_of(
    landing: Landing, states: StateFiles, *, by: Committer, table: UUID, base: Stored | None = None
) -> dict[str, str]:
    """The summary's entries for this landing. Writes a state file first if they are too large."""
    entries = {LEDGER: write_ledger(landing.page)}
    if landing.through:
        entries[THROUGH_OF] = write_through(landing.through)
    values = _inline(landing.positions, entries)
    if values is None:
        # The file is written before the commit that names it. A commit that is refused leaves a
        # file that nobody names, which upkeep deletes; the other order could leave a snapshot
        # without its positions.
        values = {STATE: str(_written(landing, entries, states, table=table, base=base))}
    runs = ", ".join(sorted({r.run for r in landing.page.ranges}))
    until = overall(landing.through, landing.positions)
    if until is not None:
        values[THROUGH] = time_text(until)
    who = {RUN: runs, WRITER: by.writer} | ({APPLICATION: by.application} if by.application else {})
    return values | {name: text[:_MOST_TEXT] for name, text in who.items()}


def _inline(positions: Positions, entries: Mapping[str, str]) -> dict[str, str] | None:
    # Packing ten thousand positions takes longer than the rest of a commit, and they wouldn't fit.
    if len(positions.shards) > _SHARDS:
        return None
    values = {POSITIONS: write_positions(positions), **entries}
    return None if sum(map(len, values.values())) > LIMIT else values


def _written(
    landing: Landing, values: Mapping[str, str], states: StateFiles, *, table: UUID, base: Stored | None
) -> Pointer:
    """Write a delta against the full file that the base has, or a full file."""
    state = as_full(landing.positions) if base is None else plan_state(base.state, landing)
    # The full file of the base goes on: only what has changed since is written.
    if base is not None and state.full is base.state.full:
        delta = states.write({POSITIONS: write_delta(state.delta), **values}, of=table)
        pointer = Pointer(base.full, state.digest, delta)
    else:
        full = states.write({POSITIONS: write_full(state.positions), **values}, of=table)
        pointer = Pointer(full, state.digest)
    # Most likely the next commit of this process builds on this one.
    states.kept.keep(pointer, state)
    return pointer


@dataclass(frozen=True, slots=True)
class Carried:
    """The positions and `valid-through` times of all shards and streams that a snapshot has. Each commit carries
    them on to the next snapshot.
    """

    positions: Positions
    through: Through
    stored: Stored | None = None
    """For positions in files with a digest."""


def state_in(summary: Mapping[str, str], states: StateFiles) -> Carried:
    if STATE not in summary:
        return Carried(read_positions(summary[POSITIONS]), _through_in(summary))
    pointer = Pointer.read(summary[STATE])
    own = states.read(pointer.own)
    state = _restored(pointer, states, own)
    if state is None:
        raise ChainBroken(
            f"the positions in {', '.join(map(states.path, pointer.names))} aren't those that the table's ledgers lead to: their digest "
            f"differs from the one in the snapshot. Nothing was committed; {states.remedy.way}. Report this as an error of Headrace"
        )
    states.kept.keep(pointer, state)
    return Carried(state.positions, _through_in(own), Stored(state, pointer.full))


def _through_in(values: Mapping[str, str]) -> Through:
    return read_through(values.get(THROUGH_OF, "[]"))


def _restored(pointer: Pointer, states: StateFiles, own: Mapping[str, str]) -> TiedState | None:
    """The state in the files; None where it hasn't the digest that the pointer names. `own`: what the snapshot's own
    file has."""
    # Read although this process may know the state: a file that is gone has to stop the landing at
    # once, and not the next process.
    full = states.full(pointer.full, own if pointer.delta is None else states.read(pointer.full))
    if (state := states.kept.find(pointer)) is not None:
        return state
    delta = unchanged(full).delta if pointer.delta is None else read_delta(own[POSITIONS])
    return restored(full, delta, pointer.digest)


def positions_in(summary: Mapping[str, str], states: StateFiles) -> Positions:
    return state_in(summary, states).positions


def ledger_in(summary: Mapping[str, str], states: StateFiles) -> LedgerPage:
    """The ledger page in a summary; empty for a snapshot that lands no range and only repeats the positions."""
    values = states.read(Pointer.read(summary[STATE]).own) if STATE in summary else summary
    text = values.get(LEDGER)
    return LedgerPage() if text is None else read_ledger(text)
