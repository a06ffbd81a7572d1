"""The entries that Headrace writes into a snapshot's summary, and how they are read again.

Positions and ledger are in the summary where they fit, and else in files that the summary names (`pipeline.lake.state_files`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from pipeline.core.landing import Landing
from pipeline.core.ledger_codec import (
    read_delta,
    read_ledger,
    read_positions,
    write_delta,
    write_full,
    write_ledger,
    write_positions,
)
from pipeline.core.lineage import LedgerPage
from pipeline.core.position import Positions
from pipeline.core.state_delta import TiedState, as_full, plan_state, restored, unchanged
from pipeline.errors import ChainBroken
from pipeline.lake.position_chain import POSITIONS, STATE
from pipeline.lake.state_files import Pointer, StateFile, StateFiles

LEDGER = "headrace.ledger"
RUN = "headrace.run"
WRITER = "headrace.writer"
"""Name of the worker or command that committed, for people who look at the table's history. Headrace doesn't read it."""

LIMIT = 64 * 1024
"""The most bytes in a summary. Each commit writes a metadata file that repeats the summaries of all snapshots."""
_SHARDS = LIMIT // 32
"""With more shards than this, positions aren't even packed to see whether they fit: they seldom take less than 32 bytes a shard."""
_MOST_TEXT = 500
"""The most characters of an entry that only people read."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The state of a snapshot that has it in files."""

    state: TiedState
    full: StateFile


def summary_of(
    landing: Landing, states: StateFiles, *, writer: str, table: UUID, base: Stored | None = None
) -> dict[str, str]:
    """The summary's entries for this landing. Writes a state file first if they are too large."""
    ledger = {LEDGER: write_ledger(landing.page)}
    values = _inline(landing.positions, ledger)
    if values is None:
        values = {STATE: str(_written(landing, ledger, states, table=table, base=base))}
    runs = ", ".join(sorted({r.run for r in landing.page.ranges}))
    return values | {RUN: runs[:_MOST_TEXT], WRITER: writer[:_MOST_TEXT]}


def _inline(positions: Positions, ledger: Mapping[str, str]) -> dict[str, str] | None:
    if len(positions.shards) > _SHARDS:
        return None
    values = {POSITIONS: write_positions(positions), **ledger}
    return None if sum(map(len, values.values())) > LIMIT else values


def _written(
    landing: Landing, ledger: Mapping[str, str], states: StateFiles, *, table: UUID, base: Stored | None
) -> Pointer:
    """Write a delta against the full file that the base has, or a full file."""
    state = as_full(landing.positions) if base is None else plan_state(base.state, landing)
    if base is not None and state.full is base.state.full:
        delta = states.write({POSITIONS: write_delta(state.delta), **ledger}, of=table)
        pointer = Pointer(base.full, delta, state.digest)
    else:
        full = states.write({POSITIONS: write_full(state.positions), **ledger}, of=table)
        pointer = Pointer(full, digest=state.digest)
    states.kept.keep(pointer, state)
    return pointer


def state_in(summary: Mapping[str, str], states: StateFiles) -> tuple[Positions, Stored | None]:
    """The positions of a snapshot; and where they are in files with a digest, what they were made of."""
    if STATE not in summary:
        return read_positions(summary[POSITIONS]), None
    pointer = Pointer.read(summary[STATE])
    if pointer.digest is None:
        return states.full(pointer.full).positions, None
    state = _restored(pointer, states)
    if state is None:
        raise ChainBroken(
            f"the positions in {', '.join(map(states.path, pointer.names))} aren't those that the table's ledgers lead to: their digest "
            "differs from the one in the snapshot. Nothing was committed; run `headrace repair`, which takes the positions from the "
            "rows, and report this as an error of Headrace"
        )
    states.kept.keep(pointer, state)
    return state.positions, Stored(state, pointer.full)


def _restored(pointer: Pointer, states: StateFiles) -> TiedState | None:
    """The state in the files; None where it hasn't the digest that the pointer names."""
    full = states.full(pointer.full)
    changes = None if pointer.delta is None else states.read(pointer.delta)[POSITIONS]
    if (kept := states.kept.find(pointer)) is not None:
        return kept
    delta = unchanged(full).delta if changes is None else read_delta(changes)
    return restored(full, delta, pointer.digest or 0)


def positions_in(summary: Mapping[str, str], states: StateFiles) -> Positions:
    return state_in(summary, states)[0]


def ledger_in(summary: Mapping[str, str], states: StateFiles) -> LedgerPage:
    """The ledger page in a summary; empty for a snapshot that lands no range and only repeats the positions."""
    values = states.read(Pointer.read(summary[STATE]).own) if STATE in summary else summary
    text = values.get(LEDGER)
    return LedgerPage() if text is None else read_ledger(text)
